"""What ids alone decide, and the language has no words for, is computed of them at each call and given to the text."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.relation_modules import kinds  # noqa: E402
from tests.runtime.trace.score_modules import Embedded  # noqa: E402


class Summed(torch.nn.Module):
    """A weight for each edge, that `weight` makes of ids."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        weight = self.weight(src, dst, edge_type, len(x))
        return torch.zeros(len(x), 3).index_add_(0, dst, self.linear(x)[src] * weight)


class Masked(Summed):
    """Without loops, by a mask that is multiplied."""

    def weight(self, src, dst, kind, nodes):
        return (src != dst).unsqueeze(1)


class Counted(Summed):
    """By how many edges of its type an edge's end has, by a table of one element for each type."""

    def weight(self, src, dst, kind, nodes):
        one = torch.nn.functional.one_hot(kind, 3).float()
        count = torch.zeros(nodes, 3).index_add_(0, dst, one)[dst].gather(1, kind[:, None])
        return 1 / count


class Ranked(Summed):
    """By the places of nodes in an order of their degrees."""

    def weight(self, src, dst, kind, nodes):
        degree = torch.bincount(dst, minlength=nodes)
        return degree.argsort(stable=True).float()[src, None] / nodes


class Written(Summed):
    """Of a tensor that is changed in place, a part of it too, before it is read."""

    def weight(self, src, dst, kind, nodes):
        weight = torch.ones(nodes)
        weight[dst] = 0.5
        made = weight[src] + kind
        made[src == dst] = 2.0
        made[kind == 1] *= 3
        return made[:, None]


class Whole(Summed):
    """By the degree of all nodes in the mean, and of each one."""

    def weight(self, src, dst, kind, nodes):
        degree = torch.bincount(dst, minlength=nodes).float()
        return (degree.log1p() / degree.log1p().mean())[dst, None]


def drawn(nodes, edges, seed):
    made = kinds(nodes, edges, seed)
    return [made["x"], made["edges"], made["types"]]


@pytest.mark.parametrize("made", [Masked, Counted, Ranked, Written, Whole])
def test_a_replacement_has_the_results_and_gradients_on_another_graph(made) -> None:
    torch.manual_seed(0)
    module = made()
    found = explorer.trace(module, *drawn(7, 13, 0))
    redraw(module, 3)
    for nodes, edges in ((23, 61), (12, 12), (40, 90)):
        hold(module, found.module(), drawn(nodes, edges, nodes))


def test_the_text_has_them_as_an_input() -> None:
    text = explorer.trace(Masked(), *drawn(7, 13, 0)).text
    assert "input number[edge]" in text
    assert 'sum(e.src["h"] * number[e] for e in n.incoming_edges())' in text


def test_what_the_language_has_words_for_is_said() -> None:
    class Degrees(Summed):
        def weight(self, src, dst, kind, nodes):
            return torch.zeros(nodes).index_add_(0, dst, torch.ones(len(dst)))[src, None]

    text = explorer.trace(Degrees(), *drawn(7, 13, 0)).text
    assert "in_degree" in text
    assert "input" not in text


def test_a_tensor_that_changes_after_it_is_read_is_refused() -> None:
    class Later(torch.nn.Module):
        def forward(self, x, edge_index):
            src, dst = edge_index
            weight = src.bincount(minlength=len(x)).float()[src, None]
            rows = torch.zeros_like(x).index_add_(0, dst, x[src] + weight)
            weight += 1
            return rows + torch.zeros_like(x).index_add_(0, dst, x[src] + weight)

    with pytest.raises(ValueError, match=r"changes a tensor in place that was read before.*\n.*weight \+= 1"):
        explorer.trace(Later(), *drawn(7, 13, 0)[:2])


def test_a_score_has_numbers_of_all_ids() -> None:
    class Scaled(Embedded):
        def forward(self, h, r, t):
            most = torch.tensor([2]).squeeze().maximum(h.max())
            return (self.entities(h) * self.relations(r) * self.entities(t)).sum(-1) * most

    batch = torch.tensor([[0, 1, 2], [3, 0, 8], [5, 3, 1], [7, 2, 4]])
    module = Scaled()
    found = explorer.trace(module, *batch.T)
    assert "input most" in found.text
    hold(module, found.module(), [*batch.T])
    hold(module, found.module(), [*batch.flip(0)[:2].T])
