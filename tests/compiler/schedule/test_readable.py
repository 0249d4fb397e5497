"""Scheduled kernels are short enough to be read, and say what they mean: a comparison is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import COMPARISONS, Index
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Atom, walk
from tests.compiler.swaps import EXAMPLES, compiled

OPTIONS = ({}, {"grad": True}, {"inspect": "chunks"}, {"precision": "tf32"})


@pytest.mark.parametrize(("options", "most"), [({}, 150), ({"inspect": "chunks"}, 200)], ids=["tiles", "chunks"])
def test_the_kernels_of_transr_can_be_read(root: Path, options: dict[str, str], most: int) -> None:
    text = compiled(root / "examples" / "kge" / "transr.emb", **options).stages["kernels"].text
    assert len(text.splitlines()) < most
    assert max(map(len, text.splitlines())) <= 150


def kernels_of(path: Path, **options: str | bool) -> tuple[ScheduledKernel, ...]:
    program = compiled(path, **options).stages["kernels"].program
    kernels = program.programs if isinstance(program, Module) else (program,)
    return tuple(kernel for kernel in kernels if isinstance(kernel, ScheduledKernel))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_arithmetic_stands_for_a_comparison(options: dict[str, str | bool]) -> None:
    for path in EXAMPLES:
        for kernel in kernels_of(path, **options):
            arithmetic = {node.result: node for node in walk(kernel) if isinstance(node, Index)}
            for index in arithmetic.values():
                assert not stands_for_one(index, arithmetic), (kernel.name, index)


def stands_for_one(index: Index, arithmetic: dict[str, Index]) -> bool:
    """Whether an index is 0 or 1 by a smallest and a greatest number, or is multiplied with what is. What is clamped
    from above and then from below is a place in an array of two elements."""
    if index.function == "mul":
        return any(is_flag(operand, arithmetic) for operand in index.operands)
    return index.function == "min" and bounds(index, arithmetic) == {0, 1}


def is_flag(atom: Atom, arithmetic: dict[str, Index]) -> bool:
    """Whether it is a comparison, or 1 less one, or arithmetic that stands for one."""
    index = arithmetic.get(str(atom))
    if index is None:
        return False
    if index.function == "sub" and index.operands[0] == 1:
        return is_flag(index.operands[1], arithmetic)
    return index.function in COMPARISONS or bounds(index, arithmetic) == {0, 1}


def bounds(index: Index, arithmetic: dict[str, Index]) -> set[int]:
    """The numbers that minima and maxima in one another keep it between."""
    if index.function not in ("min", "max"):
        return set()
    inner = [arithmetic[str(operand)] for operand in index.operands if operand in arithmetic]
    numbers = {operand for operand in index.operands if isinstance(operand, int)}
    return numbers.union(*(bounds(each, arithmetic) for each in inner if each.function != index.function))


def test_the_two_forms_of_a_flag_are_found() -> None:
    def index(result: str, function: str, *operands: Atom) -> Index:
        return Index(result=result, function=function, operands=operands, origin=())

    steps = [index("a", "max", "x", 0), index("b", "min", "a", 1), index("c", "sub", 1, "b"), index("d", "mul", "c", 8)]
    arithmetic = {step.result: step for step in steps}
    assert [stands_for_one(step, arithmetic) for step in steps] == [False, True, False, True]
