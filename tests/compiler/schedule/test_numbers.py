"""Every example scheduled: the numbers of its loops, whatever the rows' lengths."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import run_program
from explorer.compiler.report import Report
from explorer.compiler.schedule.program import schedule
from explorer.runtime.reference import evaluate as reference
from tests.compiler import ops
from tests.compiler.models import draw_inputs
from tests.compiler.test_layers import drawn, tiny_graph

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCORES = sorted(path for path in EXAMPLES.glob("*/*.emb") if "\nscore " in path.read_text())
LAYERS = sorted(EXAMPLES.glob("rgnn/*.emb"))
SIZES = {
    "odd": {"D": 5, "K": 3, "F": 7, "G": 3, "H": 2, "S": 2, "Q": 3},
    "pairs": {"D": 6, "K": 34, "F": 2, "G": 66, "H": 1, "S": 3, "Q": 2},
    "quads": {"D": 16, "K": 36, "F": 12, "G": 8, "H": 4, "S": 2, "Q": 2},
}

by_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
by_gradient = pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])


def scheduled(compilation):
    """A compilation that runs its loops by way of their schedules."""

    def run(program, inputs):
        return run_program(schedule(program, Report.silent()), inputs)

    return replace(compilation, targets={**compilation.targets, "loops": run})


def compiled(path, sizes, **options):
    text = path.read_text()
    sizes = {name: size for name, size in sizes.items() if f"{name} =" in text}
    return explorer.compile(text, sizes=sizes, options=options, on_demand=True)


def assert_same(compilation, inputs, grad=None):
    """The results, and gradients, of the loops and of their schedule."""
    want, got = (each.run(inputs, "loops", grad) for each in (compilation, scheduled(compilation)))
    if grad is None:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        return
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-5)
    for name, gradient in want[1].items():
        # Where terms cancel, rounding errors of the terms' size are left.
        least = 1e-4 * max(1.0, float(np.abs(gradient).max(initial=0.0)))
        np.testing.assert_allclose(got[1][name], gradient, rtol=1e-3, atol=least, err_msg=name)


@pytest.mark.parametrize("path", SCORES, ids=lambda path: path.stem)
@by_size
@pytest.mark.parametrize("negatives", ["none", "head:2", "tail:3"])
def test_scores(path, sizes, negatives):
    compilation = compiled(path, sizes, negatives=negatives)
    assert_same(compilation, draw_inputs(compilation, batch=9, entities=4, relations=2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", SCORES, ids=lambda path: path.stem)
@by_size
@pytest.mark.parametrize("negatives", ["none", "tail:3"])
def test_gradients_of_scores(path, sizes, negatives):
    compilation = compiled(path, sizes, negatives=negatives, grad=True)
    shape = (5,) if negatives == "none" else (5, 3)
    upstream = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    inputs = draw_inputs(compiled(path, sizes, negatives=negatives), batch=5, entities=4, relations=2)
    assert_same(compilation, inputs, upstream)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
@by_size
@pytest.mark.parametrize("switch", [False, True])
def test_layers(path, sizes, switch):
    compilation = compiled(path, sizes, reorder=switch, compact=switch)
    assert_same(compilation, drawn(compilation, tiny_graph()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
@pytest.mark.parametrize("switch", [False, True])
def test_gradients_of_layers(path, switch):
    compilation = compiled(path, SIZES["quads"], reorder=switch, compact=switch, grad=True)
    inputs = drawn(compilation, tiny_graph())
    shape = reference.layer(compilation.text, inputs, compilation.sizes).shape
    upstream = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    assert_same(compilation, inputs, upstream)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ops.OPS, ids=lambda path: path.stem)
@by_size
@by_gradient
def test_ops(path, sizes, grad):
    compilation = compiled(path, sizes, grad=grad)
    graph = compilation.stages["graph"].program
    arrays = ops.encoded(graph, *ops.structure_of(graph, (2, 0, 9, 1, 0)))
    loops = compilation.stages["loops"].program
    (want, slopes), (got, found) = (run_program(p, arrays) for p in (loops, schedule(loops, Report.silent())))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert set(found) == set(slopes)
    for name, slope in slopes.items():
        np.testing.assert_allclose(found[name], slope, rtol=1e-3, atol=1e-4, err_msg=name)
