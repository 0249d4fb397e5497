"""Modules that return several tensors, in whatever holds them: texts that return as many."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.score_modules import ENTITIES, RELATIONS, Embedded  # noqa: E402


def graph(nodes, edges, seed):
    """Rows of nodes, and two sets of edges."""
    generator = torch.Generator().manual_seed(seed)
    sets = [torch.randint(0, nodes, (2, count), generator=generator) for count in (edges, edges + 6)]
    return [torch.randn(nodes, 4, generator=generator), *sets]


class Sums(torch.nn.Module):
    """Gated sums over edges, of several weights."""

    def __init__(self):
        super().__init__()
        self.linears = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])

    def gates(self, x, edges):
        return torch.sigmoid(self.linears[0](x)[edges[0]] - x[edges[1]])

    def summed(self, x, edges, message):
        return torch.zeros_like(x).index_add(0, edges[1], message)


class Gated(Sums):
    """Bresson and Laurent 2017: the next layer takes the gates of the edges too."""

    def forward(self, x, edges, others):
        gate = torch.sigmoid(self.linears[0](x)[edges[0]] - x[edges[1]])
        out = torch.zeros_like(x).index_add(0, edges[1], gate * self.linears[1](x)[edges[0]])
        return out, gate


class Held(Sums):
    """In a dictionary, beside what is no tensor; the mean of all nodes, and rows that came in."""

    def forward(self, x, edges, others):
        h = self.summed(x, edges, x[edges[0]])
        return {"h": h, "rest": (h.mean(0), [x, None, "h"]), "again": h}


class Turned(Sums):
    """Rows in the last dimension, and in the middle of others."""

    def forward(self, x, edges, others):
        h = self.summed(x, edges, self.gates(x, edges))
        return h.T, h.view(-1, 2, 2).transpose(0, 1), h.sum(-1, keepdim=True)


class Steps(Sums):
    """Every step of a loop over sets of edges, whose last one is one sum over typed edges."""

    def forward(self, x, edges, others):
        one = self.summed(x, edges, self.linears[0](x)[edges[0]])
        two = one + self.summed(x, others, self.linears[1](x)[others[0]])
        return two, one


class Typed(Sums):
    """One sum over typed edges, twice, and what is made of it."""

    def forward(self, x, edges, others):
        h = x
        found = []
        for _ in range(2):
            one = self.summed(h, edges, self.linears[0](h)[edges[0]])
            h = torch.tanh(one + self.summed(h, others, self.linears[1](h)[others[0]]))
            found.append(h)
        return tuple(found)


class Apart(Sums):
    """Sets of edges whose sums are no one sum, with a row for each edge of either."""

    def forward(self, x, edges, others):
        one, two = self.gates(x, edges), torch.exp(-self.gates(x, others))
        h = self.summed(x, edges, one) * self.summed(x, others, two)
        return two, h, one.sum(-1)


class Degrees(Sums):
    """What ids alone decide, alone and with a parameter."""

    def forward(self, x, edges, others):
        degree = torch.zeros(len(x)).index_add(0, edges[1], torch.ones(edges.shape[1]))
        return self.summed(x, edges, x[edges[0]]), degree[:, None] * self.linears[2].bias


LAYERS = [Gated, Held, Turned, Steps, Typed, Apart, Degrees]


@pytest.mark.parametrize("made", LAYERS, ids=lambda made: made.__name__)
def test_a_replacement_has_all_results_and_gradients_on_another_graph(made) -> None:
    torch.manual_seed(0)
    module = made()
    replacement = explorer.trace(module, *graph(7, 13, 0)).module()
    redraw(module, 3)
    hold(module, replacement, graph(31, 83, 1))
    hold(module, replacement, graph(12, 12, 2))


def test_they_are_in_what_held_them() -> None:
    module, call = Held(), graph(7, 13, 0)
    want, got = module(*call), explorer.trace(module, *call).module()(*call)
    assert list(got) == list(want)
    mean, (x, *rest) = got["rest"]
    assert rest == [None, "h"]
    torch.testing.assert_close([mean, x], [want["rest"][0], call[0]])


def test_the_text_returns_them_in_their_order() -> None:
    text = explorer.trace(Gated(), *graph(7, 13, 0)).text
    assert text.splitlines()[-1] == '    return n["out"], e["gate"]'


def test_what_is_the_same_for_every_graph_is_refused() -> None:
    class Constant(Sums):
        def forward(self, x, edges, others):
            return self.summed(x, edges, x[edges[0]]), self.linears[2].bias

    with pytest.raises(ValueError, match="same for every graph"):
        explorer.trace(Constant(), *graph(7, 13, 0))


class Regularised(Embedded):
    """A score, and what a regularizer takes of its rows."""

    def forward(self, h, r, t):
        head, tail = self.entities(h), self.entities(t)
        score = (head * self.relations(r) * tail).sum(-1)
        return score, (head**2).sum(-1) + (tail**2).sum(-1), score.sigmoid(), score


def triples(batch, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, count, (batch,), generator=generator) for count in (ENTITIES, RELATIONS, ENTITIES)]


def test_a_score_and_what_else_there_is_of_a_triple() -> None:
    module = Regularised()
    traced = explorer.trace(module, *triples(5, 0))
    assert traced.text.splitlines()[-2:] == [
        "    score_ = sum(entities[h] * relations[r] * entities[t])",
        "    return score_, sum(entities[h] ** 2) + sum(entities[t] ** 2), sigmoid(score_), score_",
    ]
    redraw(module, 1)
    hold(module, traced.module(), triples(41, 1))


def test_each_line_is_of_those_that_ask_for_it() -> None:
    lines = explorer.trace(Regularised(), *triples(5, 0)).lines
    sources = [{where.source for where in each} for each in lines]
    assert "score = (head * self.relations(r) * tail).sum(-1)" in sources[-2] - sources[-1]
    assert any("score.sigmoid()" in source for source in sources[-1])


@pytest.mark.parametrize("at", range(2))
def test_one_alone_may_have_a_gradient(at) -> None:
    module, call = Gated(), graph(7, 13, 0)
    replacement = explorer.trace(module, *call).module()
    found = []
    for each in (module, replacement):
        module.zero_grad()
        each(*call)[at].square().sum().backward()
        found.append([parameter.grad for parameter in module.parameters() if parameter.grad is not None])
    eager, ours = ([grad for grad in grads if grad.any()] for grads in found)
    assert eager
    torch.testing.assert_close(ours, eager)
