"""A compilation that takes more time or memory than it may: the stage is named, and those before it are shown."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

import explorer
from benchmarks.cases.growing import GROWING
from explorer.compiler import stages, to_json
from explorer.compiler.codegen.binary import nvrtc
from explorer.compiler.pipeline import STAGES
from explorer.compiler.unsupported import OutOfBudget
from explorer.runtime.budget import AGAIN_SECONDS, Bound, CpuSpent, cpu_bounded, stopped_after
from explorer.runtime.runs import fitting
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import ModelRequest
from explorer.runtime.workers.pool import WorkerPool
from explorer.runtime.workers.worker import compile_model
from tests.web.held import Held, hold_best

SLOW = GROWING["products"][0](200)
"""Its graph takes a fifth of a second."""
WITHOUT_END = """
import sys, time
from explorer.compiler import stages
from explorer.compiler.pipeline import STAGES
from explorer.runtime.workers.worker import main

(kernels,), run = [spec for spec in STAGES if spec.name == "kernels"], stages._run_pass

def run_pass(step, program, report):
    while step is kernels.passes[-1] and program.name == "Endless":
        time.sleep(1)
    return run(step, program, report)

stages._run_pass = run_pass
main(sys.argv[3:])  # behind -m and the module
"""
"""A Python that knows a worker alone."""
TRANSE = """dim D = 64
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with hold_best(tmp_path) as held:
        yield held


def request(text: str, **changes: Any) -> dict[str, Any]:
    fields = {"name": None, "sizes": {}, "options": {}, "stages": ["graph", "loops", "kernels", "cuda"]}
    return {"text": text, **fields, **changes}


def told(body: dict[str, Any]) -> dict[str, tuple[bool, bool]]:
    """Of each stage whether it is there, and whether it is the one that was stopped."""
    return {stage["name"]: (stage["available"], stage["stopped"]) for stage in body["stages"]}


def test_a_worker_names_the_stage_and_shows_those_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose kernels never come of a model that is called so, whatever its host is able to."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{WITHOUT_END}")
    python.chmod(0o755)

    async def main() -> None:
        monkeypatch.setattr(sys, "executable", str(python))
        pool = WorkerPool("compile", spare=0)
        try:
            async for answer in pool.stream(request(TRANSE), 60):
                warmed = answer
            began = time.monotonic()
            async for answer in pool.stream(request(TRANSE.replace("TransE", "Endless"), seconds=4), 600):
                stopped = answer
            took = time.monotonic() - began
            async for answer in pool.stream(request(TRANSE, seconds=60), 60):
                later = answer
        finally:
            await pool.close()
        assert not warmed["stopped"]
        assert took >= 4
        assert (stopped["event"], stopped["ok"], stopped["stopped"]) == ("result", True, "kernels")
        expected = {"graph": (True, False), "loops": (True, False), "kernels": (False, True), "cuda": (False, False)}
        assert told(stopped) == expected
        assert "4 s by the clock" in stopped["stages"][2]["reason"]
        assert stopped["stages"][3]["reason"] == stopped["stages"][2]["reason"]
        assert stopped["stages"][1]["lines"]
        assert not later["stopped"], "another compilation has its own time"
        assert pool.retired == 2, "what was left half done goes with its process"

    asyncio.run(main())


def test_before_the_first_stage_there_is_nothing_to_show() -> None:
    async def main() -> None:
        pool = WorkerPool("compile", spare=0)
        try:
            async for answer in pool.stream(request(SLOW, seconds=0.001), 60):
                stopped = answer
        finally:
            await pool.close()
        assert (stopped["event"], stopped["kind"]) == ("failed", "timeout")

    asyncio.run(main())


@pytest.mark.parametrize("error", [OutOfBudget("Stopped after 1 s."), MemoryError()])
@pytest.mark.parametrize("name", [spec.name for spec in STAGES if not spec.on_demand])
def test_every_stage_may_be_the_one(name: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = (spec for spec in STAGES if spec.name == name)
    run = stages._run_pass

    def stopping(step: Any, *rest: Any) -> Any:
        if step is spec.passes[-1]:
            raise error
        return run(step, *rest)

    monkeypatch.setattr(stages, "_run_pass", stopping)
    asked = [each.name for each in STAGES if not each.on_demand]
    body = explorer.compile(TRANSE, on_demand=True).to_json(asked)
    assert body["ok"]
    assert body["stopped"] == name
    at = asked.index(name)
    assert [told(body)[each] for each in asked] == [(i < at, i == at) for i in range(len(asked))]
    assert all(f"The stage {name} was being made" in stage["reason"] for stage in body["stages"][at:])


def test_a_stage_that_takes_long_to_print_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = explorer.compile(TRANSE, on_demand=True)
    tell = to_json._stage_json

    def stopping(spec: Any, stage: Any, *rest: Any) -> Any:
        if spec.name == "kernels" and not stage.stopped:
            raise OutOfBudget("Stopped after 1 s.")
        return tell(spec, stage, *rest)

    monkeypatch.setattr(to_json, "_stage_json", stopping)
    body = compilation.to_json(["graph", "kernels", "cuda"])
    assert body["stopped"] == "kernels"
    assert told(body) == {"graph": (True, False), "kernels": (False, True), "cuda": (False, False)}


def ring() -> None:
    """The time of `stopped_after` is over: the test says when, and not its host."""
    signal.setitimer(signal.ITIMER_REAL, 1e-3, AGAIN_SECONDS)


def test_what_was_stopped_has_time_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy host may take longer to print what was made than until a bound is raised again."""
    tell, run, waited = to_json._stage_json, stages._run_pass, 2 * AGAIN_SECONDS
    (kernels,) = (spec for spec in STAGES if spec.name == "kernels")

    def slowly(spec: Any, stage: Any, *rest: Any) -> Any:
        time.sleep(waited if stage.stopped else 0)
        return tell(spec, stage, *rest)

    def for_ever(step: Any, *rest: Any) -> Any:
        if step is kernels.passes[-1]:
            ring()
            time.sleep(60)
        return run(step, *rest)

    monkeypatch.setattr(to_json, "_stage_json", slowly)
    monkeypatch.setattr(stages, "_run_pass", for_ever)
    with stopped_after(60):
        body = explorer.compile(TRANSE, on_demand=True).to_json(["graph", "loops", "kernels", "cuda"])
        time.sleep(waited)  # as long as it is sent
    assert body["stopped"] == "kernels"
    assert list(told(body).values()) == [(True, False), (True, False), (False, True), (False, False)]


def test_what_is_heeded_and_goes_on_is_stopped_again() -> None:
    seconds = 0.6

    def stopped(bound: Bound) -> float:
        """When."""
        try:
            time.sleep(60)
        except OutOfBudget as error:
            error.heeded = True
            return bound.raised_at
        raise AssertionError("it was not stopped")

    began = time.monotonic()
    with stopped_after(seconds) as bound:
        first, second = stopped(bound), stopped(bound)
    assert first - began >= seconds
    assert second - first >= seconds


def test_what_was_raised_is_not_raised_again_on_its_way_out() -> None:
    """A host that stands still for a quarter of a second in an `__exit__` would else leave the timer on for good: it
    rang while the worker waited for its next request, which ended it."""
    took = []

    def leave_late() -> None:
        try:
            ring()
            time.sleep(60)
        finally:
            began = time.monotonic()
            time.sleep(3 * AGAIN_SECONDS)
            took.append(time.monotonic() - began)

    with pytest.raises(OutOfBudget) as told, stopped_after(60.0):
        leave_late()
    assert took[0] >= 3 * AGAIN_SECONDS
    assert told.value.__context__ is None
    assert signal.getitimer(signal.ITIMER_REAL)[1] != AGAIN_SECONDS


def test_what_is_sent_is_sent_whole_and_is_the_last() -> None:
    events = compile_model({"text": TRANSE, "stages": ["graph"], "seconds": 60.0})
    answer = next(events)
    ring()
    time.sleep(2 * AGAIN_SECONDS)  # its reader is slow
    assert (answer["event"], answer["ok"], list(events)) == ("result", True, [])


@pytest.fixture
def asked(held: Held, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once NVRTC was asked for a best form, which it keeps."""
    asked = threading.Event()

    def compile_text(bindings: Any, text: str, flags: tuple[str, ...]) -> Any:
        if nvrtc.FAST[0] not in flags:
            asked.set()
        return held.compile(bindings, text, flags)

    monkeypatch.setattr(nvrtc, "_compile", compile_text)
    return asked


@pytest.fixture
def rings(asked: threading.Event, monkeypatch: pytest.MonkeyPatch) -> dict[float | None, bool]:
    """By how long a first form or the best is waited for, whether the time is over then. NVRTC was asked before."""
    rings: dict[float | None, bool] = {}

    def wait(best: Any, seconds: float | None) -> Any:
        assert asked.wait(60)
        if rings.get(seconds):
            ring()
        return futures.wait(best, seconds)

    monkeypatch.setattr(fitting, "wait", wait)
    return rings


def test_nvrtc_is_not_waited_for(held: Held, asked: threading.Event) -> None:
    compilation = explorer.compile(TRANSE, on_demand=True)
    with stopped_after(60):
        threading.Thread(target=lambda: asked.wait(60) and ring(), daemon=True).start()
        body = compilation.to_json(["graph", "cuda", "ptx", "sass"])
    assert held.compiled == ["best"]
    assert told(body) == {"graph": (True, False), "cuda": (True, False), "ptx": (False, True), "sass": (False, False)}


def test_nor_where_a_first_form_is_shown_before(held: Held, rings: dict[float | None, bool]) -> None:
    rings[None] = True
    with stopped_after(60):
        *_, first, last = fit(ModelRequest(text=TRANSE)).forms(["cuda", "ptx", "sass"])
    assert told(first) == {"cuda": (True, False), "ptx": (True, False), "sass": (True, False)}
    assert (first["first"], last["first"]) == (True, False)
    assert told(last) == {"cuda": (True, False), "ptx": (False, True), "sass": (False, False)}


def test_nor_before_a_first_form(held: Held, rings: dict[float | None, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SOON", 60.0)
    rings[60.0] = True
    with stopped_after(60):
        (only,) = fit(ModelRequest(text=TRANSE)).forms(["cuda", "ptx", "sass"])
    assert told(only) == {"cuda": (True, False), "ptx": (False, True), "sass": (False, False)}
    assert held.compiled == ["best"]


def test_an_alarm_that_was_set_before_goes_on() -> None:
    before, handler = signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM)
    with stopped_after(None), stopped_after(60):
        pass
    after = signal.getitimer(signal.ITIMER_REAL)
    assert after[0] == pytest.approx(before[0], abs=5)
    assert (after[0] > 0) == (before[0] > 0)
    assert signal.getsignal(signal.SIGALRM) is handler


def work_forever() -> None:
    while True:
        pass


def test_a_part_is_bounded_by_its_work_and_not_by_waiting() -> None:
    with cpu_bounded(0.5):  # more than other threads of this process may take meanwhile
        time.sleep(0.8)
    with pytest.raises(CpuSpent), cpu_bounded(0.05):
        work_forever()


def test_the_whole_ends_inside_of_a_part() -> None:
    with pytest.raises(OutOfBudget) as ended, stopped_after(0.2), cpu_bounded(60.0):
        work_forever()
    assert not isinstance(ended.value, CpuSpent)
