"""Machine code for the CPU is kept on disk: another process does not make it again, and it computes the same."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import _FunctionCompiler

import explorer
from explorer.compiler.codegen.binary import kept
from explorer.runtime.targets import cpu

TEXT = """dim D = 8
score Named(h: entity, t: entity):
    param E[entity, D]
    return dot(E[h], E[t])
"""
OTHER = TEXT.replace("dot(E[h], E[t])", "norm(E[h] - E[t], 1)")
INPUTS = {
    "h": np.array([0, 1, 2], np.int32),
    "t": np.array([2, 2, 1], np.int32),
    "E": np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32),
}
MEANS = {
    TEXT: (INPUTS["E"][INPUTS["h"]] * INPUTS["E"][INPUTS["t"]]).sum(1),
    OTHER: np.abs(INPUTS["E"][INPUTS["h"]] - INPUTS["E"][INPUTS["t"]]).sum(1),
}


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for what is kept."""
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path))
    forget()
    return tmp_path / kept.OWN


def forget() -> None:
    """As in another process."""
    cpu.prepare_once.cache_clear()
    cpu._machine_code.cache_clear()


def refuse(*_: Any) -> None:
    raise AssertionError("Numba is asked to make what was kept")


def scores(text: str) -> Any:
    return explorer.compile(text, on_demand=True).run(INPUTS, "cpu")


def entries(folder: Path) -> int:
    return len([*folder.iterdir()]) if folder.exists() else 0


def test_what_was_made_is_not_made_again(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scores(TEXT)
    assert entries(empty) == 1
    forget()
    monkeypatch.setattr(_FunctionCompiler, "compile", refuse)
    np.testing.assert_array_equal(scores(TEXT), first)
    np.testing.assert_allclose(first, MEANS[TEXT], rtol=1e-6)
    with pytest.raises(AssertionError, match="make what was kept"):
        scores(OTHER)


def test_where_nothing_may_be_kept_it_is_made(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.VARIABLE, "")
    np.testing.assert_allclose(scores(TEXT), MEANS[TEXT], rtol=1e-6)
    assert entries(empty) == 0


@pytest.mark.parametrize("kept_one", [TEXT, OTHER])
def test_kernels_of_one_name_are_not_mistaken_in_another_process(kept_one: str) -> None:
    """LLVM knows functions by name: one that is kept stands beside one that this process has made, and read again."""
    made = OTHER if kept_one == TEXT else TEXT
    scores(kept_one)
    program = "from tests.runtime.targets.test_machine_code import in_turn; in_turn()"
    texts = [made, kept_one, made, kept_one]
    done = subprocess.run(
        [sys.executable, "-c", program], input="\0".join(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def in_turn() -> None:
    """Computes each of the texts on the input, forgetting in between what it has, and holds it against its meaning."""
    for text in sys.stdin.read().split("\0"):
        np.testing.assert_allclose(scores(text), MEANS[text], rtol=1e-6)
        forget()


@pytest.mark.parametrize("storage", ["bf16", "f16"])
def test_what_calls_functions_of_ours_is_kept_with_them(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("[entity, D]", f"[entity, D]: {storage}")
    first = scores(text)
    forget()
    monkeypatch.setattr(_FunctionCompiler, "compile", refuse)
    np.testing.assert_array_equal(scores(text), first)
    np.testing.assert_allclose(first, MEANS[TEXT], rtol=0.05)


def test_checked_code_is_another_and_still_checks(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = explorer.compile(TEXT, on_demand=True)
    program: Any = compilation.stages["loops"].program
    cpu.prepare(program)
    cpu.prepare(program, checked=True)
    assert entries(empty) == 2
    forget()
    monkeypatch.setattr(_FunctionCompiler, "compile", refuse)
    (kernel,) = cpu.prepare(program, checked=True).kernels
    outside = {**INPUTS, "h": np.array([0, 1, 3], np.int32)}
    arrays = [outside[name] if name in outside else np.zeros(3, np.float32) for name in kernel.function.arguments]
    with pytest.raises(IndexError):
        kernel.machine_code(*arrays, 1, 0, 3)


def test_what_a_name_stands_for_is_part_of_what_it_is_kept_by(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("dot(E[h], E[t])", "dot(exp(E[h]), E[t])")
    scores(text)
    forget()
    made = cpu._python_function

    def other(function: Any) -> Any:
        changed = made(function)
        changed.__globals__["exp"] = math.sin
        return changed

    monkeypatch.setattr(cpu, "_python_function", other)
    want = (np.sin(INPUTS["E"][INPUTS["h"]]) * INPUTS["E"][INPUTS["t"]]).sum(1)
    np.testing.assert_allclose(scores(text), want, rtol=1e-5)
    assert entries(empty) == 2
