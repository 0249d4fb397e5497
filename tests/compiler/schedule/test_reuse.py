"""A schedule that differs in one kernel: only that one's nest is scheduled again, and all is as if compiled whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import explorer
from benchmarks.cases.growing import softmaxes
from explorer.compiler.compilation import Compilation
from explorer.compiler.decisions import Value
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.kept import MOST_KEYS, MOST_VERSIONS, Kept
from explorer.compiler.report import Report
from explorer.compiler.schedule.segments.strategy import OF_SUMS

EXAMPLES = Path(__file__).parents[3] / "examples"
CASES = [("embedding/spmm", False), ("kge/transr", True), ("rgnn/rgat", False)]
TRIES = 3


def compiled(name: str, grad: bool, schedule: dict[str, Value] | None = None) -> Compilation:
    text = (EXAMPLES / f"{name}.emb").read_text()
    return explorer.compile(text, options={"grad": grad}, on_demand=True, schedule=schedule)


def outcome(compilation: Compilation) -> object:
    """All that a reader sees of the kernels and what is made of them, with where each line is from."""
    stages = [compilation.stages[name] for name in ("kernels", "cuda")]
    said = [(report.summary, report.refusals) for report in stages[0].passes]
    return [stage.lines for stage in stages], said, compilation.schedule, stages[0].reason


def choices(compilation: Compilation, tries: int) -> list[tuple[str, Value]]:
    """Decisions, each with another value than the usual one."""
    found = [choice for nest in compilation.stages["kernels"].nests for choice in nest.choices]
    others = [(each.key, value) for each in found for value in each.decision.domain if value != each.value]
    return random.Random(5).sample(others, tries)


@pytest.mark.parametrize(("name", "grad"), CASES)
def test_one_changed_decision_schedules_one_nest_again(name: str, grad: bool) -> None:
    usual = compiled(name, grad)
    nests = len(usual.stages["kernels"].nests)
    numbers = [(key, value) for key, value in choices(usual, 12) if not isinstance(value, str)][:TRIES]
    assert usual.nests.made == nests
    for key, value in numbers:
        made, reused = usual.nests.made, usual.nests.reused
        changed = usual.with_schedule({key: value})
        assert outcome(changed) == outcome(compiled(name, grad, {key: value})), key
        assert (usual.nests.made - made, usual.nests.reused - reused) == (1, nests - 1), key
        assert changed.stages["loops"] is usual.stages["loops"]


@pytest.mark.parametrize(("name", "grad"), CASES[1:])
def test_any_schedules_one_after_another_are_as_compiled_whole(name: str, grad: bool) -> None:
    """Strategies as well, which take other names and groupings, so that nests behind may have to be scheduled too."""
    usual, asked = compiled(name, grad), dict[str, Value]()
    for key, value in choices(usual, TRIES):
        asked[key] = value
        assert outcome(usual.with_schedule(asked)) == outcome(compiled(name, grad, asked)), asked
    made = usual.nests.made
    assert outcome(usual.with_schedule({})) == outcome(usual)
    assert usual.nests.made == made


def test_what_is_chosen_is_the_usual_where_nothing_is_asked_for() -> None:
    usual = compiled("embedding/spmm", False)
    changed = usual.with_schedule({"SpMM_0.strategy": "rows"})
    assert changed.usual == usual.schedule
    assert changed.schedule["SpMM_0.strategy"] == "rows"
    assert changed.with_schedule({"SpMM_0.chunk": 64}).usual == usual.schedule


def test_versions_and_keys_are_bounded() -> None:
    kept: Kept[int] = Kept()
    for number in range(3 * MOST_VERSIONS):
        kept.put("nest", number)
    assert kept.get("nest", lambda version: version < 2 * MOST_VERSIONS) is None
    assert kept.get("nest", lambda version: True) == 3 * MOST_VERSIONS - 1
    for key in range(MOST_KEYS):
        kept.put(key, 0)
    assert kept.get("nest", lambda version: True) is None


def test_a_schedule_of_too_much_is_refused_in_a_sentence() -> None:
    text = (EXAMPLES / "embedding/spmm.emb").read_text()
    hostile: list[dict[str, Value]] = [dict.fromkeys(map(str, range(1_000_000)), 1), {"SpMM_0.chunk": 10**400}]
    for schedule in hostile:
        found = explorer.compile(text, schedule=schedule)
        assert not found.ok
        assert len(found.diagnostics[0].message) < 200


def test_what_a_strategy_makes_where_it_is_tried_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments of a nest that is taken apart, which strategies of sums are tried on first."""
    made: list[tuple[str, loops.Kernel]] = []

    def noting(name: str) -> Callable[[loops.Kernel, Report], tuple[ScheduledKernel, ...]]:
        way = OF_SUMS[name]

        def noted(nest: loops.Kernel, report: Report) -> tuple[ScheduledKernel, ...]:
            if kernels := way(nest, report):
                made.append((name, nest))
            return kernels

        return noted

    for name in OF_SUMS:
        monkeypatch.setitem(OF_SUMS, name, noting(name))
    usual = explorer.compile(softmaxes(2), on_demand=True)
    assert usual.schedule
    parts = [nest for _, nest in made if "_segments" in nest.name]
    assert len(parts) >= 2
    assert len({(name, id(nest)) for name, nest in made}) == len(made)
    chunk = f"{parts[0].name}.chunk"
    assert usual.schedule[chunk] != 64
    changed = explorer.compile(softmaxes(2), on_demand=True, schedule={chunk: 64})
    assert dict(changed.schedule) == {**usual.schedule, chunk: 64}
