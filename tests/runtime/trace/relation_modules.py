"""Models over several kinds of edges, as people write them: loops over relations, and an array of edges for each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Relations(nn.Module):
    """A Linear for each relation, with its own bias, in two layers: Schlichtkrull et al. 2018, without the mean."""

    def __init__(self, relations=3):
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(4, 5) for _ in range(relations)])
        self.second = nn.ModuleList([nn.Linear(5, 2, bias=False) for _ in range(relations)])
        self.loop = nn.Linear(4, 5)

    def forward(self, x, edge_index, edge_type):
        hidden = self.loop(x)
        for relation, linear in enumerate(self.first):
            src, dst = edge_index[:, edge_type == relation]
            hidden = hidden + torch.zeros(x.size(0), 5).index_add_(0, dst, linear(x)[src])
        hidden = F.relu(hidden)
        out = torch.zeros(x.size(0), 2)
        for relation, linear in enumerate(self.second):
            src, dst = edge_index[:, edge_type == relation]
            out = out + linear(torch.zeros(x.size(0), 5).index_add_(0, dst, hidden[src]))
        return out


class Gated(nn.Module):
    """A gate of both ends and a matrix for each relation, of a stack that is summed, from the last type on."""

    def __init__(self, relations=4):
        super().__init__()
        self.matrices = nn.Parameter(torch.randn(relations, 4, 3))
        self.gates = nn.Parameter(torch.randn(relations, 4))

    def forward(self, x, edge_index, edge_type):
        found = []
        for relation in reversed(range(len(self.matrices))):
            kept = (edge_type == relation).nonzero().squeeze(1)
            src, dst = edge_index[0, kept], edge_index[1, kept]
            gate = torch.sigmoid((x[src] * self.gates[relation] * x[dst]).sum(-1, keepdim=True))
            message = gate * (x[src] @ self.matrices[relation])
            found.append(torch.zeros(x.size(0), 3).index_add_(0, dst, message))
        return torch.stack(found).sum(0)


class Arrays(nn.Module):
    """An array of edges for each relation, as of a graph of several kinds of edges."""

    def __init__(self):
        super().__init__()
        self.follows, self.likes = nn.Linear(4, 3, bias=False), nn.Linear(4, 3, bias=False)

    def forward(self, x, follows, likes):
        def mean(h, edges):
            total = torch.zeros_like(h).scatter_add_(0, edges[1, :, None].expand(-1, 3), h[edges[0]])
            count = torch.zeros(len(h)).scatter_add_(0, edges[1], torch.ones(edges.shape[1]))
            return total / count.clamp(min=1)[:, None]

        return torch.tanh(mean(self.follows(x), follows) + mean(self.likes(x), likes))


class Scaled(nn.Module):
    """The mean of what relations say, each to a row for the number of its edges; one matrix is two relations'."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4, 3))

    def forward(self, x, edge_index, edge_type):
        out = torch.zeros(x.size(0), 3)
        for relation, matrix in enumerate((self.one, self.other, self.one)):
            src, dst = edge_index[:, edge_type == relation]
            out = out + torch.zeros(x.size(0), 3).index_add_(0, dst, x[src] @ matrix) / 3
        return out


class Kinds(nn.Module):
    """Hu et al. 2020, as its authors loop: a Linear for each kind of node, and matrices for each kind of edge, whose
    rows are put where their kind is; and attention over all of a node's edges."""

    def __init__(self, kinds=3, relations=4, heads=2, width=3):
        super().__init__()
        self.shape = heads, width
        self.keys, self.queries, self.values, self.out = (
            nn.ModuleList([nn.Linear(inner, heads * width) for _ in range(kinds)]) for inner in (4, 4, 4, heads * width)
        )
        self.attention = nn.Parameter(torch.randn(relations, heads, width, width))
        self.message = nn.Parameter(torch.randn(relations, heads, width, width))

    def by_kind(self, linears, x, kind):
        out = torch.zeros(x.size(0), linears[0].out_features)
        for number, linear in enumerate(linears):
            here = kind == number
            out[here] = linear(x[here])
        return out

    def by_relation(self, matrices, rows, edge_type):
        out = rows.new_empty(rows.shape)
        for relation in range(len(matrices)):
            idx = (edge_type == relation).nonzero().view(-1)
            out.index_copy_(0, idx, torch.einsum("ehd,hdf->ehf", rows[idx], matrices[relation]))
        return out

    def forward(self, x, edge_index, edge_type, node_type):
        src, dst = edge_index
        k, q, v = (
            self.by_kind(part, x, node_type).view(-1, *self.shape) for part in (self.keys, self.queries, self.values)
        )
        score = (self.by_relation(self.attention, k[src], edge_type) * q[dst]).sum(-1) / self.shape[1] ** 0.5
        weight = torch.exp(score.clamp(max=20))
        total = torch.zeros(x.size(0), self.shape[0]).index_add_(0, dst, weight)
        share = weight / (total[dst] + 1e-9)
        message = share.unsqueeze(-1) * self.by_relation(self.message, v[src], edge_type)
        found = torch.zeros(x.size(0), *self.shape).index_add_(0, dst, message).flatten(1)
        return self.by_kind(self.out, F.gelu(found), node_type)


RELATIONS = {
    "linears": (Relations, "x edges types"),
    "many": (lambda: Relations(9), "x edges many"),
    "gated": (Gated, "x edges four"),
    "arrays": (Arrays, "x edges more"),
    "scaled": (Scaled, "x edges types"),
    "kinds": (Kinds, "x edges four sorts"),
}
"""By name: how one is made, and the tensors of `kinds` that it takes."""


def kinds(nodes, edges, seed):
    """A random graph's tensors, with edges of several kinds."""
    generator = torch.Generator().manual_seed(seed)

    def ids(most, *shape):
        return torch.randint(0, most, shape, generator=generator)

    return {
        "x": torch.randn(nodes, 4, generator=generator),
        "edges": ids(nodes - 1, 2, edges),
        "types": ids(3, edges),
        "four": ids(4, edges),
        "many": ids(9, edges).clamp(max=8).sort().values.index_fill(0, torch.tensor([0]), 8),
        "more": ids(nodes, 2, edges + 5),
        "sorts": ids(3, nodes),
    }
