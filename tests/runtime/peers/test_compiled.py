"""torch.compile beside a run: what it gives, what it takes, and how it is refused."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.runtime import leftovers
from explorer.runtime.peers import compiled, timed
from explorer.runtime.run import RunRequest, execute
from tests.runtime.peers.test_torch import EXAMPLES, set_up

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch")
needs_compiler = pytest.mark.skipif(not HAS_TORCH or not shutil.which("g++"), reason="needs PyTorch and g++")
TRANSR = next(path for path in EXAMPLES if path.stem == "transr").read_text()
LONG_ENOUGH = 250.0


@pytest.fixture(autouse=True)
def pretended_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run is told of a GPU's memory, where there is none."""
    monkeypatch.setattr("explorer.runtime.targets.gpu.device.available_bytes", lambda: 8 << 30)


def run(**fields: Any) -> list[Any]:
    """The events of a run on the CPU."""
    asked = {"text": TRANSR, "on": "cpu", "data": "WN18", "batch": 16, "repeat": 3, **fields}
    return list(execute(RunRequest(**asked)))


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(f"{compiled.FOLDER}{os.getpid()}-*"))


@needs_torch
@pytest.mark.sampled(12)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_one_program(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced whole, with its gradients, and right; what Inductor would make of the trace is left to two examples."""
    import torch

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    peer = timed.unchecked(set_up(path.read_text(), tmp_path), "cpu", compiled.NAME)
    assert peer.checked(set_up(path.read_text(), tmp_path)).reason == ""


@needs_compiler
@pytest.mark.sweep
@pytest.mark.parametrize("name", ["distmult", "rgcn"])
def test_it_is_compiled_checked_and_timed_beside_a_run(name: str) -> None:
    text = next(path for path in EXAMPLES if path.stem == name).read_text()
    *before, last = run(
        text=text, data="tiny" if name == "rgcn" else "WN18", options={"grad": True}, compile_seconds=LONG_ENOUGH
    )
    assert last["event"] == "result", last
    (peer,) = last["peers"]
    assert (peer["name"], peer["reason"]) == ("torch.compile", "")
    assert len(peer["samples_ms"]) == 3
    assert peer["compile_ms"] > 10 * peer["median_ms"]  # told apart: no repeat compiles
    assert peer["max_relative_error"] < 1e-3
    assert compiled.setting_up(LONG_ENOUGH) in [event.get("what") for event in before]
    assert not folders()


@needs_compiler
def test_what_fails_at_clearing_up_when_it_is_stopped_took_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> timed.Peer:
        try:
            raise compiled._Late
        finally:
            raise UnboundLocalError("prior")

    monkeypatch.setattr(compiled, "unchecked", fails)
    (peer,) = run(compile_seconds=9)[-1]["peers"]
    assert peer["reason"] == "it was still compiling after 9 s, the most that it may take"


def test_a_long_chain_of_errors_is_looked_through_once() -> None:
    """Each that is raised from another has that twice, as its cause and its context."""
    for first, late in ((ValueError("first"), False), (compiled._Late(), True)):
        last: BaseException = first
        for number in range(100):
            behind = ValueError(str(number))
            behind.__cause__ = behind.__context__ = last
            last = behind
        assert compiled._is_late(last) == late


@needs_compiler
def test_what_takes_too_long_is_stopped_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a tenth of a second no host compiles a model with g++."""
    of, ended = compiled.unchecked, list[timed.Outcome]()

    def noted(*given: Any) -> timed.Peer:
        peer = of(*given)
        outcome = peer.outcome
        return replace(peer, outcome=lambda: ended.append(outcome()) or ended[-1])

    monkeypatch.setattr(compiled, "unchecked", noted)
    last = run(compile_seconds=0.1)[-1]
    assert last["event"] == "result"
    assert last["matches_reference"]
    assert len(last["samples_ms"]) == 3
    (peer,) = last["peers"]
    assert peer["reason"] == "it was still compiling after 0.1 s, the most that it may take"
    assert peer["samples_ms"] is None
    assert not ended, "nobody waited for it"
    assert not folders()


@needs_torch
@pytest.mark.parametrize("error", [RuntimeError("no header\nmore"), MemoryError("all"), OSError("disk")])
def test_any_failure_is_a_reason(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> timed.Peer:
        raise error

    monkeypatch.setattr(compiled, "hindrance", lambda device: "")
    monkeypatch.setattr(compiled, "unchecked", fails)
    last = run(compile_seconds=LONG_ENOUGH)[-1]
    assert last["matches_reference"]
    assert last["peers"][0]["reason"] == f"it failed: {type(error).__name__}: {str(error).splitlines()[0]}"


@needs_torch
def test_without_a_compiler_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    (peer,) = run(compile_seconds=LONG_ENOUGH)[-1]["peers"]
    assert peer["reason"] == "it needs a C++ compiler, and there is no g++ here"
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert compiled.hindrance("cpu") == "the C++ compiler g++ does not start here"


def test_without_pytorch_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert compiled.hindrance("cpu") == "PyTorch is not installed here"


def test_folders_of_processes_that_are_gone_are_swept() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Path(tempfile.mkdtemp(prefix=f"{compiled.FOLDER}{gone.pid}-"))
    mine = Path(tempfile.mkdtemp(prefix=f"{compiled.FOLDER}{os.getpid()}-"))
    try:
        leftovers.sweep(compiled.FOLDER)
        assert not left.exists()
        assert mine.exists()
    finally:
        mine.rmdir()
