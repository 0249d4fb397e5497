"""Readouts of a batch of graphs, and virtual nodes, on batches of other numbers of graphs than the traced one."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")
pytest.importorskip("torch_geometric", reason="the pools are torch_geometric's")

from tests.runtime.trace.group_modules import MODELS, ByHand, Pooled, graphs, pyg  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402


@pytest.fixture(autouse=True)
def _one_way(monkeypatch):
    monkeypatch.setattr("torch_geometric.backend.use_segment_matmul", False)


def traced(name):
    make, takes = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    return module, explorer.trace(module, *taken(takes, graphs(9, 3, 14, 0)))


def taken(takes, tensors):
    return [tensors[each] for each in takes.split()]


@pytest.mark.parametrize("name", MODELS)
def test_a_replacement_has_the_results_and_gradients_on_other_batches(name) -> None:
    module, found = traced(name)
    takes = MODELS[name][1]
    redraw(module, 3)
    replacement = found.module()
    for nodes, count, edges in ((23, 6, 61), (12, 1, 12), (17, 9, 8), (5, 3, 14)):
        hold(module, replacement, taken(takes, graphs(nodes, count, edges, nodes)))
    if "graphs" in takes or "rows" in takes:
        hold(module, replacement, taken(takes, graphs(8, 30, 21, 5, last=False)))


def test_the_text_has_nodes_and_groups() -> None:
    assert traced("sums")[1].text == (
        "layer Pooled(batch: graph[member, group], g: graph[member, member]):\n"
        '    "Traced from the PyTorch module Pooled"\n'
        "    param convolution_bias[4], convolution_lin[4, 4], out_weight[3, 4], out_bias[3], x[member, 4]\n"
        "    for n in g.nodes():\n"
        '        n["h"] = where(g.in_degree(n) == 0, 0, pow(g.in_degree(n), -0.5))\n'
        '        n["h2"] = convolution_lin @ x[n]\n'
        "    for n in g.nodes():\n"
        '        n["h3"] = relu(sum(e.src["h"] * e.dst["h"] * e.src["h2"] for e in g.incoming_edges(n))'
        " + convolution_bias)\n"
        "    for m in batch.dst_nodes():\n"
        '        m["h4"] = out_weight @ sum(e.src["h3"] for e in batch.incoming_edges(m)) + out_bias\n'
        '    return m["h4"]\n'
    )


def test_how_many_graphs_there_are_is_looked_at_again_where_the_ids_are_the_same() -> None:
    module, found = traced("by hand")
    replacement, tensors = found.module(), graphs(9, 3, 14, 0)
    for count in (3, 5, 4):
        hold(module, replacement, taken("x edges batch graphs", {**tensors, "graphs": count}))


def test_ids_beyond_the_number_of_graphs_are_refused() -> None:
    _, found = traced("by hand")
    x, edges, batch, _ = taken("x edges batch graphs", graphs(9, 3, 14, 0))
    with pytest.raises(ValueError, match="is not in 0 to 1"):
        found.module()(x, edges, batch, 2)


def test_a_number_of_nodes_is_one_of_rows_and_another_is_refused() -> None:
    class Numbered(torch.nn.Module):
        def forward(self, x, edge_index, nodes):
            return torch.zeros(nodes, 4).index_add(0, edge_index[1], x[edge_index[0]])

    def call(nodes):
        return [*taken("x edges", graphs(nodes, 3, 14, 0)), nodes]

    found = explorer.trace(Numbered(), *call(9)).module()
    hold(Numbered(), found, call(17))
    with pytest.raises(ValueError, match=r"say \[17, 19\] here"):
        found(*call(17)[:2], 19)


def test_a_number_of_graphs_that_is_computed_with_is_refused() -> None:
    class Scaled(ByHand):
        def forward(self, x, edge_index, batch, graphs):
            return super().forward(x, edge_index, batch, graphs) / graphs

    with pytest.raises(ValueError, match="comes from how many rows there are"):
        explorer.trace(Scaled(), *taken("x edges batch graphs", graphs(9, 3, 14, 0)))


def test_edges_that_are_summed_into_graphs_are_refused() -> None:
    class OfEdges(torch.nn.Module):
        def forward(self, x, edge_index, batch, graphs):
            h = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
            found = torch.zeros(graphs, 4).index_add(0, batch[edge_index[0]], h[edge_index[1]])
            return found.index_add(0, batch, h)

    with pytest.raises(ValueError, match="sum them into the nodes"):
        explorer.trace(OfEdges(), *taken("x edges batch graphs", graphs(9, 3, 14, 0)))


def test_a_readout_in_training_has_the_results_too() -> None:
    module = Pooled(pyg.global_mean_pool)
    found = explorer.trace(module, *taken("x edges batch graphs", graphs(9, 3, 14, 0)))
    hold(module, found.module(), taken("x edges batch graphs", graphs(12, 5, 12, 1)))


class TwoGroupings(torch.nn.Module):
    """Nodes in groups of two kinds, whose numbers are arguments."""

    def forward(self, x, first, count, second, more):
        return x.new_zeros(count, 4).index_add(0, first, x), x.new_zeros(more, 4).index_add(0, second, x.relu())


def in_two_groupings(nodes: int, *counts: int) -> list[object]:
    first, second = (torch.randint(count, (nodes,)) for count in counts)
    return [torch.randn(nodes, 4), first, counts[0], second, counts[1]]


def test_groups_of_two_kinds_have_the_numbers_that_are_handed_in() -> None:
    module = TwoGroupings()
    replacement = explorer.trace(module, *in_two_groupings(10, 3, 6)).module()
    for nodes, *counts in ((12, 4, 5), (7, 9, 2), (5, 8, 8), (8, 8, 3)):
        hold(module, replacement, in_two_groupings(nodes, *counts))


def test_groups_of_two_kinds_that_ids_alone_count_are_refused() -> None:
    class Counted(torch.nn.Module):
        def forward(self, x, first, second):
            return TwoGroupings()(x, first, int(first.max()) + 1, second, int(second.max()) + 1)

    first, second = torch.arange(10) % 3, torch.arange(10) % 6
    with pytest.raises(ValueError, match="how many there are of one kind is computed of ids alone"):
        explorer.trace(Counted(), torch.randn(10, 4), first, second)
