"""Sparse matrices with the sizes of the graphs of Ember's Table 2, whole or scaled down: generated."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from explorer.runtime.inputs import Ids, InputError
from explorer.runtime.sparse import GENERATED, MEMORY_LIMIT, SparseRows, by_row, check_size


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
    """The preset with 1/scale of its vertices and edges, so of the same mean degree. Raises InputError."""
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


def matrix(name: str, scale: int = 1, limit: int = MEMORY_LIMIT) -> SparseRows:
    """A preset's adjacency matrix, the same on every call: row v holds the neighbours that v gathers, in order.

    Raises InputError where its arrays would not fit in memory; that is decided before any of them is made.
    """
    preset = scaled(name, MATRIX_PRESETS[name], scale)
    shown = name if scale == 1 else f"{name}/{scale}"
    check_size(shown, preset.vertices, preset.edges, f"take a part of it, such as {name}/{scale * 10}", limit)
    random = np.random.default_rng(zlib.crc32(shown.encode()))
    busy = random.permutation(preset.vertices).astype(np.int32)
    rows = busy[_ranks(random, preset, max(1, int(preset.active * preset.vertices)), preset.row_skew)]
    cols = _columns(random, preset, rows, busy)
    by_column = np.argsort(cols, kind="stable")
    about = f"Ember Table 2: {preset.vertices:,} vertices, {preset.edges:,} edges"
    found = SparseRows(
        name=shown,
        source=GENERATED,
        num_cols=preset.vertices,
        ptr=np.zeros(0, dtype=np.int32),
        idx=np.zeros(0, dtype=np.int32),
        row_shape=(preset.elements,),
        about=about if scale == 1 else f"1/{scale} of the vertices and edges of {name} in Ember's Table 2",
    )
    sorted_rows = by_row(rows[by_column], cols[by_column], preset.vertices, found)
    # The generated edges have no order of their own to go back to.
    return SparseRows(**{**vars(sorted_rows), "order": None})


def _ranks(random: np.random.Generator, preset: MatrixPreset, vertices: int, skew: float) -> Ids:
    """For every edge the rank of a vertex among `vertices`, the first ranks the busiest."""
    uniform = random.random(preset.edges)
    ranks: Ids = np.minimum(vertices * uniform ** (1 / (1 - skew)), vertices - 1).astype(np.int32)
    return ranks


def _columns(random: np.random.Generator, preset: MatrixPreset, rows: Ids, busy: Ids) -> Ids:
    """For every edge its column: near its row, or by rank."""
    cols = busy[::-1][_ranks(random, preset, preset.vertices, preset.col_skew)]
    near = random.random(preset.edges) < preset.near
    steps = random.geometric(1 / preset.span, size=preset.edges) * random.choice((-1, 1), size=preset.edges)
    beside = (rows.astype(np.int64) + steps) % preset.vertices
    return np.where(near, beside, cols).astype(np.int32)
