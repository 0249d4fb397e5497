"""Triples in the columns of one tensor: ids are read from where they lie, by nothing that is run again."""

from __future__ import annotations

from typing import Any

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
from torch import nn  # noqa: E402

ENTITIES, RELATIONS, D = 9, 3, 4


class DistMult(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.E, self.R = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)

    def split(self, batch: Any) -> Any:
        return batch[:, 0], batch[:, 1], batch[:, -1]

    def forward(self, batch: Any) -> Any:
        h, r, t = self.split(batch)
        return (self.E(h) * self.R(r) * self.E(t)).sum(-1)


class Unbound(DistMult):
    def split(self, batch: Any) -> Any:
        return batch.unbind(-1)


class Transposed(DistMult):
    def split(self, batch: Any) -> Any:
        return batch.t()


class Shifted(DistMult):
    def split(self, batch: Any) -> Any:
        return (batch[:, 0] + 1) % ENTITIES, batch[:, 1], batch[:, 2]


class Part(DistMult):
    def split(self, batch: Any) -> Any:
        return batch[:, 0:2][:, 0], batch[:, 1:2][:, 0], batch[:, 2]


class Pairs(nn.Module):
    """Of two ids, where a triple has a third."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)

    def forward(self, user: Any, item: Any) -> Any:
        return (self.users(user) * self.items(item)).sum(-1)


def triples(count: int) -> Any:
    return torch.stack([torch.randint(0, rows, (count,)) for rows in (ENTITIES, RELATIONS, ENTITIES)], 1)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (DistMult, [((1, 0),), ((1, 1),), ((1, -1),)]),
        (Unbound, [((-1, 0),), ((-1, 1),), ((-1, 2),)]),
        (Transposed, None),
        (Shifted, None),
        (Part, None),
    ],
)
def test_ids_are_the_columns_of_a_batch(kind: Any, columns: Any) -> None:
    module = kind()
    traced = explorer.trace(module, triples(7)).module()
    handed = traced._held[1].handed
    assert (handed and [column.picks for column in handed]) == columns
    for batch in (triples(5), triples(12).t().contiguous().t()):
        torch.testing.assert_close(traced(batch), module(batch))


def test_ids_that_nothing_reads_are_made_once_for_a_length() -> None:
    module = Pairs()
    traced = explorer.trace(module, triples(7)[:, 0], triples(7)[:, 1]).module()
    for count in (5, 5, 12, 0):
        user, item, _ = triples(count).unbind(1)
        before = traced._unread
        torch.testing.assert_close(traced(user, item), module(user, item))
        assert (traced._unread is before) == (before is not None and len(before) == count)


class ByDegree(nn.Module):
    """A weight by how many edges lead into a node, which are counted in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, x: Any, edges: Any) -> Any:
        degree = torch.zeros(len(x), dtype=torch.long)
        degree.scatter_add_(0, edges[1], torch.ones_like(edges[1]))
        degree, summed = degree.clamp(max=2), torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        made = torch.zeros_like(x)
        for count, weight in enumerate(self.weights):
            nodes = (degree == count).nonzero().view(-1)
            made = made.index_copy(0, nodes, weight(summed.index_select(0, nodes)))
        return made


def test_what_is_counted_in_place_is_no_constant_of_the_source() -> None:
    module = ByDegree()
    traced = explorer.trace(module, torch.randn(50, D), torch.randint(0, 50, (2, 90))).module()
    for nodes in (30, 71):
        x, edges = torch.randn(nodes, D), torch.randint(0, nodes, (2, 2 * nodes))
        torch.testing.assert_close(traced(x, edges), module(x, edges), rtol=1e-5, atol=1e-5)
