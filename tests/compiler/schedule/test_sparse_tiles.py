"""G-Sparse's tiles, set by options: rows and columns a block, vectors a lane, a preload into shared memory; and what
options say where they do nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from explorer.compiler.compilation import compile_model
from explorer.compiler.decisions import Schedule as Choices
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Index, Load
from explorer.compiler.ir.node import Origin, VerificationError, walk
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import OptionError, read_options
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.queries import edit
from explorer.compiler.schedule.segments.by_dots import schedule_dots
from explorer.compiler.schedule.segments.by_nonzeros import schedule_nonzeros
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.staging.tile_bounds import UNBOUNDED, Interval, tile_bounds
from explorer.compiler.to_json import kernels_of
from tests.compiler.schedule.ragged import EXAMPLES, Schedule, arrays_for, kernel_of, largest_error, scheduled

SHORT = (3, 0, 1, 5)
CUT = (0, 40, 0, 0, 25, 7, 0, 64, 32, 0)
"""Rows that end before a tile of 32 elements, with it, and after it."""
SUMS = ("sls", "sls_max", "sls_mean", "spmm", "spmm_max", "mp")
ORIGIN: Origin = ()


def said(example: str, size: int, schedule: Schedule = schedule_rows, **options: str | int | bool) -> list[str]:
    """What a schedule refused."""
    report = Report(read_options(options))
    schedule(kernel_of(example, size), report)
    return report.refusals


def shared_tiles(kernel: ScheduledKernel) -> list[tuple[str, tuple[str | int, ...]]]:
    """The tiles in shared memory and their extents."""
    tiles = [node for node in walk(kernel) if isinstance(node, kernels.Tile) and node.memory == "shared"]
    return [(tile.name, tile.extents) for tile in tiles]


@pytest.mark.parametrize("lengths", [(0, 0), CUT, (300,)])
@pytest.mark.parametrize("size", [4, 100])
@pytest.mark.parametrize("example", SUMS)
def test_preloaded_rows_sum_what_the_loops_do(example: str, size: int, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, size)
    (made,) = scheduled(schedule_rows, kernel, preload=32)
    assert shared_tiles(made)
    assert largest_error(kernel, [made], arrays_for(kernel, lengths)) < 1e-5


def test_the_bounds_of_a_preload_are_shown() -> None:
    (made,) = scheduled(schedule_rows, kernel_of("spmm", 128), preload=64)
    assert shared_tiles(made) == [("value_tile", (64,)), ("col_tile", (64,))]
    bound = "[begin + 64 round, min(begin + 64 round + 64, end) - 1]"
    for line in (
        f"bound col: {bound}",
        f"bound value: {bound}",
        "bound X: [-inf, +inf], by elements that are loaded",
        "preload z by kNnzTile = 64 into shared memory: min(end - begin - 64 round, 64) elements of a row, allocated"
        " 8 x 64 of value, col, 4,096 bytes a block",
    ):
        assert line in made.schedule


@pytest.mark.parametrize(("staged", "tiles"), [("indices", ["col_tile"]), ("values", ["value_tile"])])
@pytest.mark.parametrize("size", [33, 128])
def test_indices_and_values_are_staged_apart(staged: str, tiles: list[str], size: int) -> None:
    chosen = Choices.parse(f"SpMM_0: strategy = rows, preload = 32, staged = {staged}")
    text = (EXAMPLES / "spmm.emb").read_text()
    stage = compile_model(text, sizes={"D": size}, schedule=chosen, on_demand=True).stages["kernels"]
    (made,) = kernels_of(stage.program)
    assert [name for name, _ in shared_tiles(made)] == tiles
    assert f"staged = {staged}" in stage.text
    kernel = kernel_of("spmm", size)
    assert largest_error(kernel, [made], arrays_for(kernel, CUT)) < 1e-5


def test_what_a_value_is_made_of_is_looked_up_again() -> None:
    """A weight of an edge that comes of its ends: with values alone in shared memory, the end is read twice."""
    text = """dim D = 32
layer Weighted(g: graph):
    input x[node, D], s[node]
    for n in g.nodes():
        n["h"] = sum(sigmoid(e.src.s) * e.src.x for e in n.incoming_edges())
    return n["h"]
"""
    found = {}
    for staged in ("both", "indices", "values"):
        chosen = Choices.parse(f"Weighted_0: strategy = rows, preload = 32, staged = {staged}")
        (made,) = kernels_of(compile_model(text, schedule=chosen, on_demand=True).stages["kernels"].program)
        loads = [node.buffer for node in walk(made) if isinstance(node, Load)]
        found[staged] = len(shared_tiles(made)), loads.count("src")
    assert found == {"both": (2, 1), "indices": (1, 1), "values": (1, 2)}


def test_values_that_there_are_none_of_are_not_staged() -> None:
    chosen = Choices.parse("SLS_0: strategy = rows, preload = 32, staged = values")
    stage = compile_model((EXAMPLES / "sls.emb").read_text(), schedule=chosen).stages["kernels"]
    assert "staged = both" in stage.text
    said = [each for report in stage.passes for each in report.refusals]
    assert any("staged=values: both, for its elements have no values" in each for each in said), said


def test_bounds_of_what_an_index_is_made_of() -> None:
    segment = loops.For(
        variable="z",
        lower="begin",
        extent="end",
        body=(
            Index(result="ahead", function="add", operands=("first", "z"), origin=ORIGIN),
            Index(result="back", function="sub", operands=("ahead", 1), origin=ORIGIN),
            Index(result="other", function="sub", operands=("first", "z"), origin=ORIGIN),
            Index(result="half", function="div", operands=("z", 2), origin=ORIGIN),
            Load(result="a", buffer="A", indices=("back",), origin=ORIGIN),
            Load(result="b", buffer="B", indices=("half",), origin=ORIGIN),
            Load(result="c", buffer="C", indices=("other",), origin=ORIGIN),
            Load(result="n", buffer="N", indices=("first",), origin=ORIGIN),
            Index(result="shifted", function="add", operands=("n", "z"), origin=ORIGIN),
            Load(result="d", buffer="D", indices=("shifted",), origin=ORIGIN),
            Load(result="e", buffer="E", indices=("d",), origin=ORIGIN),
        ),
        origin=ORIGIN,
    )
    found = tile_bounds(segment, Interval("0", "7"))
    assert {name: str(interval) for name, interval in found.items()} == {
        "A": "[first + 0 - 1, first + 7 - 1]",
        "B": str(UNBOUNDED),
        "C": str(UNBOUNDED),
        "N": "[first, first]",
        "D": "[n + 0, n + 7]",  # where a row begins is one element, so that what it offsets is bounded
        "E": str(UNBOUNDED),
    }


def test_a_tile_in_shared_memory_is_read_after_it_is_written_and_written_after_it_is_read() -> None:
    (made,) = scheduled(schedule_rows, kernel_of("spmm", 128), preload=32)
    (over,) = [node for node in walk(made) if isinstance(node, kernels.Loop) and node.variable == "round"]
    waits = [at for at, statement in enumerate(over.body) if isinstance(statement, kernels.Barrier)]
    fill = next(at for at, s in enumerate(over.body) if isinstance(s, kernels.Loop) and s.bind == "lane")
    assert waits == [fill + 1, len(over.body) - 1]
    for at in waits:
        left = replace(over, body=(*over.body[:at], *over.body[at + 1 :]))
        without = replace(made, body=edit(made.body, lambda s, left=left: (left,) if s == over else (s,)))
        with pytest.raises(VerificationError):
            verify_scheduled(without)


@pytest.mark.parametrize("rows", [1, 4, 32])
def test_a_block_has_as_many_rows_as_are_asked_for(rows: int) -> None:
    kernel = kernel_of("spmm", 32)
    (made,) = scheduled(schedule_rows, kernel, block_rows=rows)
    assert made.threads == 32 * rows
    assert f"split r: a block of {rows} warps has kMTile = {rows} rows" in made.schedule
    assert largest_error(kernel, [made], arrays_for(kernel, (3, 0, 1, 5) * 12)) < 1e-5


@pytest.mark.parametrize(("elements", "warps"), [(0, 8), (32, 1), (128, 4), (1024, 32)])
def test_a_block_has_as_many_dot_products_as_are_asked_for(elements: int, warps: int) -> None:
    kernel = kernel_of("sddmm", 64)
    (made,) = scheduled(schedule_dots, kernel, block_rows=elements)
    assert made.threads == 32 * warps
    assert made.schedule[0].startswith(f"split z: a block of {warps} warps has {32 * warps} elements")
    assert largest_error(kernel, [made], arrays_for(kernel, (3, 0, 50, 21))) < 1e-5


def test_blocks_of_too_many_rows() -> None:
    assert said("spmm", 32, block_rows=64) == [
        "SpMM_0: block_rows=64: 32, for a warp has 1 of them, and a block 32 warps"
    ]
    assert said("sddmm", 64, schedule_dots, block_rows=16) == [
        "SDDMM_0: block_rows=16: 32, for a warp has 32 rows at a time"
    ]
    report = Report(read_options({"block_rows": 32}))
    (made,) = schedule_rows(kernel_of("spmm", 512), report)
    assert made.threads == 1024
    assert "its tiles do not stay in registers, for a thread needs 74, and a block of 1,024" in report.done[0]


@pytest.mark.parametrize(
    ("options", "tiles", "lanes", "vectors"),
    [
        ({"block_columns": 64}, 4, 16, 1),
        ({"block_columns": 64, "lanes": 4}, 4, 4, 4),
        ({"lane_vectors": 1}, 2, 32, 1),
        ({"lane_vectors": 1, "lanes": 8}, 8, 8, 1),
        ({"lane_vectors": 2}, 1, 32, 2),
        ({"lane_vectors": 4}, 1, 16, 4),
        ({"block_columns": 128, "lane_vectors": 2}, 2, 16, 2),
    ],
)
@pytest.mark.parametrize("more", [{}, {"preload": 32}, {"balance": True}])
def test_tiles_of_columns_are_lanes_by_vectors(
    options: dict[str, int], tiles: int, lanes: int, vectors: int, more: dict[str, int]
) -> None:
    """Of 256 columns: kNTile = kLaneWidth x 4 x kNRegTile, by columns of blocks where there are several."""
    kernel = kernel_of("spmm", 256)
    steps = scheduled(schedule_rows, kernel, **options, **more)
    made = steps[-1]
    columns = [node.extent for node in walk(made) if isinstance(node, kernels.Loop) and node.bind == "column"]
    assert columns == ([tiles] if tiles > 1 else [])
    widths = {node.width for node in walk(made) if isinstance(node, kernels.Loop) and node.step == 4}
    assert widths == {lanes}
    stride = f"stride: a lane has kNRegTile = {vectors} vectors of a row, {lanes} lanes apart"
    assert (stride in made.schedule) == (vectors > 1)
    assert largest_error(kernel, steps, arrays_for(kernel, CUT)) < 1e-5


@pytest.mark.parametrize(("schedule", "example"), [(schedule_rows, "spmm_max"), (schedule_nonzeros, "spmm")])
@pytest.mark.parametrize("vectors", [1, 2, 4, 8, 16])
def test_a_lane_has_at_most_as_many_vectors_as_are_asked_for(schedule: Schedule, example: str, vectors: int) -> None:
    kernel = kernel_of(example, 64)
    steps = scheduled(schedule, kernel, lane_vectors=vectors)
    line = f"stride: a lane has kNRegTile = {vectors} vectors of a row, {16 // vectors} lanes apart"
    assert (line in steps[0].schedule) == (vectors > 1)
    assert largest_error(kernel, steps, arrays_for(kernel, SHORT)) < 1e-5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"block_columns": 32}, "SpMM_0: block_columns=32: nothing, for rows of 100 columns are no whole tiles of 32"),
        ({"block_columns": 128}, "SpMM_0: block_columns=128: nothing, for a row has 100"),
        ({"lanes": 32, "lane_vectors": 8}, "SpMM_0: lanes=32: 4 share a row of 25 vectors of 4, for each to have 8"),
    ],
)
def test_tiles_that_do_not_come_about(options: dict[str, int], sentence: str) -> None:
    assert said("spmm", 100, **options) == [sentence]


def test_sums_over_whole_rows_are_not_cut() -> None:
    """Message passing has a dot product of whole rows for each edge; a softmax has a number that is every column's."""
    found = refusals_of("embedding/mp", split="rows", block_columns=16)
    assert "MP_0: block_columns=16: nothing, for s += x1 * x2 is of all columns" in found
    softmax = {"aggregate": False, "split": "rows", "block_columns": 16}
    assert not any("block_columns" in each for each in refusals_of("rgnn/rgat", **softmax))


def test_rows_that_share_a_warp_and_heads_are_not_preloaded() -> None:
    found = refusals_of("rgnn/rgat", aggregate=False, split="rows", preload=32)
    assert "RGAT_3: preload=32: nothing, for a warp has 2 rows at a time, each of a length of its own" in found
    heads = "preload=32: nothing, for lanes have a row's heads, each on its own way through the row"
    found = refusals_of("embedding/spattn", grad=True, split="rows", preload=32)
    assert f"SpAttn_1: {heads}" in found
    assert not any("shown right" in each for each in found)


def refusals_of(model: str, **options: str | int | bool) -> list[str]:
    """What the pass that schedules a program says that it has not done."""
    compiled = compile_model((EXAMPLES.parent / f"{model}.emb").read_text(), options=options)
    return [each for report in compiled.stages["kernels"].passes for each in report.refusals]


ROWS = "nothing, for no sum over segments is split by rows (split=rows)"
NONZEROS = "nothing, for no sum over segments is split by nonzeros"
LANES = "nothing, for no sum over segments and no dot product of rows is shared out among lanes"
SPLIT = "nothing, for no sum over segments, such as a matrix's rows or a node's edges, is shared out among lanes"


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("embedding/spmm", {"balance": True}, f"SpMM: balance: {ROWS}"),
        ("embedding/spmm", {"block_rows": 4, "block_columns": 32, "preload": 64},
         f"SpMM: block_columns, preload: {ROWS}"),
        ("embedding/spmm", {"block_rows": 4}, f"SpMM: block_rows: {ROWS}, and no dot product is an edge's"),
        ("embedding/spmm", {"split": "rows", "chunk": 64}, f"SpMM: chunk: {NONZEROS}"),
        ("embedding/sls", {"popular": True}, f"SLS: popular: {NONZEROS}, and no dot product is an edge's"),
        ("embedding/sddmm", {"split": "rows"}, f"SDDMM: split: {SPLIT}"),
        ("kge/transr", {"lanes": 8, "lane_vectors": 2}, f"TransR: lanes, lane_vectors: {LANES}"),
        ("kge/transr", {"split": "nonzeros"}, f"TransR: split: {SPLIT}"),
    ],
)  # fmt: skip
def test_options_say_that_they_do_nothing(model: str, options: dict[str, str | int | bool], sentence: str) -> None:
    assert sentence in refusals_of(model, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("embedding/spmm", {"chunk": 64, "popular": True, "split": "nonzeros", "lanes": 8, "lane_vectors": 4}),
        ("embedding/spmm", {"split": "rows", "balance": True, "block_rows": 4, "block_columns": 64, "preload": 64}),
        ("embedding/sddmm", {"lanes": 4, "block_rows": 64, "popular": True}),
        ("rgnn/gcn", {"split": "rows", "preload": 32}),
    ],
)
def test_options_that_do_something_say_no_such_thing(model: str, options: dict[str, str | int | bool]) -> None:
    assert not [each for each in refusals_of(model, **options) if "nothing, for" in each]


def test_attention_by_rows_that_are_cut_says_that_no_row_is_popular() -> None:
    found = refusals_of("rgnn/rgat", popular=True, aggregate=False)
    assert any(
        "marked as popular: its rows are cut, and not shared out by their elements (split=nonzeros)" in each
        for each in found
    )
    found = refusals_of("rgnn/rgat", lanes=8, chunk=64, aggregate=False)
    assert not [each for each in found if "nothing, for" in each]


@pytest.mark.parametrize(("option", "message"), [
    ({"block_rows": "3"}, "block_rows is one of 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, not '3'"),
    ({"block_columns": "8"}, "block_columns is one of 0, 16, 32, 64, 128, 256, 512, not '8'"),
    ({"preload": "100"}, "preload is one of 0, 32, 64, 128, 256, 512, not '100'"),
    ({"lane_vectors": "-1"}, "lane_vectors is one of 0, 1, 2, 4, 8, 16, not '-1'"),
])  # fmt: skip
def test_what_a_tile_cannot_be(option: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        read_options(option)
