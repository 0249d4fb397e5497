"""How many groups of a warp's lanes share a row: any number computes what the loops do, and what is usual is told by
the lengths that are known of lists and of matrices' rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from explorer.compiler.compilation import compile_model
from explorer.compiler.counts import ASSUMED, read_counts
from explorer.compiler.decisions import Pinned, Replay, Schedule, Value
from explorer.compiler.ir import kernels
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.segments.by_nonzeros import schedule_nonzeros
from explorer.compiler.schedule.segments.by_row_pieces import schedule_row_pieces
from explorer.compiler.schedule.segments.by_rows import schedule_rows
from explorer.compiler.schedule.strategies import STRATEGY
from tests.compiler.schedule.ragged import EXAMPLES, arrays_for, kernel_of, largest_error

SHORT, EMPTY, CUT, LONG = (3, 0, 1, 5), (0, 0), (0, 40, 0, 0, 25, 7, 0, 64, 0, 0), (300, 2)
"""Lengths of rows: a few elements, none, more than a piece of 32, and more than a block's groups share in turn."""


def report_of(kernel: Kernel, wanted: Mapping[str, Value], counts: Mapping[str, int] | None = None) -> Report:
    """A report whose policy takes these values of the kernel's decisions."""
    schedule = Schedule.of({f"{kernel.name}.{name}": value for name, value in wanted.items()})
    known = read_counts(counts) if counts else ASSUMED
    return Report(Options(), known, Replay(schedule, Pinned(Options())))


def chosen(report: Report) -> dict[str, Value]:
    """What was chosen by the names of decisions."""
    return {choice.decision.name: choice.value for choice in report.choices}


def checked(found: tuple[ScheduledKernel, ...], report: Report) -> tuple[ScheduledKernel, ...]:
    """The kernels, which keep the rules of the IR."""
    assert found, report.refusals
    for kernel in found:
        verify_scheduled(kernel)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lengths", [SHORT, EMPTY, LONG])
@pytest.mark.parametrize("size", [4, 8, 41, 48])
@pytest.mark.parametrize("sharing", [1, 2, 4, 8])
@pytest.mark.parametrize("example", ["sls", "sls_max", "sls_mean", "spmm", "mp", "mp_sigmoid"])
def test_any_number_of_groups_shares_a_row(example: str, sharing: int, size: int, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, size)
    report = report_of(kernel, {"sharing": sharing, "lanes": 2})
    found = checked(schedule_rows(kernel, report), report)
    assert largest_error(kernel, found, arrays_for(kernel, lengths)) < 1e-5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lengths", [SHORT, EMPTY, CUT, LONG])
@pytest.mark.parametrize("size", [4, 8, 48])
@pytest.mark.parametrize("sharing", [1, 2, 4])
@pytest.mark.parametrize("example", ["spmm", "spmm_max", "spmm_mean", "mp", "mp_sigmoid"])
def test_any_number_of_groups_shares_what_is_cut(example: str, sharing: int, size: int, lengths: Sequence[int]) -> None:
    kernel = kernel_of(example, size)
    wanted: dict[str, Value] = {"strategy": "row_pieces", "sharing": sharing, "chunk": 32, "lanes": 2}
    report = report_of(kernel, wanted)
    report.choose(kernel.name, STRATEGY, "")
    found = checked(schedule_row_pieces(kernel, report), report)
    assert largest_error(kernel, found, arrays_for(kernel, lengths)) < 1e-5


def test_groups_that_share_a_row_lie_side_by_side() -> None:
    kernel = kernel_of("sls", 16)
    report = report_of(kernel, {"sharing": 2})
    (found,) = checked(schedule_rows(kernel, report), report)
    joins = [(node.lanes, node.apart) for node in walk(found) if isinstance(node, kernels.Reduce)]
    lanes = [loop for loop in walk(found) if isinstance(loop, kernels.Loop) and loop.bind == "lane"]
    assert joins == [(2, 4)]
    assert [(loop.width, loop.apart) for loop in lanes if loop.apart] == [(4, 8)]
    assert found.schedule[0].endswith("a block of 8 warps has kMTile = 32 rows")


@pytest.mark.parametrize(("size", "bags", "entries", "lanes", "loads", "sharing"), [
    (48, 131_072, 131_072, 4, 1, 1),
    (128, 131_072, 131_072, 8, 1, 1),
    (16, 131_072, 524_288, 4, 4, 1),
    (41, 65_536, 196_608, 16, 4, 1),
    (32, 8_448, 540_672, 8, 8, 2),
    (16, 1_000, 64_000, 4, 8, 8),  # so few that all of their warps leave a device idle
    (64, 4_224, 540_672, 16, 8, 2),
])  # fmt: skip
def test_short_lists_have_few_lanes_each(
    size: int, bags: int, entries: int, lanes: int, loads: int, sharing: int
) -> None:
    kernel = kernel_of("sls", size)
    report = report_of(kernel, {}, {"bags": bags, "rows": 1_000, "entries": entries})
    assert schedule_rows(kernel, report)
    found = chosen(report)
    assert (found["lanes"], found["loads"], found["sharing"]) == (lanes, loads, sharing)


@pytest.mark.parametrize(("size", "rows", "nonzeros", "strategy", "sharing", "chunk"), [
    (8, 100_000, 1_000_000, "row_pieces", 2, 64),
    (16, 170_000, 1_200_000, "row_pieces", 1, 32),
    (16, 20_000, 2_000_000, "row_pieces", 4, 128),
    (8, 200_000, 400_000, "row_pieces", 1, 32),
    (16, 300, 2_000_000, "nonzeros", None, 256),
    (32, 100_000, 1_000_000, "nonzeros", None, 256),
    (128, 170_000, 1_200_000, "nonzeros", None, 256),
])  # fmt: skip
def test_a_warp_has_several_narrow_rows(
    size: int, rows: int, nonzeros: int, strategy: str, sharing: int | None, chunk: int
) -> None:
    text = (EXAMPLES / "spmm.emb").read_text()
    counts = {"rows": rows, "cols": 1_000, "nonzeros": nonzeros}
    taken = compile_model(text, sizes={"D": size}, counts=counts, on_demand=True).schedule
    found = [taken.get(f"SpMM_0.{name}") for name in ("strategy", "sharing", "chunk")]
    assert found == [strategy, sharing, chunk]


def test_rows_of_unknown_lengths_are_left_as_they_were() -> None:
    taken = compile_model((EXAMPLES / "spmm.emb").read_text(), sizes={"D": 8}, on_demand=True).schedule
    assert (taken["SpMM_0.strategy"], taken["SpMM_0.chunk"]) == ("nonzeros", 256)


@pytest.mark.parametrize(("rows", "merge"), [(100_000, "by_pieces"), (10_000, "by_rows")])
def test_rows_of_few_pieces_have_no_warp_each_to_merge_them(rows: int, merge: str) -> None:
    """Pieces of 8 elements, of which rows have one or two, or a dozen."""
    kernel = kernel_of("spmm", 8)
    report = report_of(kernel, {"chunk": 128}, {"rows": rows, "cols": 1_000, "nonzeros": 1_000_000})
    assert schedule_nonzeros(kernel, report)
    assert chosen(report)["merge"] == merge


@pytest.mark.parametrize("lengths", [CUT, (5, 23 * 32 + 7, 0, 40), (8 * 32, 3)])
@pytest.mark.parametrize("warps", [2, 4, 16])
def test_blocks_of_any_number_of_warps_merge(warps: int, lengths: Sequence[int]) -> None:
    kernel = kernel_of("spmm", 128)
    report = report_of(kernel, {"merge_warps": warps, "chunk": 32})
    found = checked(schedule_nonzeros(kernel, report), report)
    assert found[-1].threads == 32 * warps
    assert largest_error(kernel, found, arrays_for(kernel, lengths)) < 1e-5


def test_a_block_that_merges_has_room_for_its_states() -> None:
    kernel = kernel_of("spmm", 1_024)
    report = report_of(kernel, {"merge_warps": 32})
    assert checked(schedule_nonzeros(kernel, report), report)[-1].threads == 32 * 8  # of 4 KB each
    assert chosen(report)["merge_warps"] == 8


def test_what_is_asked_of_rows_comes_before_what_is_usual_of_short_ones() -> None:
    """Tiles of elements are of one row, and rows that are marked as popular are gathered by nonzeros."""
    kernel = kernel_of("sls", 16)
    report = report_of(kernel, {"preload": 64}, {"bags": 131_072, "rows": 1_000, "entries": 524_288})
    assert schedule_rows(kernel, report)
    assert (chosen(report)["preload"], chosen(report)["sharing"]) == (64, 8)
    text, counts = (EXAMPLES / "spmm.emb").read_text(), {"rows": 170_000, "cols": 170_000, "nonzeros": 1_200_000}
    taken = compile_model(text, sizes={"D": 8}, counts=counts, options={"popular": True}, on_demand=True).schedule
    assert (taken["SpMM_0.strategy"], taken["SpMM_0.popular"]) == ("nonzeros", True)


def test_sharing_that_cannot_be_says_why() -> None:
    text, schedule = (EXAMPLES / "sls.emb").read_text(), {"SLS_0.sharing": 8}
    found = compile_model(text, sizes={"D": 128}, schedule=schedule, on_demand=True)
    assert "SLS_0.sharing" not in found.schedule
    assert "no groups of a warp's lanes can share its rows" in json.dumps(found.to_json()["stages"])


@pytest.mark.parametrize("nonzeros", [0, 1_200_000])
def test_narrow_rows_that_are_scaled_or_empty_are_left_to_nonzeros(nonzeros: int) -> None:
    """Of a softmax a warp has one row at a time, which is no use for short ones."""
    text = """dim D = 8
op Weighed(A: csr[row, col]):
    param X[col, D], w[col]
    for i in A.rows():
        i["top"] = max(w[j] for j, a in A.row(i))
        i["y"] = sum(exp(w[j] - i["top"]) * X[j] for j, a in A.row(i)) / sum(exp(w[j] - i["top"]) for j, a in A.row(i))
    return i["y"]
"""
    counts = {"rows": 170_000, "cols": 170_000, "nonzeros": nonzeros}
    found = compile_model(text, counts=counts, on_demand=True)
    assert found.ok, found.diagnostics
    taken = {value for key, value in found.schedule.items() if key.endswith(".strategy")}
    assert "row_pieces" not in taken, found.schedule
    empty = compile_model((EXAMPLES / "spmm.emb").read_text(), sizes={"D": 8}, counts={**counts, "nonzeros": 0})
    assert empty.schedule["SpMM_0.strategy"] == "nonzeros"
