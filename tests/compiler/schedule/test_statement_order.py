"""Statements that read nothing of each other may stand in any order: the kernels and their numbers are the same.

The sweep exchanges every two such neighbours in the nests of every example and of every model of the zoo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import explorer
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Span, rewrite
from explorer.compiler.ir.parse import parse_kernel
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.split_products import split_products
from explorer.compiler.schedule.match.normal_order import in_normal_order
from explorer.compiler.schedule.program import schedule
from explorer.compiler.unsupported import Unsupported
from tests.compiler import swaps
from tests.compiler.models import draw_inputs
from tests.compiler.random_layers import layer_inputs, layer_texts
from tests.compiler.swaps import EXAMPLES, ZOO, nests_of, shuffled, with_nests

GRADS = pytest.mark.parametrize("grad", [False, True], ids=["forward", "grad"])
ALL_TEXTS = pytest.mark.parametrize("path", [*EXAMPLES, *ZOO], ids=lambda path: path.stem)
GRAPH = {
    "src": np.array([0, 1, 1, 2, 2, 5, 5, 5, 3], dtype=np.int32),
    "dst": np.array([1, 0, 2, 2, 2, 2, 4, 0, 0], dtype=np.int32),
    "etype": np.array([0, 1, 1, 2, 0, 2, 1, 1, 0], dtype=np.int32),
    "ntype": np.array([0, 1, 0, 1, 1, 0], dtype=np.int32),
    **{"num_nodes": 6, "num_etypes": 3, "num_ntypes": 2},
}

SLOWER = ("rgnn/rgat", "rgnn/hgt", "kge/transh", "kge/rescal")


def kernels_text(program: swaps.Program) -> str:
    """All that is scheduled for a program of the loops stage, or why nothing is."""
    report = Report.silent()
    try:
        scheduled = schedule(split_products(program, report), report)
    except Unsupported as error:
        return str(error)
    steps = scheduled.programs if isinstance(scheduled, Module) else (scheduled,)
    return "\n".join(line.text for step in steps for line in print_scheduled(step))


def of_one_origin(program: swaps.Program) -> swaps.Program:
    """The program as if all of it came from one operation: what shares a line depends on that."""
    one = (Span(1, 1, 1, 2),)
    return with_nests(
        program, tuple(rewrite(nest, lambda node: replace(node, origin=one)) for nest in nests_of(program))
    )


def in_any_order(program: swaps.Program, seed: int) -> swaps.Program:
    """The program with the statements of all nests in another order that means the same."""
    return with_nests(program, tuple(shuffled(nest, Random(seed)) for nest in nests_of(program)))


@pytest.mark.sampled(24)
@GRADS
@ALL_TEXTS
def test_kernels_do_not_depend_on_the_order_of_independent_statements(path: Path, grad: bool) -> None:
    program = swaps.compiled(path, grad=grad).stages["loops"].program
    assert program is not None
    text = kernels_text(program)
    for seed in range(2):
        other = in_any_order(program, seed)
        assert kernels_text(other) == text


@pytest.mark.swept(4)
@GRADS
@ALL_TEXTS
def test_no_exchange_of_two_neighbours_changes_what_is_scheduled(path: Path, grad: bool) -> None:
    """What `split_products` returns is all that is scheduled from: where it is the same, so are the kernels."""
    program = swaps.compiled(path, grad=grad).stages["loops"].program
    assert program is not None
    nests, report = nests_of(program), Report.silent()
    split = split_products(program, report)
    for place, nest in enumerate(nests):
        for swapped in swaps.swaps(nest):
            loops.verify_kernel(swapped)
            other = with_nests(program, (*nests[:place], swapped, *nests[place + 1 :]))
            assert split_products(other, report) == split or kernels_text(other) == kernels_text(program)


@pytest.mark.parametrize("name", ["rgnn/gcn", "rgnn/rgcn", "kge/transh"])
def test_a_nest_that_a_person_wrote_in_another_order_gives_the_same_kernels(name: str, root: Path) -> None:
    program = swaps.compiled(root / "examples" / f"{name}.emb", grad=True).stages["loops"].program
    moved = in_any_order(program, 3)
    written = ["".join(f"{line.text}\n" for line in loops.print_kernel(nest)) for nest in nests_of(moved)]
    parsed = with_nests(program, tuple(map(parse_kernel, written)))
    assert nests_of(parsed) != nests_of(program)
    assert kernels_text(of_one_origin(parsed)) == kernels_text(of_one_origin(program))


@pytest.mark.parametrize(
    "name", ["rgnn/gcn", "rgnn/rgcn", "kge/transr", *(pytest.param(n, marks=pytest.mark.sweep) for n in SLOWER)]
)
def test_numbers_do_not_depend_on_the_order_of_independent_statements(name: str, root: Path) -> None:
    text = (root / "examples" / f"{name}.emb").read_text()
    compilation = explorer.compile(text, options={"grad": True}, on_demand=True)
    program = compilation.stages["loops"].program
    assert program is not None
    other = in_any_order(program, 1)
    wanted = outcome(compilation, program, "loops")
    for array, want in zip(outcome(compilation, other, "loops"), wanted, strict=True):
        np.testing.assert_array_equal(array, want)
    for array, want in zip(outcome(compilation, other, "kernels"), wanted, strict=True):
        np.testing.assert_allclose(array, want, rtol=1e-4, atol=1e-4)


def outcome(compilation: explorer.Compilation, program: swaps.Program, on: str) -> list[np.ndarray]:
    """The result and the gradients, with another program of loops and what is scheduled for it."""
    report = Report.silent()
    programs = {"loops": program, "kernels": schedule(split_products(program, report), report)}
    stages = {name: compilation.stages[name] for name in ("graph", "loops", "kernels")}
    stages |= {name: replace(stages[name], program=changed) for name, changed in programs.items()}
    graph, score = compilation.stages["graph"].program, compilation.family == "score"
    inputs = draw_inputs(compilation.with_options(grad=False)) if score else layer_inputs(graph, GRAPH, 0)
    out = next(buffer for nest in nests_of(program) for buffer in nest.buffers if buffer.name == program.result)
    sizes = dict(nests_of(program)[0].sizes)
    upstream = np.ones([5 if score else 6, *(sizes.get(extent, extent) for extent in out.extents[1:])], np.float32)
    result, gradients = replace(compilation, stages=stages).run(inputs, on=on, grad=upstream)
    return [result, *(gradients[name] for name in sorted(gradients))]


@settings(max_examples=40)
@given(layer_texts(), st.booleans(), st.integers(0, 1000))
def test_a_random_layer_has_one_normal_order(text: str, grad: bool, seed: int) -> None:
    note(text)
    program = explorer.compile(text, options={"grad": grad}, on_demand=True).stages["loops"].program
    if program is None:
        return
    for nest in nests_of(program):
        normal = in_normal_order(nest)
        loops.verify_kernel(normal)
        assert in_normal_order(normal) is normal
        assert in_normal_order(shuffled(nest, Random(seed))) == normal
