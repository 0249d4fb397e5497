"""A score's arguments may be called anything: also what ascending arrays of a graph, a list or a matrix are called. And
nothing is known of a set that a text declares by what it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import explorer
from explorer.compiler.ir.set_maps import sorted_maps
from explorer.compiler.options import EDGES
from tests.emulator.launch import launch

B, ENTITIES, RELATIONS, D = 60, 9, 4, 32
RANDOM = np.random.default_rng(3)
IDS = [RANDOM.integers(0, rows, B) for rows in (ENTITIES, RELATIONS, ENTITIES)]
TABLES = {
    "E": RANDOM.normal(size=(ENTITIES, D)).astype(np.float32),
    "R": RANDOM.normal(size=(RELATIONS, D)).astype(np.float32),
    "P": RANDOM.normal(size=(RELATIONS, D, D)).astype(np.float32),
}
UPSTREAM = RANDOM.normal(size=B).astype(np.float32)
NAMES = {
    ("dst", "bag", "row"): "dst",
    ("query", "dst_pair", "src"): "dst",
    ("src_pair_etype", "dst_pair_node", "col"): "dst",
    ("src", "src_pair_node", "dst_pair_etype"): "src",
    ("row", "src_pair", "query"): "src",
    ("dst", "dst_pair", "dst_pair_node"): "dst",
    ("src_pair_node", "src_pair", "src"): "src",
}
"""Names of arguments, with the end that edges are sorted by where there are some."""


def text(head: str, relation: str, tail: str) -> str:
    return f"""dim D = {D}

score Named({head}: entity, {relation}: relation, {tail}: entity):
    param E[entity, D]
    param R[relation, D]
    param P[relation, D, D]
    return dot((E[{head}] - E[{tail}]) @ P[{relation}], R[{relation}])
"""


def expected() -> tuple[Any, dict[str, Any]]:
    """The scores and the gradients, in float64."""
    head, relation, tail = (torch.from_numpy(ids) for ids in IDS)
    tables = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in TABLES.items()}
    rows = tables["E"][head] - tables["E"][tail]
    scores = (torch.einsum("bd,bdk->bk", rows, tables["P"][relation]) * tables["R"][relation]).sum(1)
    scores.backward(torch.from_numpy(UPSTREAM).double())
    return scores.detach().numpy(), {
        name: table.grad.numpy() for name, table in tables.items() if table.grad is not None
    }


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_every_map_that_ascends_is_tried() -> None:
    tried = {edges: {name for names, end in NAMES.items() for name in names if end == edges} for edges in EDGES}
    of_lists = {"bag", "query", "row"}
    for edges in EDGES:
        assert sorted_maps(edges).keys() - of_lists <= tried[edges]
    assert of_lists <= set().union(*tried.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("names", NAMES, ids=" ".join)
@pytest.mark.parametrize("inspect", ["true", "chunks"])
def test_scores_and_gradients(names: tuple[str, str, str], inspect: str) -> None:
    """Nothing takes a batch for sorted."""
    inputs = {**dict(zip(names, IDS, strict=True)), **TABLES}
    scores, gradients = expected()
    options = {"inspect": inspect, "edges": NAMES[names]}
    plain = explorer.compile(text(*names), options=options)
    made = explorer.compile(text(*names), options={**options, "grad": True})
    for on in ("graph", "loops", "kernels", "cpu", "dae"):
        close(plain.run(inputs, on), scores)
        result, found = made.run(inputs, on, grad=UPSTREAM)
        close(result, scores)
        assert found.keys() == gradients.keys()
        for name, want in gradients.items():
            close(found[name], want)


@pytest.mark.parametrize("names", [*NAMES][:1], ids=" ".join)
def test_the_cuda(names: tuple[str, str, str]) -> None:
    inputs = {**dict(zip(names, IDS, strict=True)), **TABLES}
    scores, gradients = expected()
    close(launch(explorer.compile(text(*names)), inputs)[0], scores)
    made = explorer.compile(text(*names), options={"grad": True})
    arrays, finish = made.encode(made, inputs, UPSTREAM)
    _, found = finish(*launch(made, arrays))
    for name, want in gradients.items():
        close(found[name], want)


@pytest.mark.parametrize("name", ["far_etype", "far_edge", "far_node"])
def test_a_sets_name_changes_no_kernel(name: str) -> None:
    """Neither as the types, the edges or the nodes of a graph are called."""

    def kernels(kind: str) -> str:
        layer = f"""dim D = 16
layer Named(g: graph):
    input x[node, D]
    param K[{kind}, D]
    map sort: edge -> {kind}
    for n in g.nodes():
        n["h"] = sum(x[e.src] * K[e.sort] for e in n.incoming_edges())
    return n["h"]
"""
        return explorer.compile(layer, options={"grad": True}, on_demand=True).stages["kernels"].text

    assert kernels(name).replace(name, "far_thing") == kernels("far_thing")
