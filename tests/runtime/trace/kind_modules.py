"""Models over several kinds of nodes, as people write them: rows and edges in dictionaries, a Linear for each kind."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {"user": 4, "item": 4, "tag": 4}
RELATIONS = [("user", "buys", "item"), ("item", "has", "tag"), ("item", "of", "user"), ("user", "knows", "user")]


def linears(widths, outer):
    return nn.ModuleDict({kind: nn.Linear(inner, outer) for kind, inner in widths.items()})


def begins(x):
    """Where each kind's rows begin, one behind another."""
    found, at = {}, 0
    for kind, rows in x.items():
        found[kind] = at
        at += rows.size(0)
    return found


class Kinds(nn.Module):
    """Hu et al. 2020 in a few lines: a Linear for each kind of node, a matrix for each kind of edge, and a softmax."""

    def __init__(self, widths=KINDS, relations=RELATIONS):
        super().__init__()
        self.keys, self.queries, self.out = linears(widths, 3), linears(widths, 3), linears(dict.fromkeys(widths, 3), 4)
        self.matrices = nn.ParameterDict({name: nn.Parameter(torch.randn(3, 3)) for _, name, _ in relations})

    def forward(self, x, edges):
        start = begins(x)
        k = torch.cat([self.keys[kind](rows) for kind, rows in x.items()])
        q = torch.cat([self.queries[kind](rows) for kind, rows in x.items()])
        sources, ends, messages = [], [], []
        for (source, name, end), (src, dst) in edges.items():
            sources.append(src + start[source])
            ends.append(dst + start[end])
            messages.append(k[sources[-1]] @ self.matrices[name])
        dst, message = torch.cat(ends), torch.cat(messages)
        weight = torch.exp((message * q[dst]).sum(-1).clamp(max=20))
        total = torch.zeros(len(q)).index_add_(0, dst, weight)
        message = (weight / (total[dst] + 1e-9)).unsqueeze(-1) * message
        h = torch.zeros_like(q).index_add_(0, dst, message)
        return {
            kind: self.out[kind](F.gelu(h[start[kind] : start[kind] + rows.size(0)])) + rows[:, :4]
            for kind, rows in x.items()
        }


class Filled(Kinds):
    """Rows that are written where their kind's begin, and taken from there; two layers of one matrix."""

    def forward(self, x, edges):
        start = begins(x)
        count = sum(rows.size(0) for rows in x.values())
        src = torch.cat([each[0] + start[source] for (source, _, _), each in edges.items()])
        dst = torch.cat([each[1] + start[end] for (_, _, end), each in edges.items()])
        h = torch.empty(count, 3)
        for kind, rows in x.items():
            h[start[kind] : start[kind] + rows.size(0)] = self.keys[kind](rows)
        for _ in range(2):
            h = torch.tanh(torch.zeros_like(h).index_add_(0, dst, h[src]) @ self.matrices["buys"])
        return [self.out[kind](h[at : at + x[kind].size(0)]) for kind, at in start.items()]


class Bought(nn.Module):
    """Each kind's rows, the sum of what edges lead from."""

    def forward(self, x, edges):
        return {
            end: torch.relu(torch.zeros(len(x[end]), 4).index_add(0, dst, x[source][src]))
            for (source, _, end), (src, dst) in edges.items()
        }


class Quotient(nn.Module):
    """What is no number for rows of the other kind, whose place is 0 there."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, edges):
        ((src, dst),) = edges.values()
        users = torch.log(x["user"].abs() * self.scale.abs()) / (x["user"] * self.scale)
        return x["item"] + torch.zeros_like(x["item"]).index_add(0, dst, users[src])


class Meant(Kinds):
    """What is left without the mean of all rows of a kind."""

    def forward(self, x, edges):
        return {kind: rows - x["user"].mean(0) * x["tag"].sum(0) for kind, rows in super().forward(x, edges).items()}


class Layers(nn.Module):
    """Two layers, the first one of other widths, of which one kind's rows are what is asked for."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Kinds(WIDTHS), Kinds()

    def forward(self, x, edges):
        return torch.tanh(self.second(self.first(x, edges), edges)["item"])


class Looped(nn.Module):
    """Kipf and Welling 2017 within a kind, with loops beside the edges but for those that are there, and a sum between
    two."""

    def __init__(self):
        super().__init__()
        self.within, self.between = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, edges):
        (across, within), users = edges.values(), x["user"]
        loops = torch.arange(users.size(0))
        others = within[0] != within[1]
        src, dst = (torch.cat([each[others], loops]) for each in within)
        degree = torch.zeros(users.size(0)).index_add(0, dst, torch.ones(len(dst)))
        norm = degree.pow(-0.5)
        message = (norm[src] * norm[dst])[:, None] * self.within(users)[src]
        users = torch.zeros_like(users).index_add(0, dst, message)
        items = torch.zeros_like(x["item"]).index_add(0, across[1], self.between(x["user"])[across[0]])
        return {"user": users, "item": items + x["item"]}


class Returned(Kinds):
    """Another way round: what edges lead to is a row of each kind, and one kind alone is returned."""

    def forward(self, x, edges):
        rows = {kind: self.keys[kind](each) for kind, each in x.items()}
        found = {kind: torch.zeros(len(each), 3) for kind, each in x.items()}
        for (source, name, end), (src, dst) in edges.items():
            message = torch.sigmoid(rows[source][src] * rows[end][dst]) @ self.matrices[name]
            found[end] = found[end].index_add(0, dst, message)
        return self.out["item"](found["item"])


class Counted(nn.Module):
    """Sums that are divided by how many edges of their relation there are, and the largest of them."""

    def forward(self, x, edges):
        found = dict(x)
        for (source, _, end), (src, dst) in edges.items():
            degree = torch.zeros(len(x[end])).index_add(0, dst, torch.ones(len(dst))).clamp(min=1)
            largest = torch.full((len(x[end]), 4), -2.0)
            largest = largest.scatter_reduce(0, dst[:, None].expand(-1, 4), x[source][src], "amax")
            found[end] = found[end] / degree[:, None] + largest
        return found


class BothWays(nn.Module):
    """What edges carry, summed to both their ends."""

    def forward(self, x, edges):
        ((src, dst),) = edges.values()
        carried = torch.relu(x["user"][src] * x["item"][dst])
        ends = {"user": src, "item": dst}
        return {kind: torch.tanh(torch.zeros_like(x[kind]).index_add(0, ends[kind], carried)) for kind in x}


WIDTHS = {"user": 4, "item": 5, "tag": 6}
TWO = RELATIONS[:1] + RELATIONS[2:3]
MODULES = {
    "kinds": (Kinds, KINDS, RELATIONS),
    "widths": (lambda: Kinds(WIDTHS), WIDTHS, RELATIONS),
    "filled": (Filled, KINDS, RELATIONS),
    "one sum": (Bought, {"user": 4, "item": 4}, RELATIONS[:1]),
    "two sums": (Bought, {"user": 4, "item": 4}, TWO),
    "quotient": (Quotient, {"user": 4, "item": 4}, RELATIONS[:1]),
    "meant": (Meant, KINDS, RELATIONS),
    "layers": (Layers, WIDTHS, RELATIONS),
    "looped": (Looped, {"user": 4, "item": 4}, [RELATIONS[0], RELATIONS[3]]),
    "returned": (Returned, KINDS, RELATIONS),
    "counted": (Counted, {"user": 4, "item": 4}, TWO),
    "both ways": (BothWays, {"user": 4, "item": 4}, RELATIONS[:1]),
}
"""By name: how one is made, and the kinds of nodes, with their widths, and of edges that it takes."""


def drawn(kinds, relations, nodes, edges, seed):
    """A random graph's rows and edges, in dictionaries, of so many nodes and edges of each kind."""
    generator = torch.Generator().manual_seed(seed)
    count = dict(zip(kinds, nodes, strict=False))
    x = {kind: torch.randn(count[kind], width, generator=generator) for kind, width in kinds.items()}

    def ids(kind, number):
        return torch.randint(0, count[kind], (number,), generator=generator)

    pairs = zip(relations, edges, strict=False)
    return [x, {each: torch.stack([ids(each[0], number), ids(each[2], number)]) for each, number in pairs}]
