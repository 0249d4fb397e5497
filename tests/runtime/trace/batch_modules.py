"""Modules over batches as recommenders and losses have them: fields with a table each, features beside ids, pairs of
triples."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.runtime.trace.score_modules import Embedded

FIELDS = (5, 7, 4)
"""How many values each field has."""


def drawn(*most):
    """Of a count and a seed, a column of ids for each of these numbers."""

    def made(count, seed):
        generator = torch.Generator().manual_seed(seed)
        return [torch.randint(0, each, (count,), generator=generator) for each in most]

    return made


def fields(count, seed):
    return [torch.stack(drawn(*FIELDS)(count, seed), 1)]


def features(count, seed):
    return [torch.randn(count, 4, generator=torch.Generator().manual_seed(seed)), *drawn(*FIELDS)(count, seed)]


class Margin(Embedded):
    """TransE's loss of a triple and a corrupted one, whose entities and relations are of the same tables."""

    inputs = drawn(9, 4, 9, 9, 4, 9)

    def forward(self, h, r, t, other_h, other_r, other_t):
        near = (self.entities(h) + self.relations(r) - self.entities(t)).norm(p=1, dim=1)
        far = (self.entities(other_h) + self.relations(other_r) - self.entities(other_t)).norm(p=1, dim=1)
        return F.relu(near - far + 1)


class Crossed(nn.Module):
    """Wang et al. 2017, deep and cross: a row that three tables make, returned beside its number."""

    inputs = fields

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(each, 3) for each in FIELDS])
        self.weight, self.out = nn.Parameter(torch.randn(9, 1)), nn.Linear(9, 1)

    def forward(self, x):
        first = torch.cat([table(x[:, at]) for at, table in enumerate(self.tables)], 1)
        crossed = first * (first @ self.weight) + first
        return self.out(crossed), crossed


class Interactions(nn.Module):
    """Naumov et al. 2019, DLRM: features beside ids, and the products of all pairs of rows, which constants pick."""

    inputs = features

    def __init__(self):
        super().__init__()
        self.bottom, self.tables = nn.Linear(4, 3), nn.ModuleList([nn.Embedding(each, 3) for each in FIELDS])
        self.top = nn.Linear(12, 1)

    def forward(self, x, *ids):
        x = F.relu(self.bottom(x))
        rows = torch.stack([x, *(table(each) for table, each in zip(self.tables, ids, strict=True))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        one, other = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([x, products[:, one, other], products[:, 0, [3, 1, 1]]], 1))


BATCHES = (Margin, Crossed, Interactions)
