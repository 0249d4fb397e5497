"""Models that read a batch of graphs: readouts by ids of graphs, and virtual nodes that all nodes of a graph share."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric import nn as pyg


class ByHand(nn.Module):
    """A sum over each graph's nodes, and the graphs' classes."""

    def __init__(self):
        super().__init__()
        self.convolution, self.out = pyg.SAGEConv(4, 4), nn.Linear(4, 3)

    def forward(self, x, edge_index, batch, graphs):
        h = self.convolution(x, edge_index).relu()
        return self.out(torch.zeros(graphs, 4).index_add(0, batch, h)).log_softmax(-1)


class Pooled(nn.Module):
    """A pool of PyTorch Geometric, given how many graphs there are or not."""

    def __init__(self, pool, convolution=pyg.GCNConv):
        super().__init__()
        self.pool, self.convolution, self.out = pool, convolution(4, 4), nn.Linear(4, 3)

    def forward(self, x, edge_index, batch, graphs=None):
        return self.out(self.pool(self.convolution(x, edge_index).relu(), batch, graphs))


class Layers(nn.Module):
    """Xu et al. 2019, GIN: readouts of all layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([pyg.GINConv(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))) for _ in range(2)])
        self.out = nn.Linear(8, 2)

    def forward(self, x, edge_index, batch, graphs):
        found = []
        for layer in self.layers:
            x = torch.tanh(layer(x, edge_index))
            found.append(pyg.global_mean_pool(x, batch, graphs))
        return self.out(torch.cat(found, dim=-1))


class Virtual(nn.Module):
    """Gilmer et al. 2017: a node beside each graph, whose rows come in."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GINConv(nn.Linear(4, 4)), pyg.SAGEConv(4, 4)
        self.update = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4))

    def forward(self, x, edge_index, batch, virtual):
        h = self.first(x + virtual[batch], edge_index).relu()
        virtual = self.update(virtual + torch.zeros_like(virtual).index_add(0, batch, h))
        return self.second(h + virtual[batch], edge_index), virtual


class VirtualOfOne(nn.Module):
    """The same that begins with one row for all, of as many graphs as ids say."""

    def __init__(self):
        super().__init__()
        self.embedding, self.convolution, self.update = nn.Embedding(1, 4), pyg.GraphConv(4, 4), nn.Linear(4, 4)

    def forward(self, x, edge_index, batch):
        virtual = self.embedding(torch.zeros(int(batch.max()) + 1, dtype=torch.long))
        h = self.convolution(x + virtual[batch], edge_index).relu()
        return h + self.update(pyg.global_add_pool(h, batch) + virtual)[batch]


class Attentive(nn.Module):
    """Li et al. 2016: a softmax over each graph's nodes."""

    def __init__(self):
        super().__init__()
        self.convolution, self.pool = pyg.GraphConv(4, 4), pyg.AttentionalAggregation(nn.Linear(4, 1))

    def forward(self, x, edge_index, batch, graphs):
        return self.pool(self.convolution(x, edge_index), batch, dim_size=graphs)


class Normed(nn.Module):
    """Cai et al. 2021: a norm over each graph's nodes."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = pyg.GraphConv(4, 4), pyg.GraphNorm(4)

    def forward(self, x, edge_index, batch, graphs):
        return self.norm(self.convolution(x, edge_index), batch, graphs)


class Gated(nn.Module):
    """Edges that read their graph, a sum over all graphs, and names that the text has for sets."""

    def __init__(self):
        super().__init__()
        self.group, self.member = nn.Linear(4, 4), nn.Parameter(torch.randn(4))

    def forward(self, x, edge_index, batch, graphs):
        graph = torch.zeros(graphs, 4).index_add(0, batch, self.group(x) * self.member)
        message = torch.sigmoid(graph[batch[edge_index[0]]]) * x[edge_index[0]]
        return torch.zeros_like(x).index_add(0, edge_index[1], message), message, (graph * graph).sum(0)


class OfKinds(nn.Module):
    """Graphs that have a kind each, a sum over all of them, and the source's names for both."""

    def __init__(self):
        super().__init__()
        self.kinds, self.convolution = nn.Embedding(5, 4), pyg.GraphConv(4, 4)

    def forward(self, x, edge_index, batch, kind):
        group_of = self.convolution(x, edge_index).tanh()
        m = torch.zeros(kind.size(0), 4).index_add(0, batch, group_of) * self.kinds(kind)
        group = m.mean(0)
        return group_of + m[batch] + group * group, group


class OfTypes(nn.Module):
    """As many relations as the example has graphs."""

    def __init__(self):
        super().__init__()
        self.convolution, self.out = pyg.RGCNConv(4, 4, 3), nn.Linear(4, 2)

    def forward(self, x, edge_index, batch, graphs, edge_type):
        return self.out(pyg.global_add_pool(self.convolution(x, edge_index, edge_type), batch, graphs))


class TwoSets(nn.Module):
    """A graph with loops added beside the one without."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = pyg.GCNConv(4, 4), pyg.SAGEConv(4, 4), nn.Linear(4, 2)

    def forward(self, x, edge_index, batch, graphs):
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return self.out(pyg.global_max_pool(h, batch, graphs)), pyg.global_mean_pool(h, batch, graphs).mean(0)


class WithoutEdges(nn.Module):
    """A set of rows for each graph."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x, batch, graphs):
        return self.out(pyg.global_mean_pool(x.tanh(), batch, graphs))


MODELS = {
    "by hand": (ByHand, "x edges batch graphs"),
    "sums": (lambda: Pooled(pyg.global_add_pool), "x edges batch"),
    "means": (lambda: Pooled(pyg.global_mean_pool), "x edges batch"),
    "maxima": (lambda: Pooled(pyg.global_max_pool), "x edges batch"),
    "maxima of a number": (lambda: Pooled(pyg.global_max_pool), "x edges batch graphs"),
    "attention and means": (lambda: Pooled(pyg.global_mean_pool, pyg.GATConv), "x edges batch graphs"),
    "layers": (Layers, "x edges batch graphs"),
    "virtual nodes": (Virtual, "x edges batch rows"),
    "virtual nodes of one": (VirtualOfOne, "x edges batch"),
    "attentive": (Attentive, "x edges batch graphs"),
    "normed": (Normed, "x edges batch graphs"),
    "gated": (Gated, "x edges batch graphs"),
    "kinds of graphs": (OfKinds, "x edges batch kinds"),
    "types": (OfTypes, "x edges batch graphs types"),
    "two sets of edges": (TwoSets, "x edges batch graphs"),
    "without edges": (WithoutEdges, "x batch graphs"),
}
"""By name: how one is made, and what of `graphs` it takes."""


def graphs(nodes, count, edges, seed, last=True):
    """A batch of so many graphs; some have no nodes, but the last one has where `last` asks for it."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.randint(0, count, (nodes,), generator=generator).sort().values
    batch[-1] = count - 1 if last else batch[-1]
    return {
        "x": torch.randn(nodes, 4, generator=generator),
        "edges": torch.randint(0, nodes, (2, edges), generator=generator),
        "types": torch.randint(0, 3, (edges,), generator=generator),
        "rows": torch.randn(count, 4, generator=generator),
        "batch": batch,
        "kinds": torch.randint(0, 5, (count,), generator=generator),
        "graphs": count,
    }
