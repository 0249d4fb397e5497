"""Products on tensor cores on the emulator: no fault, and errors that show in which precision they were taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases.checked import TWO_SETS, Case
from benchmarks.gpu_check import Setting, check, check_gradients, check_rows, compiled
from explorer.compiler.ir.kernels import Multiply
from explorer.compiler.ir.node import walk

EXAMPLES = Path(__file__).parents[2] / "examples"
SCORES = {name: (EXAMPLES / "kge" / f"{name}.emb").read_text() for name in ("transr", "rescal")} | {"two": TWO_SETS}
LAYERS = {name: (EXAMPLES / "rgnn" / f"{name}.emb").read_text() for name in ("rgcn", "rgat")}
ERRORS = {"tf32x3": (0.0, 1.0), "tf32": (0.01, 1.0)}
"""The least and the most of each precision over its own bound: less than the least is the error of float32."""


def products(case: Case) -> list[Multiply]:
    """The products of tiles in a case's kernels."""
    compilation = compiled(case)
    program: Any = compilation.stages["kernels"].program
    kernels = getattr(program, "programs", (program,))
    return [node for kernel in kernels for node in walk(kernel) if isinstance(node, Multiply)]


def multiplies(case: Case) -> int:
    """How many there are."""
    return len(products(case))


def together(case: Case) -> bool:
    """Whether four warps take each of them."""
    return {product.warps for product in products(case)} == {4}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("size", [20, 64, 132])
@pytest.mark.parametrize("name", SCORES)
def test_scores(emulated: Setting, name: str, size: int, precision: str) -> None:
    case = Case(SCORES[name], size, 75, {"precision": precision})
    assert multiplies(case)
    outcome = check(emulated, case)
    least, most = ERRORS[precision]
    assert least <= outcome["error"] <= most, outcome


@pytest.mark.sampled(2)
@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize(("name", "size"), [("transr", 128), ("rescal", 256), ("two", 128)])
def test_scores_by_four_warps(emulated: Setting, name: str, size: int, precision: str) -> None:
    case = Case(SCORES[name], size, 75, {"precision": precision, "arch": "sm_90a"})
    assert together(case)
    outcome = check(emulated, case)
    least, most = ERRORS[precision]
    assert least <= outcome["error"] <= most, outcome


@pytest.mark.parametrize(("size", "arch"), [(64, "sm_90a"), (128, "sm_90")])
def test_scores_by_each_warp(size: int, arch: str) -> None:
    case = Case(SCORES["transr"], size, 75, {"precision": "tf32", "arch": arch})
    assert multiplies(case)
    assert not together(case)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize(("name", "size"), [("rgcn", 20), ("rgcn", 64), ("rgat", 20)])
def test_layers(emulated: Setting, name: str, size: int, precision: str) -> None:
    case = Case(LAYERS[name], size, 0, {"precision": precision, "aggregate": "false"})
    assert multiplies(case)
    outcome = check_rows(emulated, case)
    least, most = ERRORS[precision]
    assert least <= outcome["error"] <= most, outcome


@pytest.mark.parametrize("precision", ERRORS)
def test_gradients(emulated: Setting, precision: str) -> None:
    outcome = check_gradients(emulated, Case(SCORES["transr"], 36, 75, {"precision": precision, "grad": "true"}))
    assert outcome["error"] <= ERRORS[precision][1], outcome
