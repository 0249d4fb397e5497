"""Sparse templates: rows, pieces of nonzeros and sampled dots compute what the loops do, and say what they chose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import compile_model
from explorer.compiler.counts import read_counts
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import walk
from explorer.compiler.options import OptionError, read_options
from explorer.compiler.report import Report
from explorer.compiler.schedule.lanes.mapping import LANES
from explorer.compiler.schedule.segments.by_dots import schedule_dots
from explorer.compiler.schedule.segments.by_nonzeros import schedule_nonzeros
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.segments.strategy import OF_SUMS, usual_of_sums
from explorer.compiler.target import TARGETS
from tests.compiler.layers import FEW_PAIRS
from tests.compiler.schedule.ragged import EXAMPLES, Schedule, arrays_for, kernel_of, largest_error, scheduled


def schedule_sparse(kernel: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernels of the first usual strategy for sums that fits."""
    each = (OF_SUMS[strategy](kernel, report) for strategy in usual_of_sums(kernel, report))
    return next(filter(None, each), ())


LAYERS = EXAMPLES.parent / "rgnn"
SHORT = (3, 0, 1, 5)
EMPTY = (0, 0)
CUT = (0, 40, 0, 0, 25, 7, 0, 64, 0, 0)
"""With chunks of 32: rows over several pieces, a boundary between rows, empty rows at boundaries and at the end."""
FAR = (0, 0, 0, 2, *(0,) * 15, 1, *(0,) * 16, 40, *(0,) * 33, 1, 1, *(0,) * 300, 3, *(0,) * 200)
"""Rows without elements: fewer, as many and more than a piece walks over, far more than it could, and at both ends."""
SUMS = ("sls", "sls_max", "sls_mean", "spmm", "spmm_max", "mp", "mp_sigmoid")


@pytest.mark.parametrize("example", SUMS)
def test_a_piece_visits_a_bounded_number_of_rows_however_many_have_no_elements(example: str) -> None:
    """A group of lanes that walked over a million of them took 170 ms for RGAT on the shape of mag."""
    summing, listing, far, *_ = scheduled(schedule_nonzeros, kernel_of(example, 4), chunk=32)
    defined = {node.result: node for node in walk(summing) if isinstance(node, loops.Index)}
    (rows,) = (loop for loop in walk(summing) if isinstance(loop, kernels.Loop) and loop.lower == "top")
    near = defined[str(rows.extent)]
    assert (near.function, [defined[str(each)].operands[0] for each in near.operands]) == ("min", ["bottom", "top"])
    assert defined[str(near.operands[1])].operands == ("top", 64)
    assert (listing.once, far.busy) == (True, f"{summing.name}_far_blocks")


@pytest.mark.parametrize("example", SUMS)
def test_no_block_is_launched_for_far_rows_where_there_are_none(example: str) -> None:
    kernel = kernel_of(example, 4)
    (rows,) = {str(loop.extent) for loop in kernel.body if isinstance(loop, loops.For)}
    for lengths, blocks in ((SHORT, 0), (CUT, 0), (FAR, 1)):
        steps, arrays = scheduled(schedule_nonzeros, kernel, chunk=32), arrays_for(kernel, lengths)
        found = run_scheduled(steps[1:2], {**arrays, rows: len(lengths)})
        assert min(int(found[f"{steps[0].name}_far_blocks"][0]), 1) == blocks
        assert found[f"{steps[0].name}_far_count"][0] <= len(lengths)


@pytest.mark.parametrize("lengths", [SHORT, EMPTY, (300,)])
@pytest.mark.parametrize("example", SUMS)
def test_rows_sum_what_the_loops_do(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 4)
    assert largest_error(kernel, scheduled(schedule_rows, kernel), arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize("lengths", [SHORT, EMPTY, CUT, FAR, (32, 32), (300,)])
@pytest.mark.parametrize("example", SUMS)
def test_pieces_merge_to_what_the_loops_sum(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 4)
    pieces = scheduled(schedule_nonzeros, kernel, chunk=32)
    assert largest_error(kernel, pieces, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize("lengths", [(5, 23 * 32 + 7, 0, 40), (8 * 32, 3), (20, 8 * 32 - 20)])
@pytest.mark.parametrize("example", ["spmm", "spmm_max"])
def test_rows_of_more_pieces_than_a_block_has(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 128)  # a group of lanes is a warp, so a block has 4 pieces
    pieces = scheduled(schedule_nonzeros, kernel, chunk=32)
    assert largest_error(kernel, pieces, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize(
    "lengths", [SHORT, EMPTY, CUT, (0, 32, 0), (31, 1, 0, 33), (0, 0, 64, 0), (300, 0), (32, 0, 32)]
)
@pytest.mark.parametrize("example", ["spmm", "spmm_max", "sls_mean"])
def test_pieces_of_rows_as_wide_as_a_warp(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 68)  # 17 vectors: a warp has one row at a time
    pieces = scheduled(schedule_nonzeros, kernel, chunk=32)
    assert "a block of 4 warps has 128, a warp 32" in pieces[0].schedule[0]
    assert largest_error(kernel, pieces, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lengths", [SHORT, EMPTY, CUT, (300,), (2, 1030, 1023, 5000, 0, 31, 32, 33, 64)])
@pytest.mark.parametrize("example", ["spmm", "sls"])
def test_balanced_rows_are_taken_by_length(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 4)
    inspector, rows = scheduled(schedule_rows, kernel, balance=True)
    assert (inspector.once, rows.once) == (True, False)
    arrays = arrays_for(kernel, lengths)
    assert largest_error(kernel, [inspector, rows], arrays) < 1e-5
    sizes = {"bags": len(lengths), "rows": len(lengths)}
    order = run_scheduled([inspector], arrays | sizes)[inspector.buffers[-1].name].astype(int)
    assert sorted(order) == list(range(len(lengths)))
    taken = [min(lengths[row], 1023) for row in order]
    assert taken == sorted(taken, reverse=True)


def test_rows_without_lengths_are_not_balanced() -> None:
    report = Report(read_options({"balance": True}))
    (step,) = schedule_rows(kernel_of("sddmm", 4), report)
    assert not step.once
    assert report.refusals == ["the rows of SDDMM_0 are not balanced: a row has no segment"]


@pytest.mark.parametrize("lengths", [SHORT, EMPTY, CUT])
@pytest.mark.parametrize("example", ["spmm", "spmm_max", "mp", "sls"])
def test_popular_rows_are_the_same_rows(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 4)
    steps = scheduled(schedule_nonzeros, kernel, chunk=32, popular=True)
    assert [step.once for step in steps] == [True] * 4 + [False, True, False, False]
    assert any(isinstance(node, kernels.KeptLoad) for node in walk(steps[4]))
    assert largest_error(kernel, steps, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize(
    ("room", "popular"), [(1, {5}), (2, {5, 2}), (3, {5, 2}), (4, {5, 2, 0, 7}), (9, {0, 1, 2, 5, 7})]
)
def test_no_more_rows_are_popular_than_there_is_room_for(room: int, popular: set[int], monkeypatch: Any) -> None:
    monkeypatch.setitem(TARGETS, "sm_90", replace(TARGETS["sm_90"], l2_bytes=2 * room * 4 * 4))
    inspector = scheduled(schedule_nonzeros, kernel_of("spmm", 4), popular=True)[:4]
    col = np.array([5, 2, 5, 0, 7, 5, 2, 1, 5, 7, 2, 0])
    arrays = {"col": col, "cols": 9, "nonzeros": len(col)}
    marked = run_scheduled(inspector, arrays)[inspector[3].buffers[-1].name]
    assert marked.tolist() == [i if i in popular else -1 - i for i in col]


def test_rows_that_are_not_gathered_at_staged_indices_are_not_marked() -> None:
    report = Report(read_options({"popular": True, "chunk": 4096}))
    kernel = kernel_of("spmm", 512)
    found = schedule_nonzeros(kernel, report)
    assert [step.template for step in found] == ["nonzeros", "inspector", "far", "merge"]
    assert report.refusals == ["no rows that SpMM_0 gathers are marked as popular: it does not stage one index array"]


BY_TWO_SETS = """dim D = 64
layer ByTwoSets(g: graph):
    param W[etype, ntype, D]
    for n in g.nodes():
        n["y"] = sum(W[e.etype, e.dst.ntype] for e in n.incoming_edges())
    return n["y"]
"""


def test_rows_that_two_sets_name_together_are_not_marked() -> None:
    compilation = explorer.compile(BY_TWO_SETS, options={"popular": True, "split": "nonzeros"})
    refusals = compilation.stages["kernels"].passes[-1].refusals
    assert any("marked as popular: etype names only a part of which row it is" in reason for reason in refusals)


@pytest.mark.parametrize("size", [1, 3, 32, 33, 64, 100, 512])
@pytest.mark.parametrize(("schedule", "example"), [(schedule_rows, "spmm"), (schedule_nonzeros, "mp")])
def test_rows_of_any_length(schedule: Schedule, example: str, size: int) -> None:
    kernel = kernel_of(example, size)
    assert largest_error(kernel, scheduled(schedule, kernel), arrays_for(kernel, SHORT)) < 1e-5


@pytest.mark.parametrize("lengths", [SHORT, (0, 40, 3), (300,)])
@pytest.mark.parametrize("size", [4, 100])
def test_dots_of_popular_rows(size: int, lengths: Sequence[int]) -> None:
    kernel = kernel_of("sddmm", size)
    steps = scheduled(schedule_dots, kernel, popular=True)
    assert [step.once for step in steps] == [True, True, True, True, False]
    kept = [node for node in walk(steps[4]) if isinstance(node, kernels.KeptLoad)]
    assert {load.buffer for load in kept} == {"Y"}  # X's rows are named in their order
    assert f"kLaneWidth = {LANES if size == 100 else 1}" in " ".join(steps[4].schedule)
    assert largest_error(kernel, steps, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize("size", [1, 3, 31, 32, 64, 100, 512])
def test_dots_of_any_length(size: int) -> None:
    kernel = kernel_of("sddmm", size)
    assert largest_error(kernel, scheduled(schedule_dots, kernel), arrays_for(kernel, SHORT)) < 1e-5


def test_dots_that_are_read_back_are_refused_before_they_are_made() -> None:
    text = """layer Model(g: graph):
    input x[edge, 3, 4], y[ntype, 4]
    for e in g.edges():
        t = dot(x[e], y[e.src.ntype])
        e["a"] = t + min(t)
    for n in g.nodes():
        n["h"] = mean(e["a"] for e in n.incoming_edges()) + mean(sum(e["a"]) for e in n.incoming_edges())
    return n["h"]
"""
    told = [line for report in compile_model(text).stages["kernels"].passes for line in report.refusals]
    assert [line for line in told if "not scheduled by dots: it reads v3 back" in line]
    assert not [line for line in told if "cannot be shown right" in line]


@pytest.mark.parametrize(("size", "width"), [(1, 1), (3, 4), (32, 8), (64, 8), (128, 8), (256, 16), (512, 32)])
def test_lanes_share_a_dot_product(size: int, width: int) -> None:
    (kernel,) = scheduled(schedule_dots, kernel_of("sddmm", size))
    assert any(f"kLaneWidth = {width}:" in line for line in kernel.schedule)
    joins = [node.lanes for node in walk(kernel) if isinstance(node, kernels.Reduce)]
    assert joins == ([width] if width > 1 else [])


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize(
    ("schedule", "example"), [(schedule_dots, "sddmm"), (schedule_rows, "sls"), (schedule_nonzeros, "spmm")]
)
def test_as_many_lanes_share_a_row_as_are_asked_for(schedule: Schedule, example: str, lanes: int) -> None:
    kernel = kernel_of(example, 64)
    steps = scheduled(schedule, kernel, lanes=lanes)
    line = "stride: a lane has kNRegTile = {} vectors of a row, {} lanes apart"
    assert (line.format(16 // lanes, lanes) in steps[0].schedule) == (lanes < 16)
    assert largest_error(kernel, steps, arrays_for(kernel, SHORT)) < 1e-5


def test_short_rows_share_a_warp() -> None:
    (kernel,) = scheduled(schedule_rows, kernel_of("sls", 32))
    joins = [(node.lanes, node.apart) for node in walk(kernel) if isinstance(node, kernels.Reduce)]
    assert joins == [(4, 8)]  # four groups of eight lanes have a quarter of the bag each


def test_a_batch_of_rows_is_loaded_before_it_is_summed() -> None:
    (kernel,) = scheduled(schedule_rows, kernel_of("sls", 128))
    unrolled = [node for node in walk(kernel) if isinstance(node, kernels.Loop) and node.unroll == 0]
    kinds = [{type(node) for node in walk(loop)} for loop in unrolled]
    assert len(unrolled) == 2
    assert loops.Accumulate not in kinds[0]
    assert loops.Accumulate in kinds[1]
    assert kernel.resident == 4  # 64 registers a thread


@pytest.mark.parametrize(("example", "split", "templates"), [
    ("spmm", "auto", ["nonzeros", "inspector", "far", "merge"]),
    ("spmm", "rows", ["rows"]),
    ("sls", "auto", ["rows"]),
    ("sls", "nonzeros", ["nonzeros", "inspector", "far", "merge"]),
    ("sddmm", "auto", ["dots"]),
])  # fmt: skip
def test_the_template_is_chosen_by_the_set(example: str, split: str, templates: list[str]) -> None:
    found = scheduled(schedule_sparse, kernel_of(example, 8), split=split)
    assert [kernel.template for kernel in found] == templates


def test_lists_say_why_they_are_not_split() -> None:
    report = Report(read_options({}))
    schedule_sparse(kernel_of("sls", 8), report)
    assert report.refusals == ["SLS_0 is not split by nonzeros: lists that a user gives are of like length"]


def test_the_bound_of_a_piece_is_shown() -> None:
    kernel, *_ = scheduled(schedule_nonzeros, kernel_of("spmm", 128))
    assert "bound z: [from, upto - 1] = [max(begin, first), min(end, last) - 1]" in kernel.schedule
    assert "load z ahead, 4 at a time: [from + 4 t, min(from + 4 t + 4, upto) - 1]" in kernel.schedule


def test_columns_and_values_of_a_piece_are_staged() -> None:
    kernel, *_ = scheduled(schedule_nonzeros, kernel_of("spmm", 128), chunk=256)
    tiles = [node for node in walk(kernel) if isinstance(node, kernels.Tile) and node.memory == "shared"]
    assert [(tile.name, tile.extents, tile.type) for tile in tiles] == [
        ("value_tile", (256,), "f32"),
        ("col_tile", (256,), "i32"),
    ]
    stage = (
        "stage value, col in shared memory, a warp's kNnzTile = 256 together: [start, min(start + 256, nonzeros) - 1]"
    )
    assert stage in kernel.schedule
    large, *_ = scheduled(schedule_nonzeros, kernel_of("spmm", 128), chunk=1024)  # 64 KB a block
    assert not any(isinstance(node, kernels.Tile) and node.memory == "shared" for node in walk(large))


MATRICES = [
    ({}, 256, "value, col in shared memory, a warp's kNnzTile = 256 together"),
    ({"rows": 9_000, "nonzeros": 40_000}, 32, "a warp's kNnzTile = 32 together"),
    ({"rows": 170_000, "nonzeros": 1_100_000}, 256, "a warp's kNnzTile = 256 together"),
    ({"rows": 2_400_000, "nonzeros": 61_000_000}, 512, "a warp's kNnzTile = 512 together"),
    ({"rows": 130_000, "nonzeros": 39_000_000}, 512, "value, col in shared memory, kNnzTile = 64 of a row at a time"),
]


@pytest.mark.parametrize(("counts", "chunk", "staged"), MATRICES)
def test_what_a_warp_has_depends_on_the_matrix(counts: dict[str, int], chunk: int, staged: str) -> None:
    text = (EXAMPLES / "spmm.emb").read_text()
    program = compile_model(text, counts=counts or None).stages["kernels"].program
    assert isinstance(program, Module)
    pieces = program.programs[0]
    assert isinstance(pieces, ScheduledKernel)
    assert f"a warp {chunk}" in pieces.schedule[0]
    assert any(staged in line for line in pieces.schedule)


@pytest.mark.parametrize("lengths", [SHORT, EMPTY, CUT, (300, 64, 65, 0, 128, 63)])
@pytest.mark.parametrize("example", ["spmm", "spmm_max", "mp"])
def test_long_rows_by_tiles_are_what_the_loops_sum(example: str, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, 68)  # 17 vectors: a warp has one row at a time
    counts = read_counts({"rows": 1_000, "nodes": 1_000, "nonzeros": 1_000_000})
    pieces = schedule_nonzeros(kernel, Report(read_options({"chunk": 128}), counts))
    assert any("kNnzTile = 64 of a row at a time" in line for line in pieces[0].schedule)
    assert largest_error(kernel, pieces, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.parametrize(("what", "elements"), [("sum(exp(w[j] * a - top) for j, a in A.row(i))", 8), ("0", 1)])
def test_a_lane_has_some_elements_of_what_is_put_together_in_order(what: str, elements: int) -> None:
    """Sums that are scaled while their maximum grows; maxima alone are shared out among as many lanes as there are."""
    text = f"""op Softmax(A: csr[row, col]):
    param w[col]
    for i in A.rows():
        top = max(w[j] * a for j, a in A.row(i))
        i["y"] = top + {what}
    return i["y"]
"""
    counts = {"rows": 24_000, "cols": 24_000, "nonzeros": 148_000}
    program = compile_model(text, counts=counts).stages["kernels"].program
    assert isinstance(program, Module)
    pieces = program.programs[0]
    assert isinstance(pieces, ScheduledKernel)
    assert f"share a warp's among 32 groups of 1 lanes, {elements} each" in pieces.schedule


def streamed(text: str, counts: dict[str, int] | None = None, **options: bool) -> list[tuple[str, ...]]:
    """What each kernel of a program streams, where it streams anything."""
    program = compile_model(text, options=options, counts=counts).stages["kernels"].program
    assert isinstance(program, Module)
    return [step.streamed for step in program.programs if isinstance(step, ScheduledKernel) and step.streamed]


def test_what_is_touched_once_is_streamed() -> None:
    assert streamed((EXAMPLES / "spmm.emb").read_text()) == [("col", "value", "out")]
    attention = (LAYERS / "rgat.emb").read_text()
    logits = "dst_pair_node", "dst_pair_etype"
    assert streamed(attention, aggregate=False) == [logits, ("src_pair", "dst_pair", "out")]
    # The backward pass of sums by pair reads the result again.
    assert not any("out" in arrays for arrays in streamed(attention, FEW_PAIRS, grad=True))


def layer_kernels(example: str, **options: str | int | bool) -> dict[str, ScheduledKernel]:
    """The scheduled kernels of a layer of the examples by template, the last of each."""
    text = (LAYERS / f"{example}.emb").read_text()
    program = compile_model(text, options=options).stages["kernels"].program
    assert isinstance(program, Module)
    return {step.template: step for step in program.programs if isinstance(step, ScheduledKernel)}


def test_heads_have_lanes_of_their_own() -> None:
    kernel = layer_kernels("rgat_heads")["nonzeros"]
    heads = [node for node in walk(kernel) if isinstance(node, kernels.Loop) and node.variable == "head"]
    assert [(loop.extent, loop.bind, loop.width) for loop in heads] == [("H", "lane", 4)]
    made = {buffer.name: buffer.extents for buffer in kernel.buffers if buffer.name.startswith("RGAT_4_")}
    pieces = "RGAT_4_pieces"
    assert made == {
        "RGAT_4_y1": (pieces, 2, "H"),
        "RGAT_4_y5": (pieces, 2, "H"),
        "RGAT_4_y": (pieces, 2, "H", "G"),
        "RGAT_4_rows": (pieces,),
    }


def test_parts_of_a_softmax_are_scaled_to_the_larger_maximum() -> None:
    kernel = layer_kernels("rgat", reorder=False)["merge"]
    found = [node for node in walk(kernel) if isinstance(node, loops.Compute | loops.Accumulate)]
    assert sum(isinstance(node, loops.Compute) and node.function == "exp" for node in found) == 2 * 2
    kinds = {node.reduction for node in found if isinstance(node, loops.Accumulate)}  # of states, then of their shares
    assert kinds == {"max", "product", "sum"}


def test_edges_in_small_number_make_small_pieces() -> None:
    kernel = layer_kernels("rgat", reorder=False, split="nonzeros")["nonzeros"]
    assert "split edges: a block of 8 warps has 1024, a warp 128" in kernel.schedule  # 4,845 warps of 620,232 edges


@pytest.mark.parametrize(
    ("counts", "by_rows"),
    [
        ({"nodes": 14_541, "edges": 620_232}, True),
        ({"nodes": 100_000, "edges": 620_232}, False),  # short rows
        ({"nodes": 1_000, "edges": 620_232}, False),  # too few for as many warps as a device has
    ],
)
def test_long_rows_of_a_graph_have_a_warp_each(counts: dict[str, int], by_rows: bool) -> None:
    text = (LAYERS / "rgat.emb").read_text()
    program = compile_model(text, options={"aggregate": False}, counts=counts).stages["kernels"].program
    assert isinstance(program, Module)
    (kernel,) = (step for step in program.programs if isinstance(step, ScheduledKernel) and step.name == "RGAT_3")
    cut = "cut edges at every 128: a warp for what each row has up to there, and for the rest"
    assert (cut in kernel.schedule) == by_rows
    # The maximum is known before anything is summed: an exp an element, and no sum is scaled.
    found = [node for node in walk(kernel) if isinstance(node, loops.Compute | loops.Accumulate)]
    kinds = {node.reduction for node in found if isinstance(node, loops.Accumulate)}
    assert kinds == ({"max", "sum"} if by_rows else {"max", "sum", "product"})
    exponentials = sum(isinstance(node, loops.Compute) and node.function == "exp" for node in found)
    assert exponentials == (1 if by_rows else 2)


@pytest.mark.parametrize(
    ("pairs", "added"),
    [(161_922, True), (30_000, False)],  # four edges a pair; twenty, whose atomics would wait for one another
)
def test_numbers_of_short_rows_are_added_to_what_is_cleared(pairs: int, added: bool) -> None:
    counts = {"nodes": 14_541, "edges": 620_232, "src_pairs": pairs, "dst_pairs": pairs}
    text = (LAYERS / "rgat.emb").read_text()
    program = compile_model(text, options={"aggregate": False, "grad": True}, counts=counts).stages["kernels"].program
    assert isinstance(program, Module)
    steps = {step.name: step for step in program.programs if isinstance(step, ScheduledKernel)}
    assert ("RGAT_8_clear" in steps, "RGAT_8_merge" in steps) == (added, not added)
    atomics = [node for node in walk(steps["RGAT_8"]) if isinstance(node, kernels.AtomicAccumulate)]
    assert len(atomics) == added
    assert not added or [buffer.name for buffer in steps["RGAT_8"].buffers if buffer.kind == "output"] == ["v51"]
    assert "RGAT_3_merge" in steps  # a maximum is merged


def test_products_are_left_to_others() -> None:
    program = compile_model((LAYERS / "gcn.emb").read_text()).stages["loops"].program
    assert isinstance(program, Module)
    (kernel,) = program.programs
    assert isinstance(kernel, loops.Kernel)
    report = Report(read_options({}))
    assert schedule_sparse(kernel, report) == ()
    assert report.refusals == [
        f"GCN_0 is not {how}: all lanes read y2 = y[f] of a row that they share"
        for how in ("split by nonzeros", "scheduled by rows")
    ]


@pytest.mark.parametrize(("option", "message"), [
    ({"split": "columns"}, "split is one of auto, rows, nonzeros, not 'columns'"),
    ({"chunk": "100"}, "chunk is one of 0, 32, 64, 128, 256, 512, 1024, 2048, 4096, not '100'"),
])  # fmt: skip
def test_what_a_split_cannot_be(option: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        read_options(option)


COUNTED = """
layer Counted(g: graph):
    param w[node, 4], b[node]
    for n in g.nodes():
        n["h"] = sum(b[n] for e in n.incoming_edges()) * sum(w[n] * 0 + b[n])
    return n["h"]
"""


def test_a_number_that_a_loop_adds_up_is_added_in_each_iteration() -> None:
    """The gradient by b adds the same number for each of four columns; of a vector of them it was added once."""
    compilation = explorer.compile(COUNTED, options={"grad": True}, on_demand=True)
    random = np.random.default_rng(0)
    given = {"w": random.normal(size=(5, 4)).astype(np.float32), "b": random.normal(size=5).astype(np.float32)}
    inputs = {**given, "src": random.integers(0, 5, 9), "dst": random.integers(0, 5, 9), "num_nodes": 5}
    _, want = compilation.run(inputs, on="loops", grad=np.ones(5, np.float32))
    _, got = compilation.run(inputs, on="kernels", grad=np.ones(5, np.float32))
    np.testing.assert_allclose(got["b"], want["b"], rtol=1e-5)
