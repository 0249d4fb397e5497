"""Modules of papers, in the style of their public code, beside those of `user_modules`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

ENTITIES, RELATIONS, TIMES = 9, 4, 6
PERMUTATIONS = [torch.randperm(12, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]


def add(src, index, n):
    return src.new_zeros((n, *src.shape[1:])).index_add_(0, index, src)


def seg_softmax(a, index, n):
    m = torch.full((n, *a.shape[1:]), -1e9)
    m = m.scatter_reduce_(0, index.view(-1, *[1] * (a.dim() - 1)).expand_as(a), a, "amax")
    e = (a - m[index]).exp()
    return e / (add(e, index, n)[index] + 1e-16)


class CompGCN(nn.Module):
    """Vashishth et al. 2020: relations, their inverses and a loop are one table, put together."""

    def __init__(self, d=4, r=3):
        super().__init__()
        self.w_loop, self.w_in, self.w_out, self.w_rel = [nn.Parameter(torch.randn(d, d)) for _ in range(4)]
        self.loop_rel = nn.Parameter(torch.randn(1, d))
        self.rel = nn.Parameter(torch.randn(2 * r, d))
        self.bn = nn.BatchNorm1d(d)
        self.r = r

    def forward(self, x, edge_index, edge_type):
        inv = edge_index.flip(0)
        rel = torch.cat([self.rel, self.loop_rel], 0)
        n = x.size(0)

        def norm(ei):
            d = add(torch.ones(ei.size(1)), ei[0], n)
            di = d.pow(-0.5)
            di = torch.where(torch.isinf(di), torch.zeros_like(di), di)
            return di[ei[0]] * di[ei[1]]

        i = add(norm(edge_index).view(-1, 1) * ((x[edge_index[1]] - rel[edge_type]) @ self.w_in), edge_index[0], n)
        o = add(norm(inv).view(-1, 1) * ((x[inv[1]] - rel[edge_type + self.r]) @ self.w_out), inv[0], n)
        loop = (x - self.loop_rel) @ self.w_loop
        return torch.tanh(self.bn(i / 3 + o / 3 + loop / 3))


class REGCN(nn.Module):
    """Li et al. 2021, RE-GCN: a layer with the random leaky ReLU of evaluation, and a gate."""

    def __init__(self, d=4, r=3):
        super().__init__()
        self.rel = nn.Parameter(torch.randn(r, d))
        self.wn = nn.Parameter(torch.randn(d, d))
        self.lw = nn.Parameter(torch.randn(d, d))
        self.ew = nn.Parameter(torch.randn(d, d))
        self.tg = nn.Parameter(torch.randn(d, d))
        self.tb = nn.Parameter(torch.zeros(d))

    def forward(self, h, edge_index, etype, norm):
        src, dst = edge_index
        n = h.size(0)
        h0 = F.normalize(h)
        deg = add(torch.ones(len(src)), dst, n)
        loop = torch.where((deg > 0).unsqueeze(1), h0 @ self.lw, h0 @ self.ew)
        m = torch.mm(h0[src] + self.rel[etype], self.wn) * norm.view(-1, 1)
        cur = F.rrelu(add(m, dst, n) + loop, training=False)
        cur = F.normalize(cur)
        g = torch.sigmoid(torch.mm(h0, self.tg) + self.tb)
        return g * cur + (1 - g) * h0


class InteractE(nn.Module):
    """Vashishth et al. 2020: numbers in another order, by an attribute of two dimensions, and circular padding."""

    def __init__(self, k=4, d=6):
        super().__init__()
        self.ent = nn.Embedding(ENTITIES, d)
        self.rel = nn.Embedding(RELATIONS, d)
        self.chequer_perm = torch.stack(PERMUTATIONS)
        self.conv_filt = nn.Parameter(torch.randn(2, 1, 3, 3))
        self.bn0 = nn.BatchNorm2d(2)
        self.fc = nn.Linear(2 * 12, d)
        self.bias = nn.Parameter(torch.zeros(ENTITIES))

    def circular_padding_chw(self, b, p):
        u = b[..., :p, :]
        low = b[..., -p:, :]
        t = torch.cat([low, b, u], dim=2)
        le = t[..., -p:]
        r = t[..., :p]
        return torch.cat([le, t, r], dim=3)

    def forward(self, sub, rel, obj):
        comb = torch.cat([self.ent(sub), self.rel(rel)], dim=1)
        x = comb[:, self.chequer_perm].reshape((-1, 2, 3, 4))
        x = self.bn0(x)
        x = self.circular_padding_chw(x, 1)
        x = torch.cat([F.conv2d(x[:, i : i + 1], self.conv_filt[i : i + 1]) for i in range(2)], 1)
        x = self.fc(F.relu(x).view(-1, 24))
        return torch.sigmoid((x * self.ent(obj)).sum(-1) + self.bias[obj])


class BERT4Rec(nn.Module):
    """Sun et al. 2019: places that are as many as the columns of ids, and padding that attention leaves out."""

    def __init__(self, L=5, d=4):
        super().__init__()
        self.tok = nn.Embedding(ENTITIES, d, padding_idx=0)
        self.pos = nn.Embedding(L, d)
        self.enc = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 2, 8, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False
        )
        self.out = nn.Linear(d, ENTITIES)

    def forward(self, x):
        p = self.pos(torch.arange(x.size(1)).unsqueeze(0).expand_as(x))
        m = x == 0
        return self.out(self.enc(self.tok(x) + p, src_key_padding_mask=m))[:, -1]


class KGCN(nn.Module):
    """Wang et al. 2019: an item's neighbours, by tables of ids."""

    def __init__(self, d=4, K=3):
        super().__init__()
        self.usr, self.ent, self.rel = nn.Embedding(7, d), nn.Embedding(ENTITIES, d), nn.Embedding(RELATIONS, d)
        self.W = nn.Linear(d, d)
        self.register_buffer("adj_ent", torch.randint(0, ENTITIES, (ENTITIES, K)))
        self.register_buffer("adj_rel", torch.randint(0, RELATIONS, (ENTITIES, K)))

    def forward(self, u, v):
        ue = self.usr(u)
        nb = self.ent(self.adj_ent[v])
        nr = self.rel(self.adj_rel[v])
        s = F.softmax((ue.unsqueeze(1) * nr).sum(-1), dim=-1)
        a = (s.unsqueeze(-1) * nb).sum(1)
        i = torch.tanh(self.W(self.ent(v) + a))
        return torch.sigmoid((ue * i).sum(1))


class RelationMatrices(nn.Module):
    """Schlichtkrull et al. 2018, of a sparse matrix for each relation."""

    def __init__(self, d=4, r=2):
        super().__init__()
        self.bases = nn.Parameter(torch.randn(2, d, 3))
        self.comp = nn.Parameter(torch.randn(r, 2))
        self.loop = nn.Linear(d, 3)

    def forward(self, x, adjs):
        w = torch.einsum("rb,bio->rio", self.comp, self.bases)
        out = self.loop(x)
        for i, a in enumerate(adjs):
            out = out + torch.sparse.mm(a, x @ w[i])
        return F.relu(out)


class KBGAT(nn.Module):
    """Nathani et al. 2019: sums of rows of a sparse tensor whose values are rows."""

    def __init__(self, d=4):
        super().__init__()
        self.a = nn.Parameter(torch.randn(5, 3 * d))
        self.a2 = nn.Parameter(torch.randn(1, 5))
        self.rel = nn.Parameter(torch.randn(3, d))

    def forward(self, x, edge, etype):
        n = x.size(0)
        h = torch.cat((x[edge[0, :], :], x[edge[1, :], :], self.rel[etype]), dim=1).t()
        m = self.a.mm(h)
        p = -F.leaky_relu(self.a2.mm(m).squeeze(), 0.2)
        e = torch.exp(p).unsqueeze(1)
        s = torch.sparse.sum(torch.sparse_coo_tensor(edge, e, torch.Size([n, n, 1])), dim=1).to_dense()
        s = torch.where(s == 0, torch.full_like(s, 1e-12), s)
        w = e * m.t()
        o = torch.sparse.sum(torch.sparse_coo_tensor(edge, w, torch.Size([n, n, 5])), dim=1).to_dense()
        return F.elu(o / s)


class HAN(nn.Module):
    """Wang et al. 2019: attention over graphs of several paths."""

    def __init__(self, d=4):
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(d, d) for _ in range(2)])
        self.p = nn.Sequential(nn.Linear(d, 6), nn.Tanh(), nn.Linear(6, 1, bias=False))

    def forward(self, x, a1, a2):
        z = torch.stack([F.elu(torch.sparse.mm(a, lin(x))) for a, lin in zip((a1, a2), self.l, strict=False)], dim=1)
        w = self.p(z).mean(0)
        b = torch.softmax(w, dim=0)
        b = b.expand((z.shape[0], *b.shape))
        return (b * z).sum(1)


class NormalisedHere(nn.Module):
    """Gasteiger et al. 2019, of a matrix that is normalised in forward."""

    def __init__(self, d=4):
        super().__init__()
        self.l = nn.Linear(d, 3)

    def forward(self, x, ei):
        n = x.size(0)
        i = torch.cat([ei, torch.arange(n).unsqueeze(0).repeat(2, 1)], 1)
        v = torch.ones(i.size(1))
        a = torch.sparse_coo_tensor(i, v, (n, n))
        deg = torch.sparse.sum(a, 1).to_dense()
        dn = deg.pow(-0.5)
        a = torch.sparse_coo_tensor(i, dn[i[0]] * v * dn[i[1]], (n, n))
        h = self.l(x)
        z = h
        for _ in range(2):
            z = 0.8 * torch.sparse.mm(a, z) + 0.2 * h
        return z


class UsersAndItems(nn.Module):
    """Users and items of features, both ways along one matrix."""

    def __init__(self):
        super().__init__()
        self.u, self.i = nn.Linear(3, 4), nn.Linear(5, 4)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, xu, xi, Rm):
        u, i = F.relu(self.u(xu)), F.relu(self.i(xi))
        return u + self.a(torch.sparse.mm(Rm, i)), i + self.b(torch.sparse.mm(Rm.t(), u))


class LINKX(nn.Module):
    """Lim et al. 2021: a matrix whose columns are rows of a parameter."""

    def __init__(self, d=4):
        super().__init__()
        self.a = nn.Parameter(torch.randn(11, d))
        self.b = nn.Parameter(torch.zeros(d))
        self.x = nn.Linear(d, d)
        self.c1, self.c2 = nn.Linear(d, d), nn.Linear(d, d)
        self.f = nn.Linear(d, 2)

    def forward(self, x, adj_t):
        o = torch.sparse.mm(adj_t, self.a) + self.b
        o = o + self.c1(o)
        h = F.relu(self.x(x))
        o = o + h + self.c2(h)
        return self.f(F.relu(o))


class UniGAT(nn.Module):
    """Huang and Yang 2021: attention of nodes to the hyperedges that they are in."""

    def __init__(self, d=4):
        super().__init__()
        self.W = nn.Linear(d, 6, bias=False)
        self.att = nn.Parameter(torch.randn(1, 2, 3))

    def forward(self, X, vertex, edges, num_edges):
        n = X.shape[0]
        X0 = self.W(X)
        X = X0.view(n, 2, 3)
        Xe = add(X[vertex], edges, num_edges) / add(torch.ones(len(edges)), edges, num_edges).clamp(min=1).view(
            -1, 1, 1
        )
        a = (Xe * self.att).sum(-1)[edges]
        a = seg_softmax(F.leaky_relu(a, 0.2), vertex, n).unsqueeze(-1)
        return add(Xe[edges] * a, vertex, n).view(n, 6) + X0


class HAKE(nn.Module):
    """Zhang et al. 2020, with a parameter that is not learnt."""

    def __init__(self, d=4):
        super().__init__()
        self.hidden_dim = d
        self.entity_embedding = nn.Parameter(torch.randn(ENTITIES, 2 * d))
        self.relation_embedding = nn.Parameter(torch.randn(RELATIONS, 3 * d))
        self.gamma = nn.Parameter(torch.Tensor([12.0]), requires_grad=False)
        self.embedding_range = nn.Parameter(torch.tensor([1.4]), requires_grad=False)
        self.phase_weight = nn.Parameter(torch.tensor([[0.5 * 1.4]]))
        self.modulus_weight = nn.Parameter(torch.tensor([[1.0]]))
        self.pi = 3.14159262358979323846

    def forward(self, sample):
        head = torch.index_select(self.entity_embedding, 0, sample[:, 0]).unsqueeze(1)
        rel = torch.index_select(self.relation_embedding, 0, sample[:, 1]).unsqueeze(1)
        tail = torch.index_select(self.entity_embedding, 0, sample[:, 2]).unsqueeze(1)
        ph, mh = torch.chunk(head, 2, dim=2)
        pr, mr, br = torch.chunk(rel, 3, dim=2)
        pt, mt = torch.chunk(tail, 2, dim=2)
        k = 1.4 / self.pi
        ps = ph / k + (pr / k - pt / k)
        mr = torch.abs(mr)
        br = torch.clamp(br, max=1)
        ind = br < -mr
        br = torch.where(ind, -mr, br)
        rs = mh * (mr + br) - mt * (1 - br)
        p = torch.sum(torch.abs(torch.sin(ps / 2)), dim=2) * self.phase_weight
        r = torch.norm(rs, dim=2) * self.modulus_weight
        return self.gamma - (p + r)


class TNTComplEx(nn.Module):
    """Lacroix et al. 2020, of times."""

    def __init__(self, sizes=(ENTITIES, RELATIONS, ENTITIES, TIMES), rank=4):
        super().__init__()
        self.rank = rank
        self.embeddings = nn.ModuleList([nn.Embedding(s, 2 * rank) for s in [sizes[0], sizes[1], sizes[3], sizes[1]]])

    def forward(self, x):
        lhs = self.embeddings[0](x[:, 0])
        rel = self.embeddings[1](x[:, 1])
        rel_no_time = self.embeddings[3](x[:, 1])
        rhs = self.embeddings[0](x[:, 2])
        time = self.embeddings[2](x[:, 3])
        lhs = lhs[:, : self.rank], lhs[:, self.rank :]
        rel = rel[:, : self.rank], rel[:, self.rank :]
        rhs = rhs[:, : self.rank], rhs[:, self.rank :]
        time = time[:, : self.rank], time[:, self.rank :]
        rnt = rel_no_time[:, : self.rank], rel_no_time[:, self.rank :]
        rt = rel[0] * time[0], rel[1] * time[0], rel[0] * time[1], rel[1] * time[1]
        full_rel = (rt[0] - rt[3]) + rnt[0], (rt[1] + rt[2]) + rnt[1]
        return torch.sum(
            (lhs[0] * full_rel[0] - lhs[1] * full_rel[1]) * rhs[0]
            + (lhs[1] * full_rel[0] + lhs[0] * full_rel[1]) * rhs[1],
            1,
            keepdim=True,
        ), torch.sqrt(lhs[0] ** 2 + lhs[1] ** 2)


class RippleNet(nn.Module):
    """Wang et al. 2018: what is known of a user's items, hop by hop, as lists of ids."""

    def __init__(self, d=4, hop=2):
        super().__init__()
        self.ent = nn.Embedding(ENTITIES, d)
        self.rel = nn.Embedding(RELATIONS, d * d)
        self.tr = nn.Linear(d, d, bias=False)
        self.d = d
        self.hop = hop

    def forward(self, items, mh, mr, mt):
        v = self.ent(items)
        o = []
        for k in range(self.hop):
            h = self.ent(mh[k])
            r = self.rel(mr[k]).view(-1, 3, self.d, self.d)
            t = self.ent(mt[k])
            Rh = torch.squeeze(torch.matmul(r, h.unsqueeze(3)), 3)
            p = F.softmax(torch.squeeze(torch.matmul(Rh, v.unsqueeze(2)), 2), dim=1)
            ok = (t * p.unsqueeze(2)).sum(dim=1)
            v = self.tr(v + ok)
            o.append(ok)
        y = o[-1]
        for i in range(self.hop - 1):
            y = y + o[i]
        return torch.sigmoid((v * y).sum(dim=1))


class SchNet(nn.Module):
    """Schütt et al. 2017: continuous filters, and a sum for each molecule."""

    def __init__(self, d=4, g=5, cutoff=3.0):
        super().__init__()
        self.emb = nn.Embedding(10, d)
        off = torch.linspace(0, cutoff, g)
        self.coeff = -0.5 / (off[1] - off[0]).item() ** 2
        self.register_buffer("offset", off)
        self.cutoff = cutoff
        self.mlp = nn.Sequential(nn.Linear(g, d), nn.Softplus(), nn.Linear(d, d))
        self.l1 = nn.Linear(d, d, bias=False)
        self.l2 = nn.Linear(d, d)
        self.lin = nn.Linear(d, 1)

    def forward(self, z, pos, edge_index, batch, num_graphs):
        h = self.emb(z)
        row, col = edge_index
        w = (pos[row] - pos[col]).norm(dim=-1)
        a = torch.exp(self.coeff * torch.pow(w.view(-1, 1) - self.offset.view(1, -1), 2))
        C = 0.5 * (torch.cos(w * math.pi / self.cutoff) + 1.0)
        W = self.mlp(a) * C.view(-1, 1)
        x = self.l1(h)
        x = add(x[row] * W, col, len(h))
        h = h + self.l2(F.softplus(x) - math.log(2.0))
        return add(self.lin(h), batch, num_graphs)


class TGAT(nn.Module):
    """Xu et al. 2020: attention with times as cosines."""

    def __init__(self, d=4, td=4):
        super().__init__()
        self.w = nn.Linear(1, td)
        self.q, self.k, self.v = nn.Linear(d + td, 6), nn.Linear(2 * d + td, 6), nn.Linear(2 * d + td, 6)
        self.o = nn.Linear(6 + d, d)

    def forward(self, x, edge_index, t, msg):
        src, dst = edge_index
        n = x.size(0)
        te = torch.cos(self.w(t.view(-1, 1)))
        t0 = torch.cos(self.w(torch.zeros(n, 1)))
        q = self.q(torch.cat([x, t0], 1)).view(-1, 2, 3)
        kv = torch.cat([x[src], msg, te], 1)
        a = (q[dst] * self.k(kv).view(-1, 2, 3)).sum(-1) / math.sqrt(3)
        a = seg_softmax(a, dst, n)
        return F.relu(self.o(torch.cat([add(a.unsqueeze(-1) * self.v(kv).view(-1, 2, 3), dst, n).flatten(1), x], 1)))
