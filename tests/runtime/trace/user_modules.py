"""Modules as people write them for themselves: cells, experts and tokens of triples, and layers of plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.runtime.trace.score_modules import Embedded

D = 6


def summed(x, dst, message):
    return torch.zeros(len(x), message.shape[-1]).index_add(0, dst, message)


class Cell(Embedded):
    """A GRU's step from the head by the relation, to the direction of the tail."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(D, D)

    def forward(self, h, r, t):
        return torch.einsum(
            "bd,bd->b", self.cell(self.relations(r), self.entities(h)), F.normalize(self.entities(t), dim=-1)
        )


class Path(Embedded):
    """An LSTM along the head and the relation, from a state of zeros."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(D, D)

    def forward(self, h, r, t):
        state = self.cell(self.relations(r), self.cell(self.entities(h)))
        return (state[0] * self.entities(t)).sum(-1)


class Poincare(Embedded):
    """MuRP: Balazevic et al. 2019, in a ball of curvature -1."""

    def __init__(self):
        super().__init__()
        self.diagonal = nn.Parameter(torch.rand(self.relations.num_embeddings, D))

    def added(self, x, y):
        xy, xx, yy = ((a * b).sum(-1, keepdim=True) for a, b in ((x, y), (x, x), (y, y)))
        return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy).clamp_min(1e-5)

    def forward(self, h, r, t):
        head, relation, tail = (0.1 * each for each in self.embed(h, r, t))
        length = head.norm(dim=-1, keepdim=True).clamp_min(1e-5)
        head = torch.atanh(length.clamp(max=0.9)) * head / length * self.diagonal[r]
        length = head.norm(dim=-1, keepdim=True).clamp_min(1e-5)
        head = torch.tanh(length) * head / length
        return -((2 * torch.atanh(self.added(-head, self.added(tail, relation)).norm(dim=-1).clamp(max=0.95))) ** 2)


class Tokens(Embedded):
    """PyTorch's attention among the three tokens of a triple."""

    def __init__(self):
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(D, 2, batch_first=True), nn.Linear(3 * D, 1)

    def forward(self, h, r, t):
        x = torch.stack(self.embed(h, r, t), 1)
        y, _ = self.attention(x, x, x, need_weights=False)
        return self.out(y.flatten(1)).squeeze(-1)


class Experts(Embedded):
    """A matrix that a relation mixes of three."""

    def __init__(self):
        super().__init__()
        self.gate, self.matrices = nn.Linear(D, 3), nn.Parameter(torch.randn(3, D, D))

    def forward(self, h, r, t):
        mixed = torch.einsum("bk,kij->bij", F.softmax(self.gate(self.relations(r)), -1), self.matrices)
        return torch.einsum("bi,bij,bj->b", self.entities(h), mixed, self.entities(t))


class Moebius(nn.Module):
    """5*E: Nayyeri et al. 2021, a fraction of complex numbers."""

    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(9, 8), nn.Embedding(4, 32)

    def forward(self, h, r, t):
        head, tail = (torch.view_as_complex(self.entities(each).view(-1, 4, 2)) for each in (h, t))
        a, b, c, d = torch.view_as_complex(self.relations(r).view(-1, 4, 4, 2)).unbind(1)
        return ((a * head + b) / (c * head + d + 10) * tail.conj()).real.sum(-1)


class ThereAndBack(nn.Module):
    """CompGCN with products: Vashishth et al. 2020; an edge's way back has a type of its own."""

    def __init__(self):
        super().__init__()
        self.there, self.back, self.loop = (nn.Linear(4, 4, bias=False) for _ in range(3))
        self.types = nn.Parameter(torch.randn(6, 4))

    def side(self, x, src, dst, kind, linear):
        degree = torch.zeros(len(x)).scatter_add(0, dst, torch.ones(dst.numel())).clamp(min=1)
        message = linear(x[src] * self.types[kind]) / degree[dst].unsqueeze(-1)
        return torch.zeros_like(x).scatter_add(0, dst.unsqueeze(-1).expand_as(message), message)

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        there, back = self.side(x, src, dst, edge_type, self.there), self.side(x, dst, src, edge_type + 3, self.back)
        return torch.tanh((there + back + self.loop(x)) / 3)


class Equivariant(nn.Module):
    """EGNN: Satorras et al. 2021, rows and positions side by side."""

    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(9, 5), nn.SiLU(), nn.Linear(5, 5))
        self.move, self.update = nn.Linear(5, 1, bias=False), nn.Sequential(nn.Linear(9, 4), nn.SiLU())

    def forward(self, x, position, edge_index):
        i, j = edge_index
        apart = position[i] - position[j]
        message = self.message(torch.cat([x[i], x[j], apart.pow(2).sum(-1, keepdim=True)], -1))
        rows = x + self.update(torch.cat([x, summed(x, i, message)], -1))
        return torch.cat([rows, position + summed(x, i, apart * self.move(message))], -1)


class Steps(nn.Module):
    """A GRU's steps of messages."""

    def __init__(self):
        super().__init__()
        self.cell, self.message = nn.GRUCell(4, 4), nn.Linear(4, 4)

    def forward(self, x, edge_index):
        state = x
        for _ in range(2):
            message = torch.zeros_like(state)
            message.index_add_(0, edge_index[1], self.message(state)[edge_index[0]])
            state = self.cell(message, state)
        return state


class Everywhere(nn.Module):
    """Linear attention among all nodes beside messages, and the deviation of all: Katharopoulos et al. 2020."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(4, 6) for _ in range(3))

    def forward(self, x, edge_index):
        q, k, v = (each(x).view(-1, 2, 3) for each in (self.queries, self.keys, self.values))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        products = torch.einsum("nhd,nhe->hde", k, v)
        shares = torch.einsum("nhd,hde->nhe", q, products) / torch.einsum("nhd,hd->nh", q, k.sum(0))[..., None]
        rows = shares.flatten(1) + summed(x, edge_index[1], v.flatten(1)[edge_index[0]])
        return rows / (1 + rows.std(0, correction=0))


class Degrees(nn.Module):
    """Sines of a degree and a row of a table for it, and edges without loops by a product."""

    def __init__(self):
        super().__init__()
        self.linear, self.table = nn.Linear(8, 4), nn.Embedding(6, 2)

    def forward(self, x, edge_index):
        src, dst = edge_index
        degree = torch.bincount(dst, minlength=len(x)).clamp(max=5)
        places = torch.stack([torch.sin(degree.float()), torch.cos(degree.float())], -1)
        rows = self.linear(torch.cat([x, places, self.table(degree)], -1))
        return summed(x, dst, rows[src] * (src != dst)[:, None])


class Often(nn.Module):
    """Messages along the edges to nodes with more than one."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, edge_index):
        kept = torch.bincount(edge_index[1], minlength=len(x))[edge_index[0]] > 1
        src, dst = edge_index[:, kept]
        return summed(x, dst, self.linear(x)[src])


class Above(nn.Module):
    """A softmax whose maximum begins at a very small number, and a layer norm."""

    def __init__(self):
        super().__init__()
        self.table, self.queries, self.keys = nn.Embedding(3, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        score = (self.queries(x)[dst] * (self.keys(x)[src] + self.table(edge_type))).sum(-1) / 2
        score = score - torch.full((len(x),), -1e9).scatter_reduce(0, dst, score, "amax")[dst]
        share = score.exp() / (torch.zeros(len(x)).scatter_add(0, dst, score.exp())[dst] + 1e-12)
        return F.layer_norm(summed(x, dst, share[:, None] * x[src]) + x, (4,))


class Included(nn.Module):
    """A mean and a maximum that include a node's own row, by index_reduce, of edges in the order of their ends."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, edge_index):
        src, dst = edge_index[:, edge_index[1].argsort(stable=True)]
        message = F.gelu(self.linear(x[src] - x[dst]), approximate="tanh")
        return x.index_reduce(0, dst, message, "mean") * x.index_reduce(0, dst, message, "amax")


class Accumulated(nn.Module):
    """RGCN's bases, and a sum by index_put: Schlichtkrull et al. 2018."""

    def __init__(self):
        super().__init__()
        self.bases, self.shares = nn.Parameter(torch.randn(2, 4, 3)), nn.Parameter(torch.randn(3, 2))

    def forward(self, x, edge_index, edge_type):
        weight = torch.einsum("rb,bio->rio", self.shares, self.bases)
        message = torch.einsum("ei,eio->eo", x[edge_index[0]], weight[edge_type])
        return torch.zeros(len(x), 3).index_put((edge_index[1],), message, accumulate=True)


class Chosen(nn.Module):
    """The largest of what relations say, and a Linear for either kind of node, chosen row by row."""

    def __init__(self):
        super().__init__()
        self.linear, self.one, self.other = (nn.Linear(4, 3) for _ in range(3))

    def forward(self, x, edge_index, edge_type, node_type):
        src, dst = edge_index
        found = []
        for relation in range(3):
            here = edge_type == relation
            count = torch.bincount(dst[here], minlength=len(x)).clamp(min=1)
            found.append(self.linear(summed(x, dst[here], x[src[here]]) / count[:, None]))
        own = torch.where((node_type == 0)[:, None], self.one(x), self.other(x))
        return torch.stack(found, 1).max(1).values + own


class Named(nn.Module):
    """Nodes that ids name, as of a sampled graph, and a parameter for each kind of edges, by its name."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 4)
        self.weights = nn.ParameterDict({kind: nn.Parameter(torch.randn(4, 4)) for kind in ("follows", "likes")})

    def forward(self, ids, edges):
        x = self.table(ids)
        return F.elu(
            sum(summed(x, edges[kind][1], x[edges[kind][0]] @ weight) for kind, weight in self.weights.items())
        )


class Within(nn.Module):
    """Attention of heads within each of a list of arrays of edges."""

    def __init__(self):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(4, 6) for _ in range(2)])
        self.attention = nn.ParameterList([nn.Parameter(torch.randn(2, 6)) for _ in range(2)])

    def forward(self, x, edges):
        found = []
        for (src, dst), linear, attention in zip(edges, self.linears, self.attention, strict=True):
            h = linear(x).view(-1, 2, 3)
            weight = F.leaky_relu((torch.cat([h[src], h[dst]], -1) * attention).sum(-1), 0.2).exp()
            total = torch.zeros(len(x), 2).index_add(0, dst, weight)
            rows = torch.zeros(len(x), 2, 3).index_add(0, dst, weight[..., None] * h[src])
            found.append(rows / (total[..., None] + 1e-9))
        return torch.stack(found).mean(0).flatten(1)


class Pairwise(Embedded):
    """A matrix for each of some features of two rows, and how far the head is from learnt points."""

    def __init__(self):
        super().__init__()
        self.bilinear, self.points = nn.Bilinear(D, D, 3), nn.Parameter(torch.randn(4, D))

    def forward(self, h, r, t):
        pairs = self.bilinear(self.entities(h), self.entities(t))
        far = torch.cdist(self.entities(h) + self.relations(r), self.points)
        return torch.cat([pairs, far, torch.cdist(self.entities(t), self.points, p=1)], -1)


class FromInfinity(nn.Module):
    """A softmax over the edges into a node, whose maximum begins with infinity below."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x, edge_index):
        src, dst = edge_index
        score = self.linear(x)[src] + self.linear(x)[dst]
        to = dst[:, None].expand_as(score)
        largest = torch.full((len(x), 2), float("-inf")).scatter_reduce_(0, to, score, "amax")
        share = torch.exp(score - largest[dst])
        share = share / torch.zeros(len(x), 2).scatter_add_(0, to, share)[dst]
        return torch.zeros(len(x), 2, 4).index_add_(0, dst, share[..., None] * x[src][:, None]).flatten(1)


class Detached(FromInfinity):
    """The same with a maximum that is detached, by index_reduce."""

    def forward(self, x, edge_index):
        src, dst = edge_index
        score = self.linear(x)[src] + self.linear(x)[dst]
        largest = torch.zeros(len(x), 2).index_reduce_(0, dst, score.detach(), "amax", include_self=False)
        share = torch.exp(score - largest[dst])
        share = share / torch.zeros(len(x), 2).index_add_(0, dst, share)[dst]
        return torch.zeros(len(x), 2, 4).index_add_(0, dst, share[..., None] * x[src][:, None]).flatten(1)


class AlongLayers(nn.Module):
    """Xu et al. 2018: an LSTM in both directions along what the layers say, which weighs them."""

    def __init__(self):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.along, self.weigh = nn.LSTM(4, 3, bidirectional=True, batch_first=True), nn.Linear(6, 1)

    def forward(self, x, edge_index):
        layers = []
        for linear in self.linears:
            x = torch.tanh(linear(x + summed(x, edge_index[1], x[edge_index[0]])))
            layers.append(x)
        rows = torch.stack(layers, 1)
        return (rows * torch.softmax(self.weigh(self.along(rows)[0]), 1)).sum(1)


class Features(nn.Module):
    """Hu et al. 2020, the encoders of the Open Graph Benchmark: a table for each number of a node, and of an edge."""

    def __init__(self):
        super().__init__()
        self.of_nodes, self.of_edges = (nn.ModuleList([nn.Embedding(30, 4) for _ in range(2)]) for _ in range(2))

    def forward(self, numbers, edge_index, edge_numbers):
        x = sum(table(numbers[:, at]) for at, table in enumerate(self.of_nodes))
        edges = sum(table(edge_numbers[:, at]) for at, table in enumerate(self.of_edges))
        return x + summed(x, edge_index[1], F.relu(x[edge_index[0]] + edges))


class Ends(nn.Module):
    """A number for each edge, of both its ends, which are gathered at once, and the other way around."""

    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(4, 4), nn.Linear(8, 1)

    def forward(self, x, edge_index):
        h = torch.tanh(self.linear(x)) + summed(x, edge_index[1], x[edge_index[0]])
        both = h[edge_index].prod(0).sum(-1, keepdim=True)
        return both + self.out(h[edge_index.t()].flatten(1)) + self.out(h[edge_index.T].reshape(-1, 8)).tanh()


class CountedPairs(nn.Module):
    """RGCN's mean over the edges of each type, by one count of all pairs of a node and a type."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x, edge_index, edge_type):
        src, dst = edge_index
        pair = dst * 3 + edge_type
        share = 1 / torch.bincount(pair, minlength=3 * len(x)).float()[pair]
        message = torch.bmm(x[src].unsqueeze(1), self.weights[edge_type]).squeeze(1)
        return summed(x, dst, message * share[:, None])


SCORES = (Cell, Path, Poincare, Tokens, Experts, Moebius, Pairwise)
LAYERS = {
    ThereAndBack: "x edges types",
    Equivariant: "x position edges",
    Steps: "x edges",
    Everywhere: "x edges",
    Degrees: "x edges",
    Often: "x edges",
    Above: "x edges types",
    Included: "x edges",
    Accumulated: "x edges types",
    Chosen: "x edges types sorts",
    FromInfinity: "x edges",
    Detached: "x edges",
    CountedPairs: "x edges types",
    Ends: "x edges",
    Features: lambda made: [
        torch.stack([made["ids"], made["sorts"]], 1),
        made["edges"],
        torch.stack([made["types"], 2 - made["types"]], 1),
    ],
    AlongLayers: "x edges",
    Named: lambda made: [made["ids"], {"follows": made["edges"], "likes": made["more"]}],
    Within: lambda made: [made["x"], [made["edges"], made["more"]]],
}
"""By layer, the tensors of `relation_modules.kinds` that it takes, or what is made of them."""
