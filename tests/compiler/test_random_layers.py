"""Random layers over random graphs: every stage, with every combination of passes, computes what the text means, and
so do the gradients; every stage's text parses back. Kernels of a GPU are made of the latter alone: what they compute is
held in `test_option_pairs` and `sweep.quiet`, and to make them of every drawing takes more time than all the rest.

The meaning is `explorer.runtime.reference.evaluate`, an evaluator in float64 that shares no code with the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from explorer.runtime.reference import evaluate as reference
from tests.compiler.ir.test_stages_parse_back import assert_parses_back
from tests.compiler.layers import SETTINGS
from tests.compiler.levels import LEVEL_OPTIONS, SLC_STAGES
from tests.compiler.models import compiled
from tests.compiler.random_layers import graphs, layer_inputs, layer_texts

STAGES = ("graph", "loops", *SLC_STAGES, "dlc")
TOLERANCE = 3e-4
"""Relative to 1 or the value, whichever is more: intermediate values go up to some hundreds in float32."""
SEEDS = st.integers(0, 1000)
ALL_SETTINGS = pytest.mark.parametrize(
    "setting", SETTINGS, ids=lambda setting: "-".join(name for name in setting if setting[name]) or "plain"
)

HEADER = """dim F = 3, G = 2
layer f(g: graph):
    param x[node, F], W[etype, F, G], a[1, F], b[G, 1, F, 1], inf[F]
"""
FOUND = {
    "a value of no set beside one of nodes": 'n["h"] = tanh(concat(x[n], norm(a)))',
    "a value of no set in a kernel over edges": (
        'n["h"] = sum(tanh(concat(x[e.src], norm(a))[1:] @ W[e.etype]) for e in n.outgoing_edges())'
    ),
    "a minimum beside an array named inf": 'n["h"] = min(x[e.src] for e in n.incoming_edges()) + inf',
    "ties": 'n["h"] = max(min(x[e.src], x[e.src]) for e in n.incoming_edges()) + max(concat(x[n], x[n]))',
    "a sum's gradient is spread": 'n["h"] = sum(mean(W[e.etype][1:]) for e in n.incoming_edges()) * sum(x[n])',
    "elements at computed places": 'n["h"] = sum(reshape(W[e.etype], F * G)[1:3] for e in n.outgoing_edges())',
    "parts of parts of a row": 'n["h"] = min(concat(x[n], concat(x[n], inf)), concat(x[n], x[n], inf))',
    "an empty sum beside a variable of the same name": 'n["h"] = sum(x[e.dst] for e in n.outgoing_edges())',
}
"""What random layers have found, each as the statement of a loop over nodes."""
ADDRESSES = """dim F = 4, G = 2, H = 1
layer f(g: graph):
    input y[node, 2, H, F, H], p[4]
    param b[G, 1, 4, H], V[etype, G, 1, F, 2]
    for e in g.edges():
        z = norm(dot(y[e.dst], b) @ V[e.etype])
        e["h"] = reshape(norm(reshape(p, 2, 2)), G) + sum(max(z))
    edge_softmax(g, "h")
    return e["h"]
"""
"""Addresses of numbers alone, in loops beside each other."""
GRAPH: dict[str, Any] = {
    "src": np.array([0, 1, 1, 2, 2], dtype=np.int32),
    "dst": np.array([1, 2, 2, 2, 0], dtype=np.int32),
    "etype": np.array([0, 2, 2, 0, 2], dtype=np.int32),
    "ntype": np.array([0, 0, 0, 0, 0, 0, 0], dtype=np.int32),
    "num_nodes": 7,
    "num_etypes": 3,
    "num_ntypes": 1,
}


def assert_close(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)


def assert_agrees(text: str, graph: dict[str, Any], seed: int, setting: dict[str, bool]) -> None:
    """Every stage gives what the reference says."""
    compilation = compiled(text, options=setting, on_demand=True)
    inputs = layer_inputs(compilation.stages["graph"].program, graph, seed)
    want = reference.layer(text, inputs, {})
    for stage in STAGES:
        got = compilation.run(inputs, on=stage)
        assert got.dtype == np.float32
        assert got.shape == want.shape
        assert_close(got, want, stage)


def assert_slopes(text: str, graph: dict[str, Any], seed: int, setting: dict[str, bool]) -> None:
    """Every stage's gradients give the slope along a random direction of each learnt tensor."""
    compilation = compiled(text, options={**setting, "grad": True}, on_demand=True)
    inputs = layer_inputs(compilation.stages["graph"].program, graph, seed)
    want = reference.layer(text, inputs, {})
    upstream = np.random.default_rng(seed + 1).uniform(-1, 1, want.shape).astype(np.float32)
    names = [name for name, _ in compilation.stages["graph"].program.gradients]
    slopes = reference.directional_difference(text, inputs, {}, upstream, names)
    for stage in STAGES:
        got, gradients = compilation.run(inputs, on=stage, grad=upstream)
        assert_close(got, want, stage)
        assert list(gradients) == names
        for slope in slopes:
            terms = gradients[slope.tensor] * slope.direction
            assert terms.shape == inputs[slope.tensor].shape
            # What cancels in the sum leaves an error of the size of its terms.
            error = abs(float(terms.sum()) - slope.value)
            assert error <= TOLERANCE * (1 + np.abs(terms).sum()), (stage, slope.tensor, slope.value)


def draw_layers(check: Any, chosen: st.SearchStrategy[dict[str, bool]], count: int) -> None:
    """Holds a check to that many random layers on random graphs, under settings that are drawn."""

    @settings(max_examples=count, derandomize=True)
    @given(layer_texts(), graphs(), SEEDS, chosen, LEVEL_OPTIONS, st.booleans())
    def holds(text: str, graph: Any, seed: int, setting: dict[str, bool], level: dict[str, Any], online: bool) -> None:
        note(text)
        check(text, graph, seed, setting | level | {"online": online})

    holds()


def test_every_stage_of_a_random_layer_gives_its_numbers() -> None:
    draw_layers(assert_agrees, st.sampled_from(SETTINGS), 15)


def test_the_gradients_of_a_random_layer_are_its_slopes() -> None:
    draw_layers(assert_slopes, st.sampled_from(SETTINGS), 15)


@pytest.mark.sweep
@ALL_SETTINGS
def test_every_stage_of_many_random_layers_gives_its_numbers(setting: dict[str, bool]) -> None:
    draw_layers(assert_agrees, st.just(setting), 100)


@pytest.mark.sweep
@ALL_SETTINGS
def test_the_gradients_of_many_random_layers_are_their_slopes(setting: dict[str, bool]) -> None:
    draw_layers(assert_slopes, st.just(setting), 50)


@pytest.mark.parametrize(
    "count", [3, pytest.param(20, marks=pytest.mark.sweep), pytest.param(60, marks=pytest.mark.exhaustive)]
)
def test_every_stage_of_a_random_layer_parses_back(count: int) -> None:
    @settings(max_examples=count, derandomize=True)
    @given(layer_texts(depth=2), st.sampled_from(SETTINGS), st.booleans())
    def parses_back(text: str, setting: dict[str, bool], grad: bool) -> None:
        note(text)
        assert_parses_back(compiled(text, options={**setting, "grad": grad}), passes=False)

    parses_back()


@pytest.mark.sampled(4)
@ALL_SETTINGS
@pytest.mark.parametrize("case", FOUND)
def test_what_random_layers_found(case: str, setting: dict[str, bool]) -> None:
    lines = ["for e in g.edges():", "    e['m'] = x[e.src]", "for n in g.nodes():", f"    {FOUND[case]}"]
    body = "\n".join(f"    {line}" for line in lines).replace("'", '"')
    text = f'{HEADER}{body}\n    return n["h"]\n'
    assert_agrees(text, GRAPH, 0, setting)
    assert_slopes(text, GRAPH, 0, setting)
    assert_parses_back(compiled(text, options=setting), passes=False)


@ALL_SETTINGS
def test_addresses_of_numbers(setting: dict[str, bool]) -> None:
    assert_slopes(ADDRESSES, GRAPH, 0, setting)
