"""Scores in complex numbers, by small convolutions, and of a table for the head and one for the tail."""

from __future__ import annotations

import torch
from torch import nn

from tests.runtime.trace.score_modules import ENTITIES, RELATIONS, D


class ComplexNumbers(nn.Module):
    """Trouillon et al. 2016, in complex numbers, one of them a number that Python brings."""

    def __init__(self):
        super().__init__()
        self.entities = nn.Parameter(torch.randn(ENTITIES, D, 2))
        self.relations = nn.Parameter(torch.randn(RELATIONS, D, 2))

    def forward(self, h, r, t):
        head, tail = (torch.view_as_complex(self.entities[each]) for each in (h, t))
        relation = torch.view_as_complex(self.relations)[r]
        size = torch.as_tensor([D]).squeeze()
        return torch.einsum("bd,bd,bd->b", head, relation, tail.conj()).real / size


class Turned(nn.Module):
    """Sun et al. 2019: the relation's phases turn the head."""

    def __init__(self):
        super().__init__()
        self.real, self.imaginary = nn.Embedding(ENTITIES, D), nn.Embedding(ENTITIES, D)
        self.phase = nn.Embedding(RELATIONS, D)

    def forward(self, h, r, t):
        head, tail = (torch.complex(self.real(each), self.imaginary(each)) for each in (h, t))
        turn = torch.polar(torch.ones_like(self.phase(r)), self.phase(r))
        return -torch.linalg.vector_norm(head * turn - tail, dim=-1)


class Moduli(Turned):
    """The sum of moduli and of an imaginary part."""

    def forward(self, h, r, t):
        head, tail = (torch.complex(self.real(each), self.imaginary(each)) for each in (h, t))
        left = 2.0 * head * self.phase(r) - tail
        return left.abs().sum(-1) + (left * tail).imag.mean(-1)


class ConvE(nn.Module):
    """Dettmers et al. 2018: an image of the head and the relation, and a matrix."""

    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)
        self.convolution, self.norm = nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3)
        self.out = nn.Linear(3 * 3 * 2, D)

    def forward(self, h, r, t):
        image = torch.cat([part(each).view(-1, 1, 2, 3) for part, each in ((self.entities, h), (self.relations, r))], 2)
        found = torch.relu(self.norm(self.convolution(image)))
        return (torch.relu(self.out(found.flatten(1))) * self.entities(t)).sum(-1)


class ConvKB(nn.Module):
    """Nguyen et al. 2018: filters over the three embeddings, side by side, as channels."""

    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)
        self.convolution, self.out = nn.Conv1d(3, 4, 1), nn.Linear(4 * D, 1)

    def forward(self, h, r, t):
        rows = torch.stack([self.entities(h), self.relations(r), self.entities(t)], dim=1)
        return self.out(torch.relu(self.convolution(rows)).flatten(1)).squeeze(-1)


class OwnTables(nn.Module):
    """Hitchcock 1927: a head and a tail have tables of their own."""

    def __init__(self):
        super().__init__()
        self.heads, self.relations, self.tails = (nn.Embedding(n, D) for n in (ENTITIES, RELATIONS, ENTITIES))

    def forward(self, h, r, t):
        return (self.heads(h) * self.relations(r) * self.tails(t)).sum(-1)


MODULES = (ComplexNumbers, Turned, Moduli, ConvE, ConvKB, OwnTables)
