"""Modules of papers become texts, and replacements with their results and gradients on other batches and graphs."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from tests.runtime.trace import paper_modules as papers  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.paper_modules import ENTITIES, RELATIONS, TIMES  # noqa: E402
from tests.runtime.trace.sparse_modules import matrix  # noqa: E402

SEVERAL, HOPS, LENGTH = 3, 2, 5


def ids(*most):
    """A column of ids for each number, which they are below."""

    def drawn(count, seed):
        generator = torch.Generator().manual_seed(seed)
        return [torch.randint(0, each, (count,), generator=generator) for each in most]

    return drawn


def columns(*most):
    return lambda count, seed: [torch.stack(ids(*most)(count, seed), 1)]


def sequences(count, seed):
    """Ids of which the first is no padding."""
    (x,) = columns(*[ENTITIES] * LENGTH)(count, seed)
    x[:, 0] = x[:, 0].clamp(min=1)
    return [x]


def ripples(count, seed):
    """An item, and the heads, relations and tails of each hop."""
    hops = [
        [columns(*[most] * SEVERAL)(count, seed + 10 * at + hop)[0] for hop in range(HOPS)]
        for at, most in enumerate((ENTITIES, RELATIONS, ENTITIES), 1)
    ]
    return [*ids(ENTITIES)(count, seed), *hops]


SCORES = {
    papers.BERT4Rec: sequences,
    papers.HAKE: columns(ENTITIES, RELATIONS, ENTITIES),
    papers.InteractE: ids(ENTITIES, RELATIONS, ENTITIES),
    papers.KGCN: ids(7, ENTITIES),
    papers.RippleNet: ripples,
    papers.TNTComplEx: columns(ENTITIES, RELATIONS, ENTITIES, TIMES),
}


def graph(nodes, edges, seed):
    generator = torch.Generator().manual_seed(seed)

    def whole(most, *shape):
        return torch.randint(0, most, shape, generator=generator)

    def numbers(*shape):
        return torch.randn(shape, generator=generator)

    graphs = max(nodes // 3, 2)
    return {
        "x": numbers(nodes, 4),
        "edges": whole(nodes, 2, edges),
        "features": numbers(edges, 4),
        "times": numbers(edges),
        "types": whole(3, edges),
        "weights": numbers(edges).abs(),
        "atoms": whole(10, nodes),
        "position": numbers(nodes, 3),
        "batch": torch.arange(nodes) * graphs // nodes,
        "graphs": graphs,
        "members": whole(nodes, edges),
        "hyperedges": torch.arange(edges) % (nodes // 2 + 1),
        "number of hyperedges": min(nodes // 2 + 1, edges),
        "matrix": matrix(nodes, nodes, edges, seed),
        "other": matrix(nodes, nodes, edges + 5, seed + 1),
        "to eleven": matrix(nodes, 11, edges, seed),
        "users": numbers(nodes, 3),
        "items": numbers(nodes + 5, 5),
        "bought": matrix(nodes, nodes + 5, edges, seed),
    }


LAYERS = {
    papers.CompGCN: ("x", "edges", "types"),
    papers.HAN: ("x", "matrix", "other"),
    papers.KBGAT: ("x", "edges", "types"),
    papers.LINKX: ("x", "to eleven"),
    papers.NormalisedHere: ("x", "edges"),
    papers.REGCN: ("x", "edges", "types", "weights"),
    papers.RelationMatrices: ("x", ("matrix", "other")),
    papers.SchNet: ("atoms", "position", "edges", "batch", "graphs"),
    papers.TGAT: ("x", "edges", "times", "features"),
    papers.UniGAT: ("x", "members", "hyperedges", "number of hyperedges"),
    papers.UsersAndItems: ("users", "items", "bought"),
}


def held(made, arguments, first, others):
    torch.manual_seed(0)
    module = made().eval()
    found = explorer.trace(module, *arguments(*first))
    redraw(module, 3)
    for each in others:
        hold(module, found.module(), arguments(*each))


@pytest.mark.parametrize("made", SCORES)
def test_a_score_has_the_results_and_gradients_on_other_batches(made) -> None:
    held(made, SCORES[made], (7, 0), ((11, 5), (4, 6), (1, 7)))


@pytest.mark.parametrize("made", LAYERS)
def test_a_layer_has_the_results_and_gradients_on_other_graphs(made) -> None:
    def arguments(nodes, edges, seed):
        tensors = graph(nodes, edges, seed)
        names = LAYERS[made]
        return [[tensors[one] for one in each] if isinstance(each, tuple) else tensors[each] for each in names]

    held(made, arguments, (7, 13, 0), ((23, 61, 1), (12, 15, 2), (9, 5, 3)))


@pytest.mark.parametrize("edges", [20, 300])
def test_a_graph_that_is_an_attribute_is_one_of_every_call(edges) -> None:
    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.nn.Embedding(50, 4)
            self.edges = torch.randint(0, 50, (2, edges), generator=torch.Generator().manual_seed(0))

        def forward(self):
            x = self.x.weight
            return torch.zeros_like(x).index_add(0, self.edges[1], x[self.edges[0]])

    held(Fixed, lambda: (), (), ((),))


def test_an_attribute_may_pick_numbers_of_a_row() -> None:
    class Turned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.order = torch.nn.Embedding(9, 4), torch.tensor([3, 0, 2])

        def forward(self, h, t):
            return (self.x(h)[:, self.order] * self.x(t)[:, self.order]).sum(-1)

    held(Turned, ids(9, 9), (7, 0), ((11, 1), (3, 2)))
