"""Decisions: replayed they give the same kernels, others give the same numbers, and a space counts them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation, compile_model
from explorer.compiler.decisions import Decision, Replay, Sample, Schedule, ScheduleTextError, Value
from explorer.compiler.ir.graph import Graph
from explorer.compiler.options import read_options
from explorer.compiler.pipeline import STAGES
from explorer.compiler.report import Report
from explorer.compiler.schedule.program import schedule
from explorer.compiler.schedule.space import Nest
from explorer.compiler.target import TARGETS
from explorer.runtime import compiling

EXAMPLES = Path(__file__).parents[3] / "examples"
ALL = sorted(EXAMPLES.glob("*/*.emb"))
OFTEN = [EXAMPLES / name for name in ("embedding/spmm.emb", "kge/transr.emb", "rgnn/rgat_heads.emb")]
GRAPH: Mapping[str, Any] = {
    "src": [0, 1, 1, 4, 2, 2, 5, 0, 0, 3, 3, 3, 1, 0, 2, 5, 5, 4, 1, 0],
    "dst": [2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 5, 5],
    "etype": [0, 2, 2, 0, 1, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0],
    "ntype": [0, 1, 0, 1, 1, 0, 1],
    "num_nodes": 7,
    "num_etypes": 4,
    "num_ntypes": 2,
}
"""A node with most of the edges, one with none, and a type of no edge."""


LENGTHS = (0, 3, 1, 70, 0, 9, 2, 0)
SETS = {
    "score": {"entity": 9, "relation": 4},
    "layer": {"node": 7, "edge": 20, "etype": 4, "ntype": 2},
    "op": {"col": 9, "row": len(LENGTHS), "nonzero": sum(LENGTHS)},
}
GIVEN: dict[str, Mapping[str, Any]] = {
    "score": {name: np.random.default_rng(at).integers(0, 4, 37) for at, name in enumerate("hrt")},
    "layer": GRAPH,
    "op": {
        "rowptr": np.cumsum([0, *LENGTHS]),
        "col": np.random.default_rng(3).integers(0, 9, sum(LENGTHS)),
        "value": np.random.default_rng(4).standard_normal(sum(LENGTHS)).astype(np.float32),
        "num_cols": 9,
    },
}


def compiled(path: Path, asked: Schedule | None = None, **options: Any) -> Compilation:
    return explorer.compile(path.read_text(), options=options, on_demand=True, schedule=asked)


def replayed(path: Path, **options: Any) -> None:
    """The printed schedule, read back, gives the same text, and nothing is refused of it."""
    first = compiled(path, **options)
    if not first.stages["kernels"].available:
        return
    schedule = Schedule.parse(first.stages["kernels"].text)
    assert schedule == first.schedule == Schedule.parse(str(first.schedule)) == Schedule.of(first.schedule.to_json())
    again = compiled(path, schedule, **options)
    assert again.stages["cuda"].text == first.stages["cuda"].text
    refused = {*first.stages["kernels"].passes[-1].refusals}
    assert {*again.stages["kernels"].passes[-1].refusals} <= refused


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", OFTEN, ids=lambda path: path.stem)
def test_the_printed_schedule_gives_the_same_kernels(path: Path, grad: bool) -> None:
    replayed(path, grad=grad)


@pytest.mark.swept(4)
@pytest.mark.parametrize("options", [{}, {"grad": True}, {"arch": "sm_90a", "precision": "tf32"}, {"aggregate": False}])
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_every_printed_schedule_gives_the_same_kernels(path: Path, options: dict[str, Any]) -> None:
    replayed(path, **options)


@pytest.mark.parametrize("options", [
    {"split": "rows", "block_rows": 32, "block_columns": 32, "preload": 64},
    {"chunk": 512, "lanes": 8, "popular": True},
    {"split": "rows", "lane_vectors": 2, "lanes": 4, "balance": True},
])  # fmt: skip
def test_what_options_pin_is_replayed_without_them(options: dict[str, Any]) -> None:
    path = EXAMPLES / "embedding" / "spmm.emb"
    first = compiled(path, **options)
    assert compiled(path, first.schedule).stages["cuda"].text == first.stages["cuda"].text


def inputs_of(compilation: Compilation) -> dict[str, Any]:
    """Arrays for a model: of few rows, unlike in length."""
    drawn, graph = np.random.default_rng(7), compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    sets, given = SETS[compilation.family], dict(GIVEN[compilation.family])
    for tensor in graph.tensors:
        if tensor.kind in ("param", "input"):
            shape = (*(sets[name] for name in tensor.sets), *map(graph.size, tensor.dims))
            given[tensor.name] = (drawn.standard_normal(shape) / 4).astype(np.float32)
    return given


def same_numbers(path: Path, schedule: Schedule | None, policy: Any = None, sizes: Any = None) -> Compilation:
    """The scheduled kernels compute what the loops do."""
    compilation = compile_model(
        path.read_text(), sizes=sizes, on_demand=True, schedule=schedule, policy=policy, encode=compiling._encode
    )
    inputs = inputs_of(compilation)
    want = compilation.run(inputs, "loops")
    np.testing.assert_allclose(compilation.run(inputs, "kernels"), want, rtol=2e-4, atol=2e-5)
    return compilation


SMALL = {"spmm": {"D": 24}, "transr": {"D": 20, "K": 20}, "rgat_heads": {}, "rgcn": {"F": 20, "G": 20}}


def other_values(path: Path) -> Iterator[tuple[str, Value]]:
    """For each decision that is asked for, its valid values but the usual one."""
    compilation = explorer.compile(path.read_text(), sizes=SMALL.get(path.stem), on_demand=True)
    for nest in compilation.choosable().values():  # and not a space, which counts what goes together as well
        for each in nest.dimensions():
            yield from ((f"{each.kernel}.{each.name}", value) for value in each.values if value != each.value)


@pytest.mark.parametrize("path", OFTEN[:1], ids=lambda path: path.stem)
def test_other_values_give_the_same_numbers(path: Path) -> None:
    for key, value in islice(other_values(path), 0, None, 5):
        made = same_numbers(path, Schedule(((key, value),)), sizes=SMALL[path.stem])
        assert made.schedule[key] == value, made.stages["kernels"].passes[-1].refusals


@pytest.mark.parametrize(("name", "kernel", "strategy", "sizes"), [
    ("kge/transr", "TransR", "gemm", {"D": 12, "K": 5}),
    ("rgnn/rgcn", "RGCN_0", "gemm_of_sums", {"F": 20, "G": 6}),
])  # fmt: skip
def test_tiles_of_few_columns_are_made_where_they_are_asked_for(
    name: str, kernel: str, strategy: str, sizes: dict[str, int]
) -> None:
    path, key = EXAMPLES / f"{name}.emb", f"{kernel}.strategy"
    assert same_numbers(path, None, sizes=sizes).schedule[key] != strategy
    assert same_numbers(path, Schedule(((key, strategy),)), sizes=sizes).schedule[key] == strategy


@pytest.mark.sweep
@pytest.mark.parametrize("path", [*OFTEN, EXAMPLES / "rgnn" / "rgcn.emb"], ids=lambda path: path.stem)
def test_all_other_values_give_the_same_numbers(path: Path) -> None:
    for key, value in other_values(path):
        made = same_numbers(path, Schedule(((key, value),)), sizes=SMALL[path.stem])
        assert made.schedule[key] == value, made.stages["kernels"].passes[-1].refusals


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["embedding/spmm", "kge/transr", "rgnn/rgcn"])
def test_a_random_schedule_gives_the_same_numbers(name: str, seed: int) -> None:
    path = EXAMPLES / f"{name}.emb"
    made = same_numbers(path, None, Sample(random.Random(seed)), SMALL[path.stem])
    assert made.stages["kernels"].available
    again = same_numbers(path, made.schedule, None, SMALL[path.stem])
    assert again.stages["kernels"].text == made.stages["kernels"].text


@pytest.mark.swept(4)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_random_schedules_of_all_examples_are_made_and_replayed(path: Path, grad: bool) -> None:
    for seed in range(10):
        policy, options = Sample(random.Random(seed)), {"grad": grad}
        made = compile_model(path.read_text(), options=options, on_demand=True, policy=policy)
        stage = made.stages["cuda"]
        assert stage.available or stage.reason
        if stage.available:
            again = compile_model(path.read_text(), options=options, on_demand=True, schedule=made.schedule)
            assert again.stages["cuda"].text == stage.text


def test_what_cannot_be_done_is_refused_with_the_reason() -> None:
    schedule = Schedule.parse("SpMM_0: strategy = dots, chunk = 300, tile = 256, preload = 64\nOther: chunk = 64")
    stage = compiled(EXAMPLES / "embedding" / "spmm.emb", schedule).stages["kernels"]
    assert stage.passes[-1].refusals == (
        "SpMM_0 is not scheduled by dots: it walks segments",
        "SpMM_0: chunk=300: 256, for it takes 32, 64, 128, 256, 512, 1024, 2048, 4096",
        "SpMM_0: tile=256: 0, for a warp has 256 elements",
        "SpMM_0: strategy=dots: nonzeros, for it does not fit: dots is for dot products of rows that an element picks",
        "SpMM_0.preload=64: nothing, for SpMM_0 is scheduled by nonzeros",
        "Other.chunk=64: nothing, for no Other is made",
    )


@pytest.mark.parametrize(
    "text", ['{"schedule": 3}', "SpMM_0.chunk = 3", "K: chunk", '{"chunk": 3}', '{"K.chunk": [3]}', "{", "K: = 3"]
)
def test_what_is_no_schedule_is_said(text: str) -> None:
    with pytest.raises(ScheduleTextError):
        Schedule.parse(text)
    found = explorer.compile((OFTEN[0]).read_text(), schedule=text)
    assert not found.ok
    assert "schedule" in found.diagnostics[0].message


def test_schedules_are_values() -> None:
    made = Schedule.of({"K.strategy": "rows", "K.balance": True, "L#2.chunk": 64})
    assert str(made) == "K: strategy = rows, balance = true\nL#2: chunk = 64\n"
    assert Schedule.parse(str(made)) == made
    assert hash(Schedule.parse(str(made))) == hash(made)
    assert Schedule.of(made.to_json()) == made
    assert made["K.balance"] is True


def report_with(asked: Mapping[str, Value]) -> Report:
    return Report(read_options({}), policy=Replay(Schedule.of(asked), Report.silent().policy))  # type: ignore[arg-type]


TOP, SIDE, DEPTH = (Decision(name, (1, 2, 4), "", "") for name in ("top", "side", "depth"))


def toy(report: Report) -> None:
    """Where top is 4 there is a depth of two values, else a side of three."""
    if report.choose("K", TOP, 1) == 4:
        report.choose("K", DEPTH, 1, lambda: (1, 2))
    else:
        report.choose("K", SIDE, 2)
    report.choose("K", Decision("last", (False, True), "", ""), False)


def test_a_space_counts_what_can_be_enumerated() -> None:
    assert Nest("K", toy, report_with({})).count(()) == (2 * 3 + 2) * 2
    assert len(list(points(toy, {}))) == (2 * 3 + 2) * 2


def points(nest: Callable[[Report], object], fixed: Mapping[str, Value]) -> Iterator[Mapping[str, Value]]:
    """Every schedule of a nest, one after another: all values of the first choice that is left, with all of others."""
    report = report_with(fixed)
    nest(report)
    values = {choice.key: choice.value for choice in report.choices}
    if any(values[key] != value for key, value in fixed.items()):
        return
    left = [choice for choice in report.choices if choice.key not in fixed]
    if not left:
        yield fixed
    for value in left[0].fitting() if left else ():
        yield from points(nest, {**fixed, left[0].key: value})


def test_a_space_counts_what_depends_on_one_another() -> None:
    """Blocks of more warps have fewer of them on a multiprocessor."""
    compilation = explorer.compile((EXAMPLES / "kge" / "transe_l1.emb").read_text(), on_demand=True)
    nest = partial(schedule, cast(Any, compilation.stages["loops"].program))
    fixed: dict[str, Value] = {"TransE_L1.strategy": "warps", "TransE_L1.kept": 64, "TransE_L1.rounds": 4}
    every = list(points(nest, fixed))
    assert len({tuple(each.items()) for each in every}) == len(every) > 50
    assert Nest("TransE_L1", nest, report_with({})).count(tuple(fixed.items())) == len(every)
    found = compilation.space()
    assert found.count > len(every)
    assert found.to_json()["schedule"] == compilation.schedule.to_json()


def nests_of(compilation: Compilation) -> list[Nest]:
    """The nests of a model that a space is of."""
    (stage,) = (spec for spec in STAGES if spec.name == "kernels")
    program: Any = compilation.stages[stage.follows].program
    for step in stage.passes[:-1]:
        program = step(program, Report(compilation.options))
    report = Report(compilation.options)
    report.nests = {}
    schedule(program, report)
    return [Nest(name, again, report) for name, again in report.nests.items()]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_space_has_the_decisions_that_kernels_print(path: Path, grad: bool) -> None:
    """Also those of kernels whose names are given anew, however often a nest is scheduled again."""
    compilation = compiled(path, grad=grad)
    nests = nests_of(compilation)
    for _ in range(2):
        traced = [choice.key for nest in nests for choice in nest._traced(()) or ()]
        assert set(compilation.schedule) <= set(traced)


def test_a_kernel_with_a_name_of_its_own_has_values_that_replay() -> None:
    path = EXAMPLES / "embedding" / "bag_dot.emb"
    usual = compiled(path, grad=True)
    (nest,) = (nest for nest in nests_of(usual) if nest.name == "BagDot_0")
    found = nest.traced(()) or ()
    (choice,) = (choice for choice in found if choice.key == "BagDot_0_rest_rows.resident")
    values = [value for value, _ in nest.valid(choice, ())]
    assert len(values) > 2
    other = next(value for value in values if value != choice.value)
    made = compiled(path, Schedule(((choice.key, other),)), grad=True)
    assert made.schedule[choice.key] == other
    assert made.stages["kernels"].text != usual.stages["kernels"].text


def test_an_a100_gets_thresholds_of_its_own() -> None:
    small, large = TARGETS["sm_80"], TARGETS["sm_90"]
    assert large.busy_warps == 3960
    assert small.busy_warps == 3240
    assert large.cached_bytes == 48 << 20
    assert small.cached_bytes < 40 << 20
    assert large.resident(128, 168) == 3
    assert large.resident(1024, 32) == 2
    assert large.resident(1024, 255) == 1
