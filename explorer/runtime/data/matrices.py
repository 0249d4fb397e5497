"""Sparse matrices with the sizes of the graphs of Ember's Table 2, whole or a sample of them: generated.

A sample of 1/k keeps rows whole: of each k rows of the whole graph that are next to each other in degree, the one whose
degree is nearest to their mean, with all its entries. So degrees have the distribution of the whole, hubs and empty
rows included, where a graph of a k-th of the vertices that is generated anew has smaller hubs with a larger share.
Columns keep their share too: the busiest are columns of their own, and the others, each of which is rare, share the
columns that are left. What is near its row in the whole graph is as near in the sample.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from explorer.compiler.kept import ByContent, content
from explorer.runtime.data.index_lists import GENERATED, MEMORY_LIMIT, SparseRows, by_row, check_size
from explorer.runtime.data.triples import Ids, InputError


@dataclass(frozen=True)
class MatrixPreset:
    """The size of a published graph and how its edges are spread.

    P(rank < x n) = x ** (1 - skew) for the vertex of a row and of a column; only the share `active` of the rows have
    edges. The share `near` of the columns lie within about `span` vertices of their row, as where vertices are
    numbered by place or by community.
    """

    vertices: int
    edges: int
    elements: int  # of a vertex's embedding vector
    row_skew: float
    col_skew: float
    active: float = 1.0
    near: float = 0.0
    span: int = 100


MATRIX_PRESETS: dict[str, MatrixPreset] = {
    "arxiv": MatrixPreset(169_343, 1_166_243, 128, 0.34, 0.63),
    "mag": MatrixPreset(1_939_743, 21_111_007, 128, 0.5, 0.55),
    "products": MatrixPreset(2_449_029, 61_859_140, 100, 0.44, 0.44, near=0.1),
    "proteins": MatrixPreset(132_534, 39_561_252, 8, 0.22, 0.22, near=0.2, span=500),
    "com-Youtube": MatrixPreset(1_134_890, 5_975_248, 128, 0.62, 0.62, near=0.1),
    "roadNet-CA": MatrixPreset(1_965_206, 5_533_214, 128, 0.0, 0.0, near=1.0, span=20),
    "web-Google": MatrixPreset(875_713, 5_105_039, 128, 0.32, 0.51, near=0.3),
    "wiki-Talk": MatrixPreset(2_394_385, 5_021_410, 128, 0.67, 0.5, active=0.062),
    "biokg": MatrixPreset(93_773, 5_088_434, 512, 0.53, 0.74),
    "wikikg2": MatrixPreset(2_500_604, 17_137_181, 512, 0.53, 0.74),
}
"""The graphs of Ember's Table 2 with the exact counts that SNAP and OGB publish for what it rounds. Only the sizes are
theirs. The exponents give the busiest vertex about the degree that it has in the real graph where that is well known
(com-Youtube 29 thousand, roadNet-CA around ten, wiki-Talk 100 thousand), and are assumptions elsewhere."""

SMALLEST = 16
"""Vertices that a scaled-down graph has at least."""


def scaled(name: str, preset: MatrixPreset, scale: int) -> MatrixPreset:
    """The preset with 1/scale of its vertices and about as many of its edges. Raises InputError."""
    if scale < 1 or preset.vertices // scale < SMALLEST:
        raise InputError(f"{name}/{scale}: {name} can be divided by 1 to {preset.vertices // SMALLEST:,}")
    return MatrixPreset(
        preset.vertices // scale,
        preset.edges // scale,
        preset.elements,
        preset.row_skew,
        preset.col_skew,
        preset.active,
        preset.near,
        preset.span,
    )


def matrix(name: str, scale: int = 1, columns: int = 0, limit: int = MEMORY_LIMIT) -> SparseRows:
    """A preset's adjacency matrix, the same on every call: row v holds the neighbours that v gathers, in order.

    A sample of one row in `scale` has as many columns as rows, or else `columns`. Raises InputError where its arrays
    would not fit in memory; that is decided before any of them is made.
    """
    whole, preset = MATRIX_PRESETS[name], scaled(name, MATRIX_PRESETS[name], scale)
    shown = name if scale == 1 else f"{name}/{scale}"
    check_size(shown, preset.vertices, preset.edges, f"take a part of it, such as {name}/{scale * 10}", limit)
    key = content(shown, repr(whole), scale, columns)
    found = _MADE.made(key, lambda: _generated(shown, whole, preset, scale, columns))
    return replace(found, ptr=found.ptr.copy(), idx=found.idx.copy())


_MADE = ByContent[SparseRows](32 << 20, lambda lists: lists.ptr.nbytes + lists.idx.nbytes)
"""The latest, since to draw one takes longer than to run an op on it: its degrees are those of the whole graph."""


def _generated(shown: str, whole: MatrixPreset, preset: MatrixPreset, scale: int, columns: int) -> SparseRows:
    """The matrix that `matrix` gives."""
    random = np.random.default_rng(zlib.crc32(shown.encode()))
    busy = random.permutation(preset.vertices).astype(np.int32)
    if scale == 1:
        rows = busy[_ranks(random, preset.edges, _active(preset), preset.row_skew)]
    else:
        rows = np.repeat(busy, _sampled_degrees(random, whole, preset.vertices))
    cols = _columns(random, whole, rows, random.permutation(columns).astype(np.int32) if columns else busy[::-1])
    rows, cols = _sorted_pairs(rows, cols)
    about = f"Ember Table 2: {preset.vertices:,} vertices, {preset.edges:,} edges"
    return by_row(
        rows,
        cols,
        preset.vertices,
        SparseRows(
            name=shown,
            source=GENERATED,
            num_cols=columns or preset.vertices,
            ptr=np.zeros(0, dtype=np.int32),
            idx=np.zeros(0, dtype=np.int32),
            row_shape=(preset.elements,),
            about=about if scale == 1 else f"one row in {scale} of {shown.split('/')[0]} in Ember's Table 2, whole",
        ),
    )


def _sorted_pairs(rows: Ids, cols: Ids) -> tuple[Ids, Ids]:
    """Entries by row and column. They have no order of their own to go back to, so plain numbers are sorted."""
    pairs = rows.astype(np.int64)
    pairs <<= 32
    pairs |= cols
    pairs.sort()
    return (pairs >> 32).astype(np.int32), pairs.astype(np.int32)  # of whose bits the lower stay


def _active(preset: MatrixPreset) -> int:
    """How many rows may have entries."""
    return max(1, int(preset.active * preset.vertices))


def _ranks(random: np.random.Generator, edges: int, vertices: int, skew: float) -> Ids:
    """For every edge the rank of a vertex among `vertices`, the first ranks the busiest."""
    uniform = random.random(edges)
    ranks: Ids = np.minimum(vertices * uniform ** (1 / (1 - skew)), vertices - 1).astype(np.int32)
    return ranks


def _sampled_degrees(random: np.random.Generator, whole: MatrixPreset, count: int) -> npt.NDArray[np.int64]:
    """The degrees of `count` rows that stand for equal shares of all rows of the whole graph, the highest first."""
    active = _active(whole)
    shares = np.diff((np.arange(active + 1) / active) ** (1 - whole.row_skew))
    degrees = np.zeros(whole.vertices, dtype=np.int64)
    degrees[:active] = np.sort(random.poisson(whole.edges * shares))[::-1]
    bounds = np.arange(count + 1, dtype=np.int64) * whole.vertices // count
    means = np.add.reduceat(degrees, bounds[:-1]) / np.diff(bounds)
    # Degrees fall within each share, so the one nearest to their mean is beside where the mean would stand.
    after = len(degrees) - np.searchsorted(degrees[::-1], means, side="left")
    near = np.clip([after - 1, after], bounds[:-1], bounds[1:] - 1)
    lower_is_nearer = np.abs(degrees[near[1]] - means) < np.abs(degrees[near[0]] - means)
    found: npt.NDArray[np.int64] = np.where(lower_is_nearer, degrees[near[1]], degrees[near[0]])
    return found


def _columns(random: np.random.Generator, whole: MatrixPreset, rows: Ids, order: Ids) -> Ids:
    """For every edge its column: near its row, or by its rank in the whole graph; `order` has the busiest first."""
    edges, count = len(rows), len(order)
    ranks = _ranks(random, edges, whole.vertices, whole.col_skew)
    if count != whole.vertices:
        own = count // 2
        ranks = np.where(ranks < own, ranks, own + ranks % max(1, count - own))
    cols = order[ranks]
    near = np.flatnonzero(random.random(edges) < whole.near)
    steps = random.geometric(1 / whole.span, size=edges)[near] * (2 * random.integers(2, size=edges)[near] - 1)
    cols[near] = (rows[near] + steps) % count
    return cols
