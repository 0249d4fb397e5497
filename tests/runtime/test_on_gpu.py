"""Runs on a pretended GPU: events, figures, refusals, faults, and PyTorch beside them (on this processor)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler import stages as stages_module
from explorer.compiler.codegen.text import Code
from explorer.runtime import on_gpu
from explorer.runtime.peers import timed as peers
from explorer.runtime.reference.compare import Check
from explorer.runtime.run import RunRequest, execute, set_up
from explorer.runtime.runs.console import summary
from explorer.runtime.runs.footprint import Room
from explorer.runtime.targets.gpu.program import GpuProgram
from explorer.runtime.targets.gpu.timing import Times

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCORE = (EXAMPLES / "kge" / "transh.emb").read_text()
PRODUCT = (EXAMPLES / "kge" / "transr.emb").read_text()
LAYER = (EXAMPLES / "rgnn" / "rgcn.emb").read_text()
SLS = (EXAMPLES / "embedding" / "sls.emb").read_text()
CASES: dict[str, dict[str, Any]] = {
    "score": {"text": SCORE, "sizes": {"D": 4}, "batch": 6},
    "layer": {"text": LAYER, "sizes": {"F": 4, "G": 3}, "data": "tiny"},
    "op": {"text": SLS, "sizes": {"D": 4}},
}
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data for scores and ops: five triples; three bags, the middle one empty."""
    (tmp_path / "few.tsv").write_text("".join(f"e{i}\tr{i % 2}\te{(i + 1) % 4}\n" for i in range(5)))
    np.savez(tmp_path / "bags.npz", ptr=np.array([0, 2, 2, 5]), idx=np.array([1, 0, 3, 3, 1]), num_rows=4)
    monkeypatch.setitem(CASES["score"], "data", str(tmp_path / "few.tsv"))
    monkeypatch.setitem(CASES["op"], "data", str(tmp_path / "bags.npz"))


def run(family: str, **fields: Any) -> list[dict[str, Any]]:
    asked = {"on": "gpu", "repeat": 4, "peers": False, **CASES[family], **fields}
    events = list(execute(RunRequest(**asked)))
    json.dumps(events)
    return events


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("family", ["layer", "op"])
def test_the_room_that_is_checked_is_what_kernels_take(
    fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, family: str, grad: bool
) -> None:
    """Not what loops would make: kernels have arrays of their own, and share memory."""
    checked, bound, own = [], [], GpuProgram.bind

    def bind(program: GpuProgram, *arguments: Any, **named: Any) -> Any:
        bound.append(own(program, *arguments, **named))
        return bound[-1]

    monkeypatch.setattr(Room, "check", lambda _, needed, host, who, what: checked.append(needed - host))
    monkeypatch.setattr(GpuProgram, "bind", bind)
    *_, last = run(family, options={"grad": grad})
    assert last["event"] == "result", last
    assert checked == [bound[0].made_bytes]


def test_side_a_of_a_comparison_takes_turns_with_ours(fake_cuda: Any) -> None:
    side = {"sizes": {"F": 8, "G": 3}, "options": {"compact": False}, "schedule": {}}
    *before, last = run("layer", against=side, repeat=40)
    assert last["matches_reference"]
    assert last["against"]["reason"] == ""
    assert last["against"]["sizes"] == side["sizes"]
    assert len(last["against"]["samples_ms"]) == last["against"]["of_a"]["pairs"] == 40
    turns = [event.get("of", "") for event in before if event["event"] == "sample"]
    assert turns == ["", "A", "A", ""] * 20
    assert last["peers"] == []


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("family", CASES)
def test_every_family_runs_with_and_without_gradients(fake_cuda: Any, family: str, grad: bool) -> None:
    *before, last = run(family, options={"grad": grad})
    assert last["event"] == "result", last
    assert last["matches_reference"], last["message"]
    assert (last["target"], last["source"], last["family"]) == ("gpu", "measured", family)
    assert last["device"] == "Pretended GPU, sm_90, 132 multiprocessors"
    assert bool(last["gradients"]) is grad
    samples = [event["ms"] for event in before if event["event"] == "sample"]
    assert samples == last["samples_ms"]
    assert len(samples) == last["repeat"] == 4
    assert last["peak_bytes"] > 0
    assert last["input_bytes"] > 0
    assert [kernel["name"] for kernel in last["kernels"]]
    assert all(kernel["registers"] > 0 and kernel["occupancy_warps"] > 0 for kernel in last["kernels"])
    assert "matches the float64 reference" in summary(last)


def test_a_run_searches_for_the_destinations_of_edges(fake_cuda: Any) -> None:
    text = (EXAMPLES / "rgnn" / "rgat.emb").read_text()
    *_, last = run("layer", text=text, options={"compact": False, "encoding": "compressed", "grad": True})
    assert last["event"] == "result", last
    assert last["matches_reference"], last["message"]
    assert last["gradients"]


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("float32", 0.01, 1), ("tf32x3", 1e-3, 0.3), ("tf32", 0, 1e-3)]
)
def test_products_are_held_to_what_their_precision_can_give(
    fake_cuda: Any, precision: str, least: float, most: float
) -> None:
    asked = {"text": PRODUCT, "sizes": {"D": 32, "K": 64}, "options": {"precision": precision}}
    last = run("score", **asked)[-1]
    assert last["matches_reference"], last["message"]
    assert least < last["error_over_bound"] < most  # the pretended device computes in float32
    # Elsewhere products are in float32, whatever the option says.
    assert 0.01 < run("score", **asked, on="cpu")[-1]["error_over_bound"] < 1


def test_cold_times_are_taken_after_a_flush_and_warm_ones_without(fake_cuda: Any) -> None:
    last = run("score")[-1]
    kernels = len(last["kernels"])
    assert last["cache"] == "cold"
    assert last["median_ms"] == pytest.approx(kernels * fake_cuda.kernel_ms + fake_cuda.cold_ms)
    assert last["warm_ms"] == pytest.approx(kernels * fake_cuda.kernel_ms)
    assert last["launch_ms"] > 0
    assert last["ceilings"]["bytes_per_s"] == pytest.approx(3e12)
    assert last["bytes_limit_ms"] == pytest.approx(1e3 * last["limits"]["compulsory_bytes"] / 3e12)
    flush = fake_cuda.log.index("flush")
    assert fake_cuda.log[flush + 1] == "hold"


def test_a_run_times_the_best_form_and_says_so(fake_cuda: Any) -> None:
    best = explorer.compile(SCORE, sizes={"D": 4})
    codes = [each.stages["ptx"].program for each in (best, best.first_form())]
    sizes = [len(code.binary.cubin) for code in codes if isinstance(code, Code) and code.binary]
    last = run("score")[-1]
    assert last["form"] == "best"
    assert "; timed is its best form" in summary(last)
    assert f"load {sizes[0]} bytes" in fake_cuda.log
    assert f"load {sizes[1]} bytes" not in fake_cuda.log


def test_a_run_is_compiled_for_the_device(fake_cuda: Any) -> None:
    from explorer.runtime.targets.gpu import device as gpu_device

    fake_cuda.capability = (8, 0)
    gpu_device._device.cache_clear()
    assert run("score", options={"arch": "sm_90"})[-1]["options"]["arch"] == "sm_80"


def test_a_wrong_result_has_no_time(fake_cuda: Any) -> None:
    fake_cuda.spoils = True
    *before, last = run("score")
    assert not last["matches_reference"]
    assert last["samples_ms"] is last["median_ms"] is last["warm_ms"] is None
    assert last["peers"] == []
    assert all(event["event"] != "sample" for event in before)
    assert "WRONG" in summary(last)


def test_a_kernel_that_breaks_is_reported_and_ends_the_worker(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda.breaks = run("score")[-1]["kernels"][0]["name"]
    last = run("score")[-1]
    assert (last["event"], last["kind"]) == ("failed", "crashed")
    assert last["message"] == "The GPU stopped the kernels: an illegal memory access was encountered."
    assert "new one" in last["hint"]


def test_what_does_not_fit_is_refused(fake_cuda: Any) -> None:
    fake_cuda.free_bytes = 256 << 20
    last = run("score")[-1]
    assert last["kind"] == "refused"
    assert "more than the 0.00 GiB that are free on the GPU: the largest is" in last["message"]


def test_without_a_gpu_a_run_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "cupy" else find(name))
    (last,) = run("score")
    assert last["kind"] == "refused"
    assert last["message"].startswith("There is no GPU to run on here: CuPy")


@needs_torch
@pytest.mark.parametrize("family", CASES)
def test_a_peer_takes_turns_and_its_figures_are_beside_ours(
    fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setattr(on_gpu, "peers_of", lambda setup: [peers.eager(setup, "cpu")])
    *before, last = run(family, peers=True, options={"grad": True})
    (peer,) = last["peers"]
    assert (peer["name"], peer["reason"]) == ("eager PyTorch", "")
    assert peer["max_relative_error"] < 1e-4
    assert len(peer["samples_ms"]) == 4
    assert peer["ratio"] == peer["median_ms"] / last["median_ms"]
    turns = [event.get("of", "") for event in before if event["event"] == "sample"]
    assert turns == ["", "eager PyTorch", "eager PyTorch", ""] * 2
    told = [event.get("what", event["event"]) for event in before]
    assert told.index("sample") < told.index(on_gpu.SETTING_UP_PEERS)  # nobody waits for the peer to see a time
    assert "eager PyTorch" in summary(last)


@pytest.mark.parametrize(
    ("error", "matches", "reason"),
    [
        (MemoryError, True, "out of memory"),
        (None, False, "its result differs from the reference's by up to 2 times what rounding may make"),
    ],
)
def test_a_peer_that_fails_says_why_and_has_no_times(error: Any, matches: bool, reason: str) -> None:
    def outcome() -> Any:
        if error is not None:
            raise error
        return 1.0, {}

    class Judge:
        large = False

        def finished(self, got: Any, gradients: Any) -> Any:
            return got, gradients

        def check(self, got: Any) -> Check:
            return Check(0.0 if matches else 2.0, 1)

    peer = peers.Peer("peer", lambda: None, outcome).checked(Judge())  # type: ignore[arg-type]

    def watch(launched: Any) -> float:
        launched()
        return 1.0

    assert peer.measure(watch) is None
    told = peer.to_json(Times([1.0]))
    assert (told["reason"], told["samples_ms"], told["ratio"]) == (reason, None, None)


def test_a_run_compiles_what_it_needs_once(fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = stages_module.Stages._run

    def noted(stages: Any, spec: Any, program: Any) -> Any:
        made.append(spec.name)
        return make(stages, spec, program)

    monkeypatch.setattr(stages_module.Stages, "_run", noted)
    text = (EXAMPLES / "rgnn" / "rgat.emb").read_text()
    assert run("layer", text=text, sizes={"F": 4, "G": 3})[-1]["matches_reference"]
    assert sorted(made) == sorted(["graph", "loops", "kernels", "cuda", "ptx"])


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("family", CASES)
def test_what_it_spent_is_timed_by_kernel_and_apportioned(fake_cuda: Any, family: str, grad: bool) -> None:
    last = run(family, options={"grad": grad})[-1]
    spent = last["spent"]
    assert [kernel["name"] for kernel in spent["kernels"]] == [kernel["name"] for kernel in last["kernels"]]
    assert sum(kernel["amount"] for kernel in spent["kernels"]) == pytest.approx(spent["whole"])
    rows = [*spent["operations"], *spent["rest"]]
    assert sum(row["amounts"][0] for row in rows) == pytest.approx(spent["whole"])
    assert sum(row["amounts"][0] for row in spent["operations"]) > 0


def test_a_fault_while_kernels_are_timed_does_not_lose_the_run(
    fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(on_gpu, "of_launches", lambda *_: 1 / 0)
    last = run("layer")[-1]
    assert last["event"] == "result"
    assert last["median_ms"] > 0
    assert last["spent"] is None
    assert "not known" in caplog.text


def cut(asked: dict[str, Any]) -> bool:
    """Whether a run's kernels have runs of a triple's candidates."""
    compilation = set_up(RunRequest(**asked)).compilation
    return any(name.endswith(".run") for name in compilation.schedule)


def test_a_score_is_compiled_for_its_batch_unless_a_reader_was_shown_another_program(fake_cuda: Any) -> None:
    few = {**CASES["score"], "on": "gpu", "options": {"negatives": "tail:8"}}
    shown = explorer.compile(SCORE, sizes={"D": 4}, options=few["options"], on_demand=True).stages["cuda"].digest
    assert cut(few)
    assert not cut({**few, "batch": 5_000, "sizes": {"D": 128}})
    assert not cut({**few, "compiled": {"program": shown}})
    for compiled in (None, {"program": shown}):
        *_, last = run("score", options=few["options"], compiled=compiled)
        assert last["event"] == "result", last
        assert last["matches_reference"]
