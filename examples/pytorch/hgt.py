"""HGT: attention with matrices for each kind of node and of edge, in loops over kinds. Hu et al., WWW 2020."""

import torch
import torch.nn.functional as F
from torch import nn


class HGT(nn.Module):
    def __init__(self, dim=64, kinds=3, relations=4, heads=4):
        super().__init__()
        self.shape = heads, dim // heads
        self.keys, self.queries, self.values, self.out = (
            nn.ModuleList([nn.Linear(dim, dim) for _ in range(kinds)]) for _ in range(4)
        )
        self.attention = nn.Parameter(torch.randn(relations, heads, dim // heads, dim // heads))
        self.message = nn.Parameter(torch.randn(relations, heads, dim // heads, dim // heads))
        self.prior = nn.Parameter(torch.ones(relations, heads))

    def by_kind(self, linears, x, kind):
        out = torch.zeros_like(x)
        for number, linear in enumerate(linears):
            here = kind == number
            out[here] = linear(x[here])
        return out

    def forward(self, x, edge_index, edge_type, node_type):
        src, dst = edge_index
        k = self.by_kind(self.keys, x, node_type).view(-1, *self.shape)
        q = self.by_kind(self.queries, x, node_type).view(-1, *self.shape)
        v = self.by_kind(self.values, x, node_type).view(-1, *self.shape)

        key = torch.einsum("ehd,ehdf->ehf", k[src], self.attention[edge_type])
        score = (key * q[dst]).sum(-1) * self.prior[edge_type] / self.shape[1] ** 0.5
        weight = torch.exp(score.clamp(max=20))
        total = torch.zeros(x.size(0), self.shape[0]).index_add(0, dst, weight)
        share = weight / (total[dst] + 1e-9)

        message = torch.einsum("ehd,ehdf->ehf", v[src], self.message[edge_type])
        found = torch.zeros_like(q).index_add(0, dst, share.unsqueeze(-1) * message)
        return x + self.by_kind(self.out, F.gelu(found.flatten(1)), node_type)


def example():
    x, edge_index = torch.randn(40, 64), torch.randint(40, (2, 150))
    return HGT(), x, edge_index, torch.randint(4, (150,)), torch.randint(3, (40,))
