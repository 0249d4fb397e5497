"""What a run computes on: the same on every draw, of the declared shapes, and refused before it is too large."""

import tracemalloc

import numpy as np
import pytest

import explorer
from explorer.runtime.data.triples import InputError, Triples, load_triples
from explorer.runtime.encode.batch import draw
from explorer.runtime.reference.evaluate import score

TRANSR = """
dim D = 8, K = 6
score TransR(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], P[relation, D, K], bias[relation]
    input scale[K]
    return norm(((E[h] - E[t]) @ P[r] + R[r]) * scale, 2) + bias[r]
"""


def graph_of(entities=9, relations=3):
    """A graph in which relation r leads from entity e to e + r + 1."""
    h = np.repeat(np.arange(entities), relations).astype(np.int32)
    r = np.tile(np.arange(relations), entities).astype(np.int32)
    return Triples("small", "file", entities, relations, h, r, ((h + r + 1) % entities).astype(np.int32))


def test_arrays_have_the_declared_shapes_and_types():
    inputs = draw(explorer.compile(TRANSR, on_demand=True), graph_of(), batch=20)
    shapes = {name: array.shape for name, array in inputs.items()}
    assert shapes == {
        **dict.fromkeys("hrt", (20,)),
        "E": (9, 8),
        "R": (3, 6),
        "P": (3, 8, 6),
        "bias": (3,),
        "scale": (6,),
    }
    assert {array.dtype.name for name, array in inputs.items() if name in "hrt"} == {"int32"}
    assert {array.dtype.name for name, array in inputs.items() if name not in "hrt"} == {"float32"}


def test_every_row_is_a_triple_of_the_graph():
    inputs = draw(explorer.compile(TRANSR, on_demand=True), graph_of(), batch=200)
    assert np.array_equal(inputs["t"], (inputs["h"] + inputs["r"] + 1) % 9)
    assert set(inputs["h"].tolist()) == set(range(9))


@pytest.mark.parametrize(("mode", "name"), [("tail:5", "t"), ("head:5", "h")])
def test_negatives_replace_one_end(mode, name):
    compilation = explorer.compile(TRANSR, options={"negatives": mode}, on_demand=True)
    inputs = draw(compilation, graph_of(), batch=50)
    assert inputs[name].shape == (50, 5)
    assert inputs[name].dtype == np.int32
    assert set(inputs[name].ravel().tolist()) == set(range(9))
    assert {inputs[other].shape for other in "hrt" if other != name} == {(50,)}


def test_chunks_of_triples_share_one_list_of_negatives():
    compilation = explorer.compile(TRANSR, options={"negatives": "tail:5/16"}, on_demand=True)
    inputs = draw(compilation, graph_of(), batch=50)
    assert inputs["t"].shape == (4, 5)
    assert {inputs[name].shape for name in "hr"} == {(50,)}


def test_a_seed_fixes_the_draw():
    compilation = explorer.compile(TRANSR, options={"negatives": "tail:4"}, on_demand=True)
    first, again, other = (draw(compilation, graph_of(), batch=30, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_a_tensor_does_not_depend_on_the_others():
    less = TRANSR.replace(", bias[relation]", "").replace(" + bias[r]", "")
    full, fewer = (draw(explorer.compile(text, on_demand=True), graph_of(), batch=30) for text in (TRANSR, less))
    assert all(np.array_equal(full[name], fewer[name]) for name in fewer)


def test_parameters_take_the_names_and_roles_of_the_header():
    text = """
dim D = 4
score Model(source: entity, kind: relation, goal: entity):
    param E[entity, D], R[relation, D]
    return sum(E[source] * R[kind] * E[goal])
"""
    inputs = draw(explorer.compile(text, options={"negatives": "head:3"}, on_demand=True), graph_of(), batch=10)
    assert inputs["source"].shape == (10, 3)
    assert inputs["kind"].max() == 2
    assert inputs["goal"].shape == (10,)


@pytest.mark.parametrize("size", [4, 64, 512])
def test_scores_neither_grow_nor_vanish_with_the_sizes(size):
    text = TRANSR.replace(" * scale", "")
    compilation = explorer.compile(text, sizes={"D": size, "K": size}, on_demand=True)
    inputs = draw(compilation, graph_of(), batch=50)
    scores = score(text, inputs, compilation.sizes)
    assert 0.3 < np.mean(np.abs(scores)) < 5


def test_too_large_inputs_are_refused_before_they_are_made():
    compilation = explorer.compile(TRANSR, sizes={"D": 4096, "K": 2048}, on_demand=True)
    triples = load_triples("FB15k")
    tracemalloc.start()
    with pytest.raises(InputError) as refused:
        draw(compilation, triples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    message = str(refused.value)
    assert "the inputs would take 42.27 GiB, more than the limit of 2.00 GiB" in message
    assert "the largest is P[relation 1345, D 4096, K 2048] with 42.03 GiB" in message
    assert "try a smaller D or K, or data with fewer relations" in message


def test_a_huge_batch_is_refused_by_name():
    compilation = explorer.compile(TRANSR, options={"negatives": "tail:4096"}, on_demand=True)
    with pytest.raises(InputError, match=r"ids and scores \[1000000 x 4096\] .* smaller batch or fewer negatives"):
        draw(compilation, graph_of(), batch=1_000_000)
    with pytest.raises(InputError, match="at least 1 triple, not 0"):
        draw(compilation, graph_of(), batch=0)


def test_the_limit_is_the_callers():
    with pytest.raises(InputError, match=r"more than the limit of 0\.0 MiB"):
        draw(explorer.compile(TRANSR, on_demand=True), graph_of(), limit=1000)
