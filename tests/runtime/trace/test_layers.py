"""Convolutions of torch_geometric become layers, and replacements with their results and gradients on other graphs."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")
pytest.importorskip("torch_geometric", reason="the convolutions are torch_geometric's")

from tests.runtime.trace.convolutions import CONVOLUTIONS, arguments, graph  # noqa: E402
from tests.runtime.trace.graph_modules import MODELS, NODES, TypedSum  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402

TABLE = (Path(__file__).resolve().parents[3] / "docs" / "TRACE.md").read_text()
ROWS = dict(re.findall(r"^\| ([A-Z]\w+(?: [a-z ]+)?) \| ([^|]+) \|$", TABLE, re.MULTILINE))
"""What the page says of each convolution: that it goes, or what the tracer says."""
GO = [name for name, said in ROWS.items() if said == "goes"]


def traced(name):
    torch.manual_seed(0)
    module = CONVOLUTIONS[name][0]().eval()
    return module, explorer.trace(module, *arguments(name, graph(7, 13, 0)))


@pytest.mark.sampled(4, 1)
@pytest.mark.parametrize("name", GO)
def test_a_replacement_has_the_results_and_gradients_on_another_graph(name) -> None:
    module, found = traced(name)
    redraw(module, 3)
    replacement = found.module()
    for nodes, edges in ((23, 61), (12, 12)):
        hold(module, replacement, arguments(name, graph(nodes, edges, nodes)))


@pytest.mark.parametrize("name", [name for name in ROWS if name not in GO])
def test_what_does_not_go_says_why(name) -> None:
    with pytest.raises((ValueError, ImportError), match=re.escape(ROWS[name])):
        traced(name)


def test_the_page_has_every_convolution() -> None:
    assert list(ROWS) == list(CONVOLUTIONS)


def test_the_text_is_what_one_would_write() -> None:
    assert traced("GraphConv")[1].text == (
        "layer GraphConv(g: graph):\n"
        '    "Traced from the PyTorch module GraphConv"\n'
        "    param lin_rel_weight[3, 4], lin_rel_bias[3], lin_root[3, 4], x[node, 4]\n"
        "    for n in g.nodes():\n"
        '        n["out"] = lin_rel_weight @ sum(x[e.src] for e in n.incoming_edges()) + lin_rel_bias'
        " + lin_root @ x[n]\n"
        '    return n["out"]\n'
    )


@pytest.mark.parametrize("name", MODELS)
def test_models_of_several_layers(name) -> None:
    make, takes = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()

    def tensors(nodes, edges, seed):
        drawn = graph(nodes, edges, seed)
        return [drawn[each] for each in takes.split()]

    found = explorer.trace(module, *tensors(7, 13, 0))
    redraw(module, 3)
    hold(module, found.module(), tensors(NODES, 61, 1))
    hold(module, found.module(), tensors(12, 12, 2))


def test_a_sum_of_ones_is_the_degree() -> None:
    text = traced("GCNConv")[1].text
    assert '["h"] = where(n.in_degree == 0, 0, pow(n.in_degree, -0.5))' in text
    assert 'sum(e.src["h"] * e.dst["h"] * e.src["h2"] for e in n.incoming_edges()) + bias' in text


def test_types_are_a_table_and_a_mean_of_all_nodes_is_one_value() -> None:
    tensors = graph(7, 13, 0)
    text = explorer.trace(TypedSum(), tensors["x"], tensors["edges"], tensors["types"]).text
    assert "weight[etype, 4, 5]" in text
    assert "mean(n[" in text
    assert "for n in g.nodes())" in text


def test_a_graph_with_as_many_nodes_as_edges_is_no_example() -> None:
    module, tensors = TypedSum(), graph(9, 9, 0)
    with pytest.raises(ValueError, match="as many nodes as edges"):
        explorer.trace(module, tensors["x"], tensors["edges"], tensors["types"])


def test_ids_of_a_graph_are_made_once() -> None:
    module, found = traced("GCNConv")
    replacement, tensors = found.module(), graph(23, 61, 3)
    steps = []
    binding = replacement._held[1]
    made = binding.ids.of
    object.__setattr__(binding, "ids", SimpleNamespace(of=lambda whole: steps.append(1) or made(whole)))
    for _ in range(3):
        hold(module, replacement, arguments("GCNConv", tensors))
    assert len(steps) == 1
    tensors["edges"][0, 0] += 1
    hold(module, replacement, arguments("GCNConv", tensors))
    assert len(steps) == 2
