"""Every example at every level of SLC and in DLC: the same numbers as its loops, whatever the length of vectors.

Rows are as long as vectors or one longer or shorter; structures have empty segments."""

from pathlib import Path

import numpy as np
import pytest

from explorer.compiler.interpret import run_program
from tests.compiler import ops
from tests.compiler.ir.test_stages_parse_back import assert_parses_back
from tests.compiler.levels import SLC_STAGES, SWITCHES
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.test_layers import drawn, tiny_graph

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STAGES = (*SLC_STAGES, "dlc")
LEVELS = range(4)
VLENS = (1, 4, 5)

scores = pytest.mark.parametrize(
    "path",
    sorted(path for path in EXAMPLES.glob("*/*.emb") if "\nscore " in path.read_text()),
    ids=lambda path: path.stem,
)
layers = pytest.mark.parametrize("path", sorted(EXAMPLES.glob("rgnn/*.emb")), ids=lambda path: path.stem)
embeddings = pytest.mark.parametrize("path", ops.OPS, ids=lambda path: path.stem)


def assert_same(compilations, run):
    """All stages give what the loops of the first compilation give; at each level the DLC is another one."""
    want = run(compilations[0], "loops")
    for compilation in compilations:
        level = compilation.options.opt
        for stage in STAGES if level == LEVELS[-1] else ("dlc",):
            got = run(compilation, stage)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{stage} at opt{level}")


def sized(path, **sizes):
    text = path.read_text()
    return text, {name: size for name, size in sizes.items() if f"{name} =" in text}


@pytest.mark.sampled(4)
@scores
@pytest.mark.parametrize("vlen", VLENS)
@pytest.mark.parametrize("negatives", ["none", "head:2"])
def test_scores(path, vlen, negatives):
    text, sizes = sized(path, D=5, K=4)
    options = {"vlen": vlen, "negatives": negatives}
    made = [compiled(text, sizes=sizes, options={"opt": n, **options}, on_demand=True) for n in LEVELS]
    inputs = draw_inputs(made[0], batch=3, entities=4, relations=2)
    assert_same(made, lambda compilation, stage: compilation.run(inputs, on=stage))


@pytest.mark.sampled(2)
@layers
@pytest.mark.parametrize("vlen", [1, 4])
def test_layers(path, vlen):
    text, sizes = sized(path, F=5, G=3, H=2, D=4)
    made = [compiled(text, sizes=sizes, options={"opt": n, "vlen": vlen}, on_demand=True) for n in LEVELS]
    inputs = drawn(made[0], tiny_graph())
    assert_same(made, lambda compilation, stage: compilation.run(inputs, on=stage))


@pytest.mark.sampled(3)
@embeddings
@pytest.mark.parametrize("vlen", VLENS)
@pytest.mark.parametrize("grad", [False, True])
def test_ops(path, vlen, grad):
    made = [ops.compiled(path.read_text(), opt=n, vlen=vlen, grad=grad) for n in LEVELS]
    graph = made[0].stages["graph"].program
    arrays = ops.encoded(graph, *ops.structure_of(graph))

    def run(compilation, stage):
        result, gradients = run_program(compilation.stages[stage].program, arrays)
        return np.concatenate([np.ravel(part) for part in (result, *gradients.values())])

    assert_same(made, run)


@pytest.mark.sampled(6)
@embeddings
@pytest.mark.parametrize("switches", [*((switch,) for switch in SWITCHES), SWITCHES], ids="-".join)
def test_ops_with_what_is_specific_to_models(path, switches):
    chosen = dict.fromkeys(switches, True)
    made = [ops.compiled(path.read_text(), opt=n, vlen=4, **chosen) for n in LEVELS]
    graph = made[0].stages["graph"].program
    assert_parses_back(made[-1])
    for lengths in ((2, 0, 3, 1, 0), (0, 0, 4)):
        arrays = ops.encoded(graph, *ops.structure_of(graph, lengths))
        assert_same(made, lambda c, stage, arrays=arrays: run_program(c.stages[stage].program, arrays)[0])
