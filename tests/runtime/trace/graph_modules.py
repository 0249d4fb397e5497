"""Models over graphs as people write them: stacks of convolutions, a readout, scores of links, layers of their own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg

NODES = 23
"""Of the module that has an embedding for each node."""


class Stacked(nn.Module):
    """Two convolutions and a softmax, as for nodes' classes."""

    def __init__(self, convolution):
        super().__init__()
        self.first, self.second = convolution(4, 5), convolution(5, 3)

    def forward(self, x, edge_index):
        x = F.relu(self.first(x, edge_index))
        x = F.dropout(x, p=0.5, training=self.training)
        return F.log_softmax(self.second(x, edge_index), dim=1)


class Jumping(nn.Module):
    """Xu et al. 2018: all layers are joined."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([pyg.SAGEConv(4, 4) for _ in range(3)])
        self.out = nn.Linear(16, 2)

    def forward(self, x, edge_index):
        found = [x]
        for layer in self.layers:
            x = torch.tanh(layer(x, edge_index))
            found.append(x)
        return self.out(torch.cat(found, dim=-1))


class Weighing(nn.Module):
    """What attention makes of the nodes, and its weights: of the edges, and of the loops that it adds."""

    def __init__(self):
        super().__init__()
        self.attention = pyg.GATConv(4, 3, heads=2)

    def forward(self, x, edge_index):
        out, (_, weights) = self.attention(x, edge_index, return_attention_weights=True)
        return out, weights


class Links(nn.Module):
    """A number for each edge."""

    def __init__(self):
        super().__init__()
        self.encode = pyg.SAGEConv(4, 3)

    def forward(self, x, edge_index):
        z = self.encode(x, edge_index)
        return (z[edge_index[0]] * z[edge_index[1]]).sum(-1)


class Propagated(nn.Module):
    """He et al. 2020, LightGCN: the mean of an embedding's propagations."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(NODES, 4)
        self.convolution = pyg.LGConv()

    def forward(self, edge_index):
        x = self.embedding.weight
        out = x / 3
        for _ in range(2):
            x = self.convolution(x, edge_index)
            out = out + x / 3
        return out


class Transformer(nn.Module):
    """Hu et al. 2020, HGT's attention, of edges' types."""

    def __init__(self, heads=2, width=3):
        super().__init__()
        self.heads, self.width = heads, width
        self.query, self.key, self.value = (nn.Linear(4, heads * width) for _ in range(3))
        self.relation = nn.Parameter(torch.randn(3, heads, width, width))
        self.prior = nn.Parameter(torch.ones(3, heads))

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        q, k, v = (part(x).view(-1, self.heads, self.width) for part in (self.query, self.key, self.value))
        keys = torch.einsum("ehd,ehdf->ehf", k[src], self.relation[edge_type])
        weight = torch.exp((q[dst] * keys).sum(-1) * self.prior[edge_type] / self.width**0.5)
        total = torch.zeros(x.size(0), self.heads).index_add_(0, dst, weight)
        message = weight.unsqueeze(-1) * v[src] / (total[dst].unsqueeze(-1) + 1e-9)
        return torch.zeros(x.size(0), self.heads, self.width).index_add_(0, dst, message).flatten(1)


class Readout(nn.Module):
    """One row of all nodes."""

    def __init__(self):
        super().__init__()
        self.convolution = pyg.SAGEConv(4, 3)

    def forward(self, x, edge_index):
        return self.convolution(x, edge_index).mean(dim=0, keepdim=True)


class TypedSum(nn.Module):
    """A weight for each type, and a row less the mean of all."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 5))
        self.gate = nn.Parameter(torch.randn(3, 5))

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        message = torch.einsum("ef,efg->eg", x[src], self.weight[edge_type])
        score = torch.sigmoid((message * self.gate[edge_type]).sum(-1, keepdim=True))
        out = torch.zeros(x.shape[0], 5).index_add(0, dst, score * message)
        return out - out.mean(dim=0)


MODELS = {
    "two GCNConv": (lambda: Stacked(pyg.GCNConv), "x edges"),
    "two GATConv": (lambda: Stacked(pyg.GATConv), "x edges"),
    "jumping": (Jumping, "x edges"),
    "attention and its weights": (Weighing, "x edges"),
    "links": (Links, "x edges"),
    "LightGCN": (Propagated, "edges"),
    "HGT": (Transformer, "x edges types"),
    "readout": (Readout, "x edges"),
    "types": (TypedSum, "x edges types"),
}
"""By name: how one is made, and the tensors of `convolutions.graph` that it takes."""
