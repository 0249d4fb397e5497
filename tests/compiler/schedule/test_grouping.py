"""The inspector: every row in one tile, of its own matrix, and no tile higher than it need be."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir.kernels import Barrier, Loop, Where
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, Span, VerificationError
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.schedule.inspect.group_by_matrix import GRANULE, ROWS_A_TILE, WINDOW, Chosen, group_rows
from explorer.compiler.schedule.inspect.segment_tiles import tile_segments
from tests.compiler.models import compiled

BATCHES = {
    "one row": [0],
    "one matrix": [2] * 200,
    "a row more than a tile": [1] * 65,
    "all distinct": range(7),
    "most are empty": [6] * 3 + [1] * 70 + [6] * 9,
    "more matrices than are counted at a time": [WINDOW - 1] * 70 + [WINDOW, 0, 2 * WINDOW] + [WINDOW] * 5,
    "skewed": np.random.default_rng(1).zipf(1.5, 500) % 40,
}


def group(chosen, matrices):
    """The arrays that the inspector fills for rows that have chosen these matrices, and its grouping."""
    origin = (Span(1, 1, 1, 2),)
    buffer = Buffer(name="r", kind="index", extents=("B",), origin=origin)
    grouping = group_rows("model", Chosen(buffer, "B"), "relation", Names({"r", "B", "relation"}), origin)
    arrays = {"r": np.array(chosen), "relation": matrices, "B": len(chosen)}
    return run_scheduled(grouping.kernels, arrays), grouping


def segments(chosen, matrices):
    """Those of rows that lie matrix by matrix, which the inspector leaves as they are."""
    origin = (Span(1, 1, 1, 2),)
    buffer = Buffer(name="r", kind="index", extents=("B",), origin=origin)
    grouping = tile_segments("model", buffer, "relation", Names({"r", "B", "relation"}), origin)
    (kernel,) = grouping.kernels
    verify_scheduled(kernel)
    return run_scheduled((kernel,), {"r": np.array(chosen), "relation": matrices, "B": len(chosen)}), grouping


def found(chosen, matrices, ordered):
    """The rows in order, where all tiles begin and end, and their matrices."""
    arrays, grouping = (segments if ordered else group)(chosen, matrices)
    order = np.arange(len(chosen)) if grouping.order is None else arrays[grouping.order.name]
    return order, *(arrays[buffer.name] for buffer in (grouping.begin, grouping.end, grouping.matrix))


@pytest.mark.parametrize("ordered", [False, True], ids=["grouped", "as they lie"])
@pytest.mark.parametrize("chosen", BATCHES.values(), ids=BATCHES)
def test_every_row_is_in_one_tile_with_its_matrix(chosen, ordered):
    chosen, matrices = sorted(chosen) if ordered else chosen, max(chosen) + 2
    order, begins, ends, of_tiles = found(chosen, matrices, ordered)
    rows = [int(row) for begin, end in zip(begins, ends, strict=True) for row in order[begin:end]]
    assert sorted(rows) == list(range(len(chosen)))
    for matrix, begin, end in zip(of_tiles, begins, ends, strict=True):
        assert {chosen[row] for row in order[begin:end]} <= {matrix}
    assert len(begins) == -(-len(chosen) // ROWS_A_TILE) + matrices


@pytest.mark.parametrize("ordered", [False, True], ids=["grouped", "as they lie"])
@pytest.mark.parametrize("chosen", BATCHES.values(), ids=BATCHES)
def test_tiles_are_few_and_equal_and_the_highest_come_first(chosen, ordered):
    _, begins, ends, matrices = found(sorted(chosen) if ordered else chosen, max(chosen) + 1, ordered)
    sizes = ends - begins
    for matrix in set(chosen):
        own = sizes[(matrices == matrix) & (sizes > 0)]
        assert len(own) == -(-own.sum() // ROWS_A_TILE)
        assert own.max() <= ROWS_A_TILE
        assert own.max() - own.min() < len(own)
    first = {matrix: sizes[(matrices == matrix) & (sizes > 0)].max() for matrix in set(chosen)}
    heights = [-(-first[matrix] // GRANULE) for matrix, size in zip(matrices, sizes, strict=True) if size]
    assert heights == sorted(heights, reverse=True)


def test_the_kernels_are_sound():
    _, grouping = group([0, 1], 2)
    assert [kernel.name for kernel in grouping.kernels] == [
        "model_tile",
        "model_order",
    ]
    for kernel in grouping.kernels:
        verify_scheduled(kernel)


def without_barrier(body, place):
    """Statements without the barrier of that place among all, and how many there were."""
    kept, met = [], 0
    for statement in body:
        if isinstance(statement, Barrier):
            met += 1
            if met - 1 == place:
                continue
        if isinstance(statement, Loop | Where):
            inner, count = without_barrier(statement.body, place - met)
            statement, met = replace(statement, body=inner), met + count
        kept.append(statement)
    return tuple(kept), met


def test_the_one_block_waits_wherever_it_must():
    tile, _ = group([0, 1], 2)[1].kernels
    _, barriers = without_barrier(tile.body, -1)
    assert barriers == 5
    for place in range(barriers):
        with pytest.raises(VerificationError, match="no barrier block between"):
            verify_scheduled(replace(tile, body=without_barrier(tile.body, place)[0]))


TWO_GROUPINGS = """dim F = 16
op Model(A: csr[row, col]):
    param x[row, F], s[col], P[col, F, F]
    for i in A.rows():
        for j, w in A.row(i):
            i["y"] += s[j] * x[i]
        i["z"] = sum(outer(P[j] @ x[i], i["y"]) for j, w in A.row(i))
    return i["z"]
"""


def test_two_groupings_of_one_nest_are_kernels_of_two_names():
    """The gradient of P is summed by groups of the rows of a nest, of which another product has grouped others."""
    made = compiled(TWO_GROUPINGS, options={"grad": True}).stages["cuda"].program
    symbols = [launch.symbol for launch in made.launches]
    assert len([symbol for symbol in symbols if "group_order" in symbol or "tiles" in symbol]) > 1
    assert len(symbols) == len(set(symbols))
