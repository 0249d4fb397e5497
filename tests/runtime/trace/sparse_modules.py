"""Modules that multiply with a sparse matrix, as people write them: of an argument, of a buffer, or made in forward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

NODES, USERS, ITEMS = 11, 9, 14


def matrix(rows, columns, nonzeros, seed, layout=torch.sparse_coo):
    """A random one, whose values are positive; some of its rows have no nonzero."""
    generator = torch.Generator().manual_seed(seed)
    ends = [torch.randint(0, max(most - 1, 1), (nonzeros,), generator=generator) for most in (rows, columns)]
    made = torch.sparse_coo_tensor(torch.stack(ends), torch.rand(nonzeros, generator=generator) + 0.1, (rows, columns))
    return made.coalesce() if layout == torch.sparse_coo else made.coalesce().to_sparse_csr()


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.weight = nn.Linear(4, 3), nn.Parameter(torch.randn(4))


class GCN(nn.Module):
    """Kipf and Welling 2017, as in pygcn."""

    def __init__(self, multiply):
        super().__init__()
        self.first, self.second, self.multiply = nn.Linear(4, 5), nn.Linear(5, 3), multiply

    def forward(self, x, adj):
        x = F.relu(self.multiply(adj, self.first(x)))
        return F.log_softmax(self.multiply(adj, self.second(x)), dim=1)


class SGC(Linear):
    """Wu et al. 2019."""

    def forward(self, x, adj):
        for _ in range(3):
            x = torch.spmm(adj, x)
        return self.lin(x)


class APPNP(Linear):
    """Gasteiger et al. 2019."""

    def forward(self, x, adj):
        z = h = self.lin(x)
        for _ in range(3):
            z = 0.9 * torch.sparse.mm(adj, z) + 0.1 * h
        return z


class OverDegrees(Linear):
    def forward(self, x, adj):
        degree = torch.sparse.sum(adj, 1).to_dense().unsqueeze(1)
        return self.lin((adj @ x) / (degree + 1e-6))


class Columns(Linear):
    def forward(self, x, adj):
        return torch.sparse.sum(adj, dim=0).to_dense() * (x @ self.weight)


class Vector(Linear):
    def forward(self, x, adj):
        return adj @ (x @ self.weight)


class BothWays(Linear):
    def forward(self, x, adj):
        return self.lin(torch.add(adj, adj.t(), alpha=2.0) @ x)


class Added(Linear):
    def forward(self, x, adj):
        return self.lin(torch.sparse.addmm(x, adj, x, beta=0.5, alpha=2.0))


class Scaled(Linear):
    def forward(self, x, adj):
        return (adj * 0.5) @ x + (adj.coalesce() / 4) @ x


class Parts(Linear):
    """Which reads the matrix by itself."""

    def forward(self, x, adj):
        row, column = adj.coalesce().indices()
        return torch.zeros_like(x).index_add(0, row, x[column] * adj.coalesce().values()[:, None])


class Attention(Linear):
    """Veličković et al. 2018, as in pyGAT's sparse layer."""

    def forward(self, x, adj):
        edge, h, n = adj._indices(), self.lin(x), x.size(0)
        score = (x[edge[0]] * self.weight).sum(1) + (x[edge[1]] * x[edge[0]]).sum(1)
        weight = torch.exp(-F.leaky_relu(score))
        rows = torch.sparse_coo_tensor(edge, weight, (n, n)) @ torch.ones(n, 1)
        return F.elu(torch.sparse_coo_tensor(edge, weight, (n, n)) @ h / (rows + 1e-6))


class Softmax(Linear):
    """A softmax of each row's nonzeros."""

    def forward(self, x, adj):
        return torch.sparse.mm(torch.sparse.softmax(adj, dim=1), self.lin(x))


class Hypergraph(Linear):
    """Feng et al. 2019, of an incidence matrix of nodes by hyperedges."""

    def forward(self, x, incidence):
        edges = torch.sparse.mm(incidence.t(), self.lin(x))
        return torch.sparse.mm(incidence, edges)


class Sampled(Linear):
    """Rows of one set from those of another."""

    def forward(self, x, block):
        return self.lin(torch.sparse.mm(block, x))


class Mean(Linear):
    def forward(self, x, adj):
        return self.lin(torch.sparse.mm(adj, x, "mean"))


class Largest(Linear):
    def forward(self, x, adj):
        return self.lin(torch.sparse.mm(adj, x, "amax"))


class Made(Linear):
    """In forward, of ids and weights."""

    def forward(self, x, edge_index, weight):
        n = x.size(0)
        return torch.sparse_coo_tensor(edge_index, weight, (n, n)).coalesce().t() @ self.lin(x)


class Legacy(Linear):
    def forward(self, x, edge_index, weight):
        adj = torch.sparse.FloatTensor(edge_index, torch.ones(edge_index.size(1)), torch.Size([len(x), len(x)]))
        return torch.sparse.mm(adj, self.lin(x)) * weight.mean()


class Held(Linear):
    """Nodes that are always the same ones."""

    def __init__(self, layout):
        super().__init__()
        self.x = nn.Embedding(NODES, 4)
        self.register_buffer("adj", matrix(NODES, NODES, 31, 0, layout))

    def forward(self):
        return self.lin(self.adj @ F.relu(self.adj @ self.x.weight))


class LightGCN(nn.Module):
    """He et al. 2020, as its authors write it."""

    def __init__(self, users=USERS, items=ITEMS):
        super().__init__()
        self.users, self.items, self.layers = users, items, 2
        self.embedding_user, self.embedding_item = nn.Embedding(users, 4), nn.Embedding(items, 4)
        self.register_buffer("graph", matrix(users + items, users + items, 41, 1))

    def computer(self):
        all_emb = torch.cat([self.embedding_user.weight, self.embedding_item.weight])
        embs = [all_emb]
        for _ in range(self.layers):
            all_emb = torch.sparse.mm(self.graph, all_emb)
            embs.append(all_emb)
        light_out = torch.mean(torch.stack(embs, dim=1), dim=1)
        return torch.split(light_out, [self.users, self.items])

    def forward(self, users, items):
        all_users, all_items = self.computer()
        return torch.sum(all_users[users] * all_items[items], dim=1)


class Pairs(LightGCN):
    """What the loss of pairs is made of: the scores, and rows as they were before."""

    def forward(self, users, pos, neg):
        all_users, all_items = self.computer()
        u = all_users[users]
        ego = self.embedding_user(users), self.embedding_item(pos), self.embedding_item(neg)
        return (u * all_items[pos]).sum(1), (u * all_items[neg]).sum(1), *ego


class Tables(LightGCN):
    def forward(self):
        return self.computer()


class Whole(LightGCN):
    """All rows as one."""

    def forward(self):
        return torch.cat(self.computer(), 0)


class OneTable(LightGCN):
    """Of one embedding, whose first rows are users."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(USERS + ITEMS, 4)

    def forward(self, users, items):
        x = self.embedding.weight
        x = torch.stack([x, self.graph @ x]).mean(0)
        return (x[: self.users][users] * x[self.users :][items]).sum(-1)


class UsersFromItems(nn.Module):
    """And items from users, by the matrix between them."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, 4), nn.Embedding(ITEMS, 4)
        self.register_buffer("bought", matrix(USERS, ITEMS, 41, 1))

    def forward(self, users, items):
        u = self.users.weight + torch.sparse.mm(self.bought, self.items.weight)
        i = self.items.weight + torch.sparse.mm(self.bought.t(), self.users.weight)
        return (torch.tanh(u)[users] * i[items]).sum(-1)


class NGCF(nn.Module):
    """Wang et al. 2019: layers that differ, and are put side by side."""

    def __init__(self):
        super().__init__()
        self.user_emb = nn.Parameter(torch.randn(USERS, 4))
        self.item_emb = nn.Parameter(torch.randn(ITEMS, 4))
        self.gc, self.bi = (nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]) for _ in range(2))
        self.register_buffer("adj", matrix(USERS + ITEMS, USERS + ITEMS, 41, 1))

    def forward(self, users, pos_items, neg_items):
        ego = torch.cat([self.user_emb, self.item_emb], 0)
        found = [ego]
        for gc, bi in zip(self.gc, self.bi, strict=True):
            side = torch.sparse.mm(self.adj, ego)
            ego = F.leaky_relu(gc(side) + bi(ego * side), negative_slope=0.2)
            found += [F.normalize(ego, p=2, dim=1)]
        whole = torch.cat(found, 1)
        u, i = whole[:USERS, :], whole[USERS:, :]
        return u[users, :], i[pos_items, :], i[neg_items, :]


MULTIPLICATIONS = {
    "torch.sparse.mm": torch.sparse.mm,
    "@": lambda adj, x: adj @ x,
    "torch.mm": torch.mm,
    "torch.spmm": torch.spmm,
    "from the right": lambda adj, x: (x.t() @ adj.t()).t(),
}
OF_A_MATRIX = [SGC, APPNP, OverDegrees, Columns, Vector, BothWays, Added, Scaled, Parts, Attention, Softmax]
MADE = [Made, Legacy]
RECOMMENDERS = {LightGCN: 2, OneTable: 2, UsersFromItems: 2, Pairs: 3, NGCF: 3, Tables: 0, Whole: 0}
"""By module, how many columns of ids it takes: of users, and of items."""
