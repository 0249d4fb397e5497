"""What inspectors state of the arrays that they fill, and the rules of kernels trust, holds of the arrays that they
make: over graphs with rows of no elements, with all elements in one row, with one and with none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import explorer
from benchmarks.cases.checked import Case, all_cases, gradient_cases, layer_cases, op_cases
from benchmarks.gpu_check import INPUTS, Setting, compiled, signed, triples
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir import loops
from explorer.compiler.ir.bounds.lookups import given_facts
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Where
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.ir.verify.accesses import Extents
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.graphs import RelationalGraph
from explorer.runtime.encode.batch import draw
from explorer.runtime.encode.layers import upstream_names
from tests.compiler.held_facts import BrokenFact, hold_facts
from tests.compiler.swaps import ROOT

SHAPES = ("any", "one row", "one edge", "none")
NODES, EDGES, FAR = 29, 70, 131
"""No tile divides them; so many nodes have rows that are far behind a piece's elements."""
CASES = [case for make in (layer_cases, op_cases, all_cases, gradient_cases) for case in make((8, 33))]
EVERY = 60
"""Of so many cases one is run at each run of the tests."""


@dataclass(frozen=True)
class Prepared:
    """The kernels of a case and what they are run on."""

    kernels: tuple[ScheduledKernel, ...]
    nests: tuple[loops.KernelNest, ...]
    inputs: dict[str, Any]


def graph_of(shape: str) -> RelationalGraph:
    random = np.random.default_rng(len(shape))
    count, nodes = {"none": 0, "one edge": 1}.get(shape, EDGES), FAR if shape == "one row" else NODES
    src, dst = random.integers(0, nodes, (2, count)).astype(np.int32)
    dst = np.full_like(dst, nodes - 3) if shape == "one row" else np.sort(dst)
    etype, ntype = random.integers(0, 6, count).astype(np.int32), random.integers(0, 3, nodes).astype(np.int32)
    return RelationalGraph(shape, "drawn", nodes, 6, 3, src, dst, etype, ntype)


def prepared(case: Case, compilation: explorer.Compilation, shape: str) -> Prepared:
    """A compiled case on a graph of a shape, as the checks on a GPU would launch it."""
    given = inputs_of(case, compilation, Setting(never_launched, 1, graph_of(shape), 19))
    program: Any = compilation.stages["loops"].program
    scheduled: Any = compilation.stages["kernels"].program
    arrays, extents = check_inputs(program, given)
    nests = getattr(program, "programs", (program,))
    return Prepared(getattr(scheduled, "programs", (scheduled,)), nests, {**extents, **arrays})


def inputs_of(case: Case, compilation: explorer.Compilation, setting: Setting) -> dict[str, Any]:
    if compilation.family == "score" and "grad" not in case.options:
        return signed(case, compilation, draw(compilation, triples(), case.batch))
    given = signed(case, compilation, INPUTS[compilation.family](setting, compilation))
    graph: Any = compilation.stages["graph"].program
    upstream = given.pop(upstream_names(graph)[0]) if "grad" in case.options else None
    assert compilation.encode is not None
    arrays, _ = compilation.encode(compilation, given, upstream)
    return arrays


def never_launched(compilation: explorer.Compilation, inputs: dict[str, Any]) -> Any:
    raise AssertionError


def hold(case: Case, shapes: tuple[str, ...] = SHAPES) -> None:
    """Holds what the kernels state on graphs of the shapes; they are compiled once, whatever the graph."""
    compilation = compiled(case)
    for shape in shapes if compilation.family == "layer" else SHAPES[:1]:
        found = prepared(case, compilation, shape)
        with np.errstate(all="ignore"):
            hold_facts(found.kernels, found.inputs)


@pytest.mark.parametrize("number", range(3, len(CASES), EVERY))
def test_what_kernels_state_holds(number: int) -> None:
    hold(CASES[number], SHAPES[number % 2 :: 2])


@pytest.mark.swept(4)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_all_that_kernels_state_holds(number: int) -> None:
    hold(CASES[number])


def shifted(kernel: ScheduledKernel) -> Iterator[ScheduledKernel]:
    """The kernel with one of the numbers that it stores in arrays of indices, and keeps there, one greater or less."""
    stated = {name for fact in kernel.facts for name in fact.arrays}
    names = Names({str(loops.result_of(node)) for node in walk(kernel)})

    def bodies(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
        for at, each in enumerate(body):
            if isinstance(each, Loop | Where):
                yield from ((*body[:at], replace(each, body=inner), *body[at + 1 :]) for inner in bodies(each.body))
            elif isinstance(each, loops.Store) and each.target in stated and each.function == "copy":
                for function in ("add", "sub"):
                    value = names.new("other")
                    one = loops.Index(result=value, function=function, operands=(*each.operands, 1), origin=each.origin)
                    yield (*body[:at], one, replace(each, operands=(value,)), *body[at + 1 :])

    return (replace(kernel, body=body) for body in bodies(kernel.body))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        *(pytest.param(model, "any", marks=pytest.mark.sweep) for model in ("hgt", "rgat_heads")),
        ("rgcn", "one row"),
    ],
)
def test_an_inspector_that_stores_other_numbers_is_found(model: str, shape: str) -> None:
    """By the rules, by what it states, or by those who read it: an element that nobody has written is no index."""
    size = 33 if model == "rgcn" else 8  # narrow rows have no inspector for those that are far
    given = Case((ROOT / "examples" / "rgnn" / f"{model}.emb").read_text(), size, 75, {})
    case = prepared(given, compiled(given), shape)
    want = written_by(case.kernels, case)
    changed = 0
    for place, kernel in enumerate(case.kernels):
        found = [is_found(case, place, mutant, want) for mutant in shifted(kernel)]
        assert not is_found(case, place, kernel, want)
        assert 2 * sum(found) >= len(found)
        changed += bool(found)
    assert changed


def written_by(kernels: tuple[ScheduledKernel, ...], case: Prepared) -> dict[str, Any]:
    """What kernels write of numbers, by name."""
    with np.errstate(all="ignore"):
        return {name: array for name, array in run_scheduled(kernels, case.inputs).items() if array.dtype == np.float32}


def is_found(case: Prepared, place: int, mutant: ScheduledKernel, want: dict[str, Any]) -> bool:
    """Whether the rules refuse a kernel, or what it states does not hold, or the case does not write what is wanted."""
    kernels = (*case.kernels[:place], mutant, *case.kernels[place + 1 :])
    extents = Extents(given_facts(case.nests))
    unproved = [each for kernel in kernels for each in extents.unproved(kernel)]
    if unproved:
        return True
    try:
        with np.errstate(all="ignore"):
            hold_facts(kernels, case.inputs)
        found = written_by(kernels, case)
    except (BrokenFact, IndexError):
        return True
    return not all(np.array_equal(found[name], want[name], equal_nan=True) for name in want)
