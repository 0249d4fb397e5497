"""Scores as people write them in PyTorch: modules with embeddings of their own, from the papers that they name."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

ENTITIES, RELATIONS, D, K = 9, 4, 6, 4


class Embedded(nn.Module):
    """Entities and relations with an embedding each."""

    def __init__(self, entity=D, relation=D):
        super().__init__()
        self.entities = nn.Embedding(ENTITIES, entity)
        self.relations = nn.Embedding(RELATIONS, relation)

    def embed(self, h, r, t):
        return self.entities(h), self.relations(r), self.entities(t)


class TransE(Embedded):
    """Bordes et al. 2013, entities on the unit sphere."""

    def forward(self, head, relation, tail):
        h = F.normalize(self.entities(head), p=2, dim=-1)
        t = F.normalize(self.entities(tail), p=2, dim=-1)
        return -torch.norm(h + self.relations(relation) - t, p=1, dim=-1)


class DistMult(Embedded):
    """Yang et al. 2015, of triples in the columns of one tensor."""

    def forward(self, triples):
        h, r, t = self.embed(triples[:, 0], triples[:, 1], triples[:, 2])
        return torch.sum(h * r * t, dim=1)


class ComplEx(nn.Module):
    """Trouillon et al. 2016, real and imaginary parts in tables of their own."""

    def __init__(self):
        super().__init__()
        self.ent_re, self.ent_im = nn.Embedding(ENTITIES, D), nn.Embedding(ENTITIES, D)
        self.rel_re, self.rel_im = nn.Embedding(RELATIONS, D), nn.Embedding(RELATIONS, D)

    def forward(self, h, r, t):
        h_re, h_im, t_re, t_im = self.ent_re(h), self.ent_im(h), self.ent_re(t), self.ent_im(t)
        r_re, r_im = self.rel_re(r), self.rel_im(r)
        return (h_re * r_re * t_re + h_im * r_re * t_im + h_re * r_im * t_im - h_im * r_im * t_re).sum(-1)


class RotatE(Embedded):
    """Sun et al. 2019: relations turn entities in the complex plane."""

    def __init__(self):
        super().__init__(2 * D, D)
        self.gamma = nn.Parameter(torch.tensor([3.0]))

    def forward(self, sample):
        head, relation, tail = (self.entities(sample[:, 0]), self.relations(sample[:, 1]), self.entities(sample[:, 2]))
        re_head, im_head = torch.chunk(head, 2, dim=-1)
        re_tail, im_tail = torch.chunk(tail, 2, dim=-1)
        phase = relation / (2.0 / math.pi)
        re_relation, im_relation = torch.cos(phase), torch.sin(phase)
        re_score = re_head * re_relation - im_head * im_relation - re_tail
        im_score = re_head * im_relation + im_head * re_relation - im_tail
        score = torch.stack([re_score, im_score], dim=0).norm(dim=0)
        return self.gamma - score.sum(dim=-1)


class TransH(Embedded):
    """Wang et al. 2014: onto the relation's hyperplane."""

    def __init__(self):
        super().__init__()
        self.normals = nn.Embedding(RELATIONS, D)

    def project(self, x, normal):
        return x - torch.sum(x * normal, dim=-1, keepdim=True) * normal

    def forward(self, h, r, t):
        normal = F.normalize(self.normals(r), dim=-1)
        difference = self.project(self.entities(h), normal) + self.relations(r) - self.project(self.entities(t), normal)
        return difference.norm(p=2, dim=-1)


class TransR(Embedded):
    """Lin et al. 2015: a matrix for each relation, kept as a row."""

    def __init__(self):
        super().__init__(D, K)
        self.transfer = nn.Embedding(RELATIONS, D * K)

    def forward(self, h, r, t):
        matrix = self.transfer(r).view(-1, D, K)
        h_r = torch.bmm(self.entities(h).unsqueeze(1), matrix).squeeze(1)
        t_r = torch.matmul(self.entities(t).view(-1, 1, D), matrix).view(-1, K)
        return torch.norm(h_r + self.relations(r) - t_r, p=2, dim=1) ** 2


class TransD(Embedded):
    """Ji et al. 2015, projections by vectors."""

    def __init__(self):
        super().__init__()
        self.entity_projections, self.relation_projections = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)

    def forward(self, h, r, t):
        r_p = self.relation_projections(r)
        h_p = self.entities(h) + (self.entities(h) * self.entity_projections(h)).sum(-1, True) * r_p
        t_p = self.entities(t) + (self.entities(t) * self.entity_projections(t)).sum(-1, True) * r_p
        return -(F.normalize(h_p, dim=-1) + self.relations(r) - F.normalize(t_p, dim=-1)).abs().sum(dim=-1)


class Rescal(nn.Module):
    """Nickel et al. 2011, by einsum."""

    def __init__(self):
        super().__init__()
        self.E = nn.Parameter(torch.randn(ENTITIES, D))
        self.R = nn.Parameter(torch.randn(RELATIONS, D, D))

    def forward(self, h, r, t):
        return torch.einsum("bd,bde,be->b", self.E[h], self.R[r], self.E[t])


class SimplE(nn.Module):
    """Kazemi and Poole 2018: a head's and a tail's embedding of every entity."""

    def __init__(self):
        super().__init__()
        self.heads, self.tails = nn.Embedding(ENTITIES, D), nn.Embedding(ENTITIES, D)
        self.forwards, self.inverses = nn.Embedding(RELATIONS, D), nn.Embedding(RELATIONS, D)

    def forward(self, h, r, t):
        one = (self.heads(h) * self.forwards(r) * self.tails(t)).sum(1)
        other = (self.heads(t) * self.inverses(r) * self.tails(h)).sum(1)
        return torch.clamp(0.5 * (one + other), -20, 20)


class HolE(Embedded):
    """Nickel et al. 2016, the correlation without a Fourier transform."""

    def forward(self, h, r, t):
        h, r, t = self.embed(h, r, t)
        turned = torch.stack([torch.roll(t, -k, dims=1) for k in range(D)], dim=1)
        return torch.sigmoid((r * torch.matmul(turned, h.unsqueeze(-1)).squeeze(-1)).sum(-1))


class ErMlp(Embedded):
    """Dong et al. 2014: a network of what is joined."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3 * D, K), nn.Tanh(), nn.Dropout(0.5), nn.Linear(K, 1))

    def forward(self, h, r, t):
        return self.network(torch.cat(self.embed(h, r, t), dim=-1)).squeeze(-1)


class Ntn(Embedded):
    """Socher et al. 2013: a tensor for each relation."""

    def __init__(self):
        super().__init__(D, K)
        self.W = nn.Parameter(torch.randn(RELATIONS, K, D, D))
        self.V = nn.Parameter(torch.randn(RELATIONS, K, 2 * D))
        self.b = nn.Embedding(RELATIONS, K)

    def forward(self, h, r, t):
        h_e, t_e = self.entities(h), self.entities(t)
        bilinear = torch.einsum("bi,bkij,bj->bk", h_e, self.W[r], t_e)
        linear = torch.bmm(self.V[r], torch.cat([h_e, t_e], -1).unsqueeze(-1)).squeeze(-1)
        return (self.relations(r) * torch.tanh(bilinear + linear + self.b(r))).sum(-1)


class PairRE(Embedded):
    """Chao et al. 2021: a vector of the relation for the head, and one for the tail."""

    def __init__(self):
        super().__init__(D, 2 * D)

    def forward(self, h, r, t):
        re_head, re_tail = torch.split(self.relations(r), D, dim=-1)
        head, tail = F.normalize(self.entities(h), 2, -1), F.normalize(self.entities(t), 2, -1)
        return 6.0 - torch.norm(head * re_head - tail * re_tail, p=1, dim=-1)


class BoxE(nn.Module):
    """Abboud et al. 2020: how far bumped points are from the relation's boxes."""

    def __init__(self):
        super().__init__()
        self.base, self.bump = nn.Embedding(ENTITIES, D), nn.Embedding(ENTITIES, D)
        self.centre, self.width = nn.Embedding(RELATIONS, 2 * D), nn.Embedding(RELATIONS, 2 * D)

    def distance(self, x, centre, width):
        inside = (x - centre).abs() <= width / 2
        factor = 0.5 * width * (width + 1 - 1 / (width + 1))
        return torch.where(inside, (x - centre).abs() / (width + 1), (x - centre).abs() * (width + 1) - factor)

    def forward(self, h, r, t):
        width = F.softplus(self.width(r))
        first = self.distance(self.base(h) + self.bump(t), self.centre(r)[:, :D], width[:, :D])
        second = self.distance(self.base(t) + self.bump(h), self.centre(r)[:, D:], width[:, D:])
        return -(first.norm(dim=-1) + second.norm(dim=-1))


class QuatE(Embedded):
    """Zhang et al. 2019: the Hamilton product with a unit quaternion."""

    def __init__(self):
        super().__init__(4 * K, 4 * K)

    def forward(self, h, r, t):
        a, b, c, d = self.entities(h).view(-1, 4, K).unbind(1)
        p, q, u, v = self.relations(r).reshape(-1, 4, K).unbind(dim=1)
        size = torch.sqrt(p**2 + q**2 + u**2 + v**2)
        p, q, u, v = p / size, q / size, u / size, v / size
        turned = torch.cat(
            [
                a * p - b * q - c * u - d * v,
                a * q + b * p + c * v - d * u,
                a * u - b * v + c * p + d * q,
                a * v + b * u - c * q + d * p,
            ],
            dim=-1,
        )
        return (turned * self.entities(t)).sum(-1)


class Structured(nn.Module):
    """Bordes et al. 2011: two matrices for each relation."""

    def __init__(self):
        super().__init__()
        self.entities = nn.Embedding(ENTITIES, D)
        self.left, self.right = nn.Parameter(torch.randn(RELATIONS, D, D)), nn.Parameter(torch.randn(RELATIONS, D, D))

    def forward(self, h, r, t):
        left = (self.left[r] @ self.entities(h).unsqueeze(-1)).squeeze(-1)
        right = (self.right[r] @ self.entities(t).unsqueeze(-1)).squeeze(-1)
        return -torch.linalg.norm(left - right, ord=1, dim=-1)


class TorusE(Embedded):
    """Ebisu and Ichise 2018: distances on a torus."""

    def forward(self, h, r, t):
        h, r, t = self.embed(h, r, t)
        d = h + r - t
        d = d - torch.floor(d)
        return -(4 * torch.minimum(d, 1 - d) ** 2).sum(-1)


class MuRE(Embedded):
    """Balazevic et al. 2019, with a bias for every entity."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(RELATIONS, D))
        self.b_s, self.b_o = nn.Parameter(torch.randn(ENTITIES)), nn.Embedding(ENTITIES, 1)

    def forward(self, u, r, v):
        distance = (self.entities(u) * self.scale[r] - (self.entities(v) + self.relations(r))).pow(2).sum(-1)
        return self.b_s[u] + self.b_o(v).squeeze(-1) - distance


class Hake(nn.Module):
    """Zhang et al. 2020: moduli and phases."""

    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(ENTITIES, 2 * D), nn.Embedding(RELATIONS, 3 * D)
        self.phase_weight = nn.Parameter(torch.tensor([[0.5]]))
        self.register_buffer("range", torch.tensor(1.7))

    def forward(self, h, r, t):
        phase_h, mod_h = self.entities(h).chunk(2, -1)
        phase_t, mod_t = self.entities(t).chunk(2, -1)
        phase_r, mod_r, bias = self.relations(r).chunk(3, -1)
        phase = (phase_h + phase_r - phase_t) / (self.range / math.pi)
        mod_r = torch.abs(mod_r)
        bias = torch.clamp(bias, max=1)
        bias = torch.where(bias < -mod_r, -mod_r, bias)
        r_score = torch.norm(mod_h * (mod_r + bias) - mod_t * (1 - bias), dim=-1)
        return -(torch.sum(torch.abs(torch.sin(phase / 2)), dim=-1) * self.phase_weight.squeeze() + r_score)


class Gaussian(nn.Module):
    """He et al. 2015, KG2E: the divergence of two normal distributions."""

    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Embedding(ENTITIES, D), nn.Embedding(ENTITIES, D)
        self.r_mean, self.r_spread = nn.Embedding(RELATIONS, D), nn.Embedding(RELATIONS, D)

    def forward(self, h, r, t):
        mean = self.mean(h) - self.mean(t)
        spread = self.spread(h).exp() + self.spread(t).exp()
        other = F.elu(self.r_spread(r)) + 1.5
        divergence = spread / other + (self.r_mean(r) - mean) ** 2 / other - torch.log(spread / other) - 1
        return -0.5 * divergence.mean(-1)


class Attention(Embedded):
    """Heads that attend to the parts of a triple, as transformers of triples do."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.norm = nn.LayerNorm(D)

    def forward(self, h, r, t):
        parts = torch.stack(self.embed(h, r, t), dim=1)
        logits = self.query(parts) @ self.key(parts).transpose(1, 2) / math.sqrt(D)
        mixed = self.norm(parts + torch.softmax(logits, dim=-1) @ self.value(parts))
        return mixed.mean(1).sum(-1)


class Factors(nn.Module):
    """Koren et al. 2009: users, items, and their biases."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)
        self.user_bias, self.item_bias = nn.Embedding(ENTITIES, 1), nn.Embedding(RELATIONS, 1)
        self.mean = nn.Parameter(torch.zeros(()))

    def forward(self, user, item):
        dots = (self.users(user) * self.items(item)).sum(1, keepdim=True)
        return (dots + self.user_bias(user) + self.item_bias(item) + self.mean).squeeze(1)


class Wide(Embedded):
    """A batch norm of learnt statistics before a network, in evaluation."""

    def __init__(self):
        super().__init__()
        self.bn, self.hidden, self.out = nn.BatchNorm1d(3 * D), nn.Linear(3 * D, K), nn.Linear(K, 1)

    def forward(self, h, r, t):
        x = self.bn(torch.cat(self.embed(h, r, t), 1))
        return torch.squeeze(self.out(F.gelu(F.leaky_relu(self.hidden(x), 0.1))))


class Bilinear(Embedded):
    """Heads with a matrix each, and what a table is turned into before its rows are taken."""

    def __init__(self):
        super().__init__()
        self.matrices, self.project = nn.Parameter(torch.randn(2, 3, 3)), nn.Linear(D, D)

    def forward(self, h, r, t):
        turned = torch.tanh(self.project(self.entities.weight))
        a, b = turned[h].view(-1, 2, 3), turned[t].view(-1, 2, 3).transpose(1, 2).contiguous().transpose(1, 2)
        return torch.einsum("bhd,hde,bhe->b", a, self.matrices, b) + F.mish(self.relations(r)).max(dim=-1).values


MODULES = (
    TransE, DistMult, ComplEx, RotatE, TransH, TransR, TransD, Rescal, SimplE, HolE, ErMlp, Ntn, PairRE, BoxE, QuatE,
    Structured, TorusE, MuRE, Hake, Gaussian, Attention, Factors, Wide, Bilinear,
)  # fmt: skip
