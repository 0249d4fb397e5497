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


def negatives(count, seed):
    h, r, t, *others = drawn(9, 4, 9, *[9] * 5)(count, seed)
    return [h, r, t, torch.stack(others, 1)]


def sequences(count, seed):
    *items, target = drawn(*[17] * 6)(count, seed)
    return [torch.stack(items, 1), target]


class Margin(Embedded):
    """TransE's loss of a triple and a corrupted one, whose entities and relations are of the same tables."""

    inputs = drawn(9, 4, 9, 9, 4, 9)

    def forward(self, h, r, t, other_h, other_r, other_t):
        near = (self.entities(h) + self.relations(r) - self.entities(t)).norm(p=1, dim=1)
        far = (self.entities(other_h) + self.relations(other_r) - self.entities(other_t)).norm(p=1, dim=1)
        return F.relu(near - far + 1)


class Labelled(Embedded):
    """A cross-entropy of each triple, whose labels come with the batch."""

    @staticmethod
    def inputs(count, seed):
        ids = drawn(9, 4, 9, 2)(count, seed)
        return [*ids[:3], ids[3].float()]

    def forward(self, h, r, t, y):
        scores = (self.entities(h) * self.relations(r) * self.entities(t)).sum(-1)
        return F.binary_cross_entropy_with_logits(scores, y, reduction="none")


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
        return self.top(torch.cat([x, products[:, one, other], products[:, 0, [-1, 1, 1]]], 1))


class Negatives(nn.Module):
    """Sun et al. 2019, RotatE: its negatives, several for each triple, gathered one behind another, and the weights of
    their loss."""

    inputs = negatives

    def __init__(self):
        super().__init__()
        self.entities, self.phases = nn.Parameter(torch.randn(9, 6)), nn.Parameter(torch.randn(4, 3))

    def score(self, head, relation, tail):
        (a, b), (c, d) = head.chunk(2, -1), tail.chunk(2, -1)
        cos, sin = torch.cos(relation), torch.sin(relation)
        return 3 - torch.stack([a * cos - b * sin - c, a * sin + b * cos - d], 0).norm(dim=0).sum(-1)

    def forward(self, h, r, t, n):
        head = torch.index_select(self.entities, 0, h).unsqueeze(1)
        relation = torch.index_select(self.phases, 0, r).unsqueeze(1)
        tail = torch.index_select(self.entities, 0, t).unsqueeze(1)
        far = torch.index_select(self.entities, 0, n.view(-1)).view(n.size(0), n.size(1), -1)
        scores = self.score(head, relation, far)
        loss = (F.softmax(scores, 1) * F.logsigmoid(-scores)).sum(1)
        return -loss - F.logsigmoid(self.score(head, relation, tail)).squeeze(1), scores


class Factorised(nn.Module):
    """Rendle 2010: one table for all fields, each behind those of the ones before."""

    inputs = fields

    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(sum(FIELDS), 3), nn.Embedding(sum(FIELDS), 1)
        self.register_buffer("begins", torch.tensor([0, 5, 12]))

    def forward(self, x):
        x = x + self.begins.unsqueeze(0)
        rows = self.table(x)
        return self.linear(x).sum(1) + 0.5 * (rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1, keepdim=True)


class Sequences(nn.Module):
    """Kang and McAuley 2018, SASRec: heads that attend to the items before, without those that are 0."""

    inputs = sequences

    def __init__(self):
        super().__init__()
        self.items, self.places = nn.Embedding(17, 6), nn.Embedding(5, 6)
        self.attention, self.norm = nn.MultiheadAttention(6, 2, batch_first=True), nn.LayerNorm(6)

    def forward(self, x, target):
        rows = self.items(x) * 6**0.5 + self.places(torch.arange(5))
        rows = rows * (x != 0).unsqueeze(-1)
        later = torch.triu(torch.ones(5, 5), 1).bool()
        rows = rows + self.attention(self.norm(rows), rows, rows, attn_mask=later, need_weights=False)[0]
        return (rows[:, -1] * self.items(target)).sum(-1)


class Recurrent(nn.Module):
    """Hidasi et al. 2016, GRU4Rec: a GRU along the items before; 0 is the padding, whose row learns nothing."""

    inputs = sequences

    def __init__(self):
        super().__init__()
        self.items, self.steps = nn.Embedding(17, 4, padding_idx=0), nn.GRU(4, 4, batch_first=True)

    def forward(self, x, target):
        rows, last = self.steps(self.items(x))
        return ((last[-1] + rows[:, 0]) * self.items(target)).sum(-1)


BATCHES = (Recurrent, Margin, Labelled, Crossed, Interactions, Negatives, Factorised, Sequences)
