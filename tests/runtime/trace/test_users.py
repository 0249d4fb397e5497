"""Modules in the style of what people write become texts, and replacements with their results and gradients."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.relation_modules import kinds  # noqa: E402
from tests.runtime.trace.user_modules import LAYERS, SCORES  # noqa: E402


def batch(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=generator) for most in (9, 4, 9)]


def drawn(takes, nodes, edges, seed):
    made = kinds(nodes, edges, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    made["position"] = torch.randn(nodes, 3, generator=generator)
    made["ids"] = torch.randint(0, 30, (nodes,), generator=generator)
    return [made[each] for each in takes.split()] if isinstance(takes, str) else takes(made)


@pytest.mark.parametrize("made", SCORES)
def test_a_score_has_the_results_and_gradients_on_other_batches(made) -> None:
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *batch(7, 0))
    redraw(module, 3)
    for count in (11, 4):
        hold(module, found.module(), batch(count, count))


@pytest.mark.parametrize("made", LAYERS)
def test_a_layer_has_the_results_and_gradients_on_other_graphs(made) -> None:
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *drawn(LAYERS[made], 7, 13, 0))
    redraw(module, 3)
    for nodes, edges in ((23, 61), (12, 12), (9, 2)):
        hold(module, found.module(), drawn(LAYERS[made], nodes, edges, nodes))


def test_rows_of_all_nodes_are_multiplied_in_one_sum() -> None:
    text = explorer.trace(*of("Everywhere")).text
    assert "for n in g.nodes())" in text


def test_a_graph_of_two_sets_of_nodes_is_one_of_both() -> None:
    class Bought(torch.nn.Module):
        def forward(self, users, items, edges):
            return items + torch.zeros_like(items).index_add(0, edges[1], users[edges[0]])

    def tensors(users, items, edges):
        ends = [torch.randint(0, count, (edges,)) for count in (users, items)]
        return torch.randn(users, 4), torch.randn(items, 4), torch.stack(ends)

    found = explorer.trace(Bought(), *tensors(7, 11, 13))
    hold(Bought(), found.module(), tensors(23, 12, 61))
    assert "sum(x[e.src] for e in n.incoming_edges())" in found.text


def test_a_maximum_from_infinity_is_refused_where_no_id_may_lead() -> None:
    class Largest(torch.nn.Module):
        def forward(self, x, edges):
            to = edges[1][:, None].expand(-1, 4)
            return torch.full_like(x, float("-inf")).scatter_reduce(0, to, x[edges[0]], "amax")

    with pytest.raises(ValueError, match="infinity where no id leads"):
        explorer.trace(Largest(), *drawn("x edges", 7, 13, 0))


def test_what_refuses_the_way_that_gets_furthest_is_said() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x, edges):
            mask = (edges[0] == edges[1])[:, None]
            return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]].masked_fill(mask, 2.0).sort(0).values)

    with pytest.raises(ValueError, match=r"aten\.sort is not in the table"):
        explorer.trace(Masked(), *drawn("x edges", 7, 13, 0))


def test_a_readout_of_a_number_of_graphs_that_the_source_has_is_refused() -> None:
    class Read(torch.nn.Module):
        def forward(self, x, edges, graphs):
            h = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            return torch.zeros(3, 4).index_add(0, graphs, h)

    x, edges = drawn("x edges", 7, 13, 0)
    with pytest.raises(ValueError, match=r"ids lead to 3 rows.*hand their number in as an argument of forward"):
        explorer.trace(Read(), x, edges, torch.arange(7) // 3)


def test_nodes_of_two_kinds_of_groups_are_refused() -> None:
    class Pooled(torch.nn.Module):
        """A sum over the edges into a node, and sums over the nodes of each graph of a batch, and of each cluster."""

        def forward(self, x, edges, graphs, each, clusters, every):
            h = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            return each.index_add(0, graphs, h), every.index_add(0, clusters, h)

    tensors = torch.randn(7, 4), torch.randint(0, 7, (2, 13)), torch.arange(7) // 3, torch.randn(3, 4)
    with pytest.raises(ValueError, match="several sets of them that are not nodes and their groups"):
        explorer.trace(Pooled(), *tensors, torch.arange(7) // 2, torch.randn(4, 4))


def of(name):
    made = next(each for each in LAYERS if each.__name__ == name)
    return [made(), *drawn(LAYERS[made], 7, 13, 0)]
