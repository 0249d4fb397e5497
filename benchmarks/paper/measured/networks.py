"""G-Sparse's networks end to end: GCN, GraphSAGE and GAT of two layers, their layers compiled, the rest in PyTorch.

Every side computes the same function of the same parameters: ours, with a compiled module a layer; eager PyTorch, with
rows gathered and added by index; and, where a layer is a product with a sparse matrix, PyTorch's with cuSPARSE. Logits,
gradients and the losses of some steps are held against eager PyTorch in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import explorer
from benchmarks.traced import LEAST
from benchmarks.training import EPSILON, RATE, softmax, summed

Learnt = Sequence[Mapping[str, Tensor]]
"""Parameters by name, layer by layer."""
Layer = Callable[[Tensor, Mapping[str, Tensor]], Tensor]
"""From rows of all nodes and a layer's parameters to rows."""

SYMMETRIC = """dim F = 128, G = 128
layer GCN(g: graph):
    "Kipf and Welling 2017: an edge weighs one over the root of both ends' degrees"
    input share[edge]
    param x[node, F], W[F, G], b[G]
    for n in g.nodes():
        n["y"] = x[n] @ W
    for n in g.nodes():
        n["h"] = sum(share[e] * e.src["y"] for e in n.incoming_edges()) + b
    return n["h"]
"""
MEAN = """dim F = 128, G = 128
layer GraphSAGE(g: graph):
    "Hamilton et al. 2017, with the mean of the neighbours"
    param x[node, F], own[F, G], W[F, G], b[G]
    for n in g.nodes():
        n["y"] = x[n] @ W
    for n in g.nodes():
        n["h"] = x[n] @ own + mean(e.src["y"] for e in n.incoming_edges()) + b
    return n["h"]
"""
ATTENTION = """dim F = 128, H = 4, D = 32
layer GAT(g: graph):
    "Velickovic et al. 2018"
    param x[node, F], W[H, F, D], from_src[H, D], from_dst[H, D], b[H * D]
    for n in g.nodes():
        n["y"] = x[n] @ W
        n["s"] = dot(n["y"], from_src)
        n["t"] = dot(n["y"], from_dst)
    for e in g.edges():
        e["att"] = leaky_relu(e.src["s"] + e.dst["t"], 0.2)
    edge_softmax(g, "att")
    for n in g.nodes():
        n["h"] = sum(e["att"] * e.src["y"] for e in n.incoming_edges())
    return reshape(n["h"], H * D) + b
"""


@dataclass(frozen=True, eq=False)
class Citations:
    """A graph whose every node has an edge to itself, int64 ids; `share` is one over the root of both ends' degrees."""

    src: Tensor
    dst: Tensor
    nodes: int

    @classmethod
    def drawn(cls, nodes: int, edges: int, device: str) -> Citations:
        """As many edges as asked for, their ends by a power law, and one of each node to itself."""
        from benchmarks.gpu_suite.inputs import power_law
        from benchmarks.gpu_suite.rows import MatrixRow

        random, own = torch.Generator(device).manual_seed(0), torch.arange(nodes, device=device)
        src, dst = (torch.cat([power_law(nodes, edges, MatrixRow.exponent, random), own]) for _ in range(2))
        return cls(src, dst, nodes)

    @property
    def maps(self) -> dict[str, Tensor]:
        """Both ends, by name."""
        return {"src": self.src, "dst": self.dst}

    @property
    def degrees(self) -> Tensor:
        """The edges into each node, one at least; float64."""
        return torch.bincount(self.dst, minlength=self.nodes).double()

    @property
    def share(self) -> Tensor:
        """Of each edge, float64."""
        root = self.degrees.rsqrt()
        return root[self.src] * root[self.dst]

    def matrix(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The sparse matrix from sources to destinations, and its transpose, in compressed rows with int32 indices;
        parallel edges are entries of their own."""

        def compressed(rows: Tensor, columns: Tensor) -> Tensor:
            order = torch.argsort(rows, stable=True)
            ends = torch.bincount(rows, minlength=self.nodes).cumsum(0)
            begins = torch.cat([ends.new_zeros(1), ends]).int()
            shape = (self.nodes, self.nodes)
            return torch.sparse_csr_tensor(begins, columns[order].int(), values[order], shape)

        return compressed(self.dst, self.src), compressed(self.src, self.dst)


@dataclass(frozen=True)
class Forward:
    """Two layers one after the other, with what is between: from features and parameters to logits."""

    first: Layer
    second: Layer
    between: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, learnt: Learnt) -> Tensor:
        return self.second(self.between(self.first(x, learnt[0])), learnt[1])

    def bent_as(self, other: Forward, x: Tensor, learnt: Learnt) -> Forward:
        """The same, its ReLU's slope at each element as `other` has it: where float32 rounds an element to the other
        side of 0, as it does to two of arxiv's 21 million, its gradient is another one, and no less right."""
        if self.between is not F.relu:
            return self
        with torch.no_grad():
            above = other.first(x, learnt[0]) > 0
        return replace(self, between=lambda rows: rows * above)


Aggregate = Callable[[Tensor], Tensor]
"""From rows of all nodes to the weighted sums of each one's neighbours."""


@dataclass(frozen=True)
class Network:
    """A network: its layer's text, the sizes of its two layers, what is between, what edges weigh, and the layer in
    PyTorch, of rows, parameters, the graph and the weighted sums where it is one of them."""

    name: str
    text: str
    sizes: tuple[Mapping[str, int], Mapping[str, int]]
    between: Callable[[Tensor], Tensor]
    weights: Callable[[Citations], Tensor] | None
    eager: Callable[[Tensor, Mapping[str, Tensor], Citations, Aggregate], Tensor]
    given: str = ""
    """The layer's input that has what edges weigh."""

    @property
    def classes(self) -> int:
        """What a node's row of logits has."""
        last = self.sizes[1]
        return last["G"] if "G" in last else last["H"] * last["D"]

    def modules(self) -> list[Any]:
        """Its two layers, compiled."""
        return [explorer.compile(self.text, sizes=sizes, on_demand=True).torch() for sizes in self.sizes]

    def ours(self, graph: Citations) -> tuple[Forward, Learnt]:
        """The compiled layers on a graph, and parameters for them, drawn at random."""
        torch.manual_seed(0)
        modules = self.modules()
        device = graph.src.device
        drawn = [{key: each.detach().to(device) for key, each in module.named_parameters()} for module in modules]
        none = torch.zeros_like(graph.src)
        structure = modules[0].prepare(
            **graph.maps, etype=none, ntype=none[:1].expand(graph.nodes), num_nodes=graph.nodes
        )
        own = {self.given: self.weights(graph).float()} if self.given and self.weights else {}

        def layer(module: Any) -> Layer:
            return lambda x, learnt: module(structure, x=x, **own, **learnt)

        return Forward(*map(layer, modules), self.between), drawn

    def in_pytorch(self, graph: Citations, aggregate: Aggregate) -> Forward:
        """The same in PyTorch, with the weighted sums taken so."""

        def layer(x: Tensor, learnt: Mapping[str, Tensor]) -> Tensor:
            return self.eager(x, learnt, graph, aggregate)

        return Forward(layer, layer, self.between)

    def sides(self, graph: Citations) -> tuple[dict[str, Forward], Learnt]:
        """All sides by name, ours first, and the parameters that all start from."""
        forward, learnt = self.ours(graph)
        found = {"ours": forward, "eager": self.in_pytorch(graph, by_index(self, graph, torch.float32))}
        if self.weights:
            found["cuSPARSE"] = self.in_pytorch(graph, by_matrix(*graph.matrix(self.weights(graph).float())))
        return found, learnt


def by_index(network: Network, graph: Citations, kind: torch.dtype) -> Aggregate:
    """Weighted sums by a gather of the sources' rows, a product, and a sum by index."""
    weights = network.weights(graph).to(kind).unsqueeze(1) if network.weights else None

    def aggregate(rows: Tensor) -> Tensor:
        assert weights is not None, "its layer takes no such sums"
        return summed(weights * rows[graph.src], graph.maps, graph.nodes)

    return aggregate


def by_matrix(matrix: Tensor, transposed: Tensor) -> Aggregate:
    """Weighted sums as a sparse matrix times a dense one, and their gradients by its transpose."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: Tensor) -> Tensor:
            return torch.sparse.mm(matrix, rows)

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> Tensor:
            return torch.sparse.mm(transposed, upstream.contiguous())

    def aggregate(rows: Tensor) -> Tensor:
        made: Tensor = Product.apply(rows)
        return made

    return aggregate


def gcn(x: Tensor, learnt: Mapping[str, Tensor], graph: Citations, aggregate: Aggregate) -> Tensor:
    """A layer of GCN."""
    return aggregate(x @ learnt["W"]) + learnt["b"]


def sage(x: Tensor, learnt: Mapping[str, Tensor], graph: Citations, aggregate: Aggregate) -> Tensor:
    """A layer of GraphSAGE."""
    return x @ learnt["own"] + aggregate(x @ learnt["W"]) + learnt["b"]


def gat(x: Tensor, learnt: Mapping[str, Tensor], graph: Citations, aggregate: Aggregate) -> Tensor:
    """A layer of GAT, its heads side by side."""
    y = torch.einsum("nf,hfd->nhd", x, learnt["W"])
    s, t = ((y * learnt[name]).sum(-1) for name in ("from_src", "from_dst"))
    weights = softmax(F.leaky_relu(s[graph.src] + t[graph.dst], 0.2), graph.maps, graph.nodes)
    return summed(weights.unsqueeze(-1) * y[graph.src], graph.maps, graph.nodes).flatten(1) + learnt["b"]


def networks(features: int, hidden: int, classes: int, heads: int) -> tuple[Network, ...]:
    """The three, of these widths; `heads` of GAT's first layer share its width."""
    plain = {"F": features, "G": hidden}, {"F": hidden, "G": classes}
    of_heads = {"F": features, "H": heads, "D": hidden // heads}, {"F": hidden, "H": 1, "D": classes}
    return (
        Network("GCN", SYMMETRIC, plain, F.relu, lambda graph: graph.share, gcn, "share"),
        Network("GraphSAGE", MEAN, plain, F.relu, lambda graph: 1 / graph.degrees[graph.dst], sage),
        Network("GAT", ATTENTION, of_heads, F.elu, None, gat),
    )


class Training:
    """A side that trains on its own copy of the parameters, of a type: a step is forward, the cross-entropy of all
    nodes' labels, backward, and Adam's."""

    def __init__(self, forward: Forward, x: Tensor, labels: Tensor, learnt: Learnt) -> None:
        self.forward, self.x, self.labels = forward, x, labels
        self.learnt = [
            {name: each.detach().to(x.dtype).clone().requires_grad_() for name, each in layer.items()}
            for layer in learnt
        ]
        leaves = [each for layer in self.learnt for each in layer.values()]
        self.optimizer = torch.optim.Adam(leaves, lr=RATE, eps=EPSILON)

    def logits(self) -> Tensor:
        """Without gradients."""
        with torch.no_grad():
            return self.forward(self.x, self.learnt)

    def step(self) -> Tensor:
        """Its loss, from before it, as a tensor that nobody has waited for."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.forward(self.x, self.learnt), self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def gradients(self) -> dict[str, Tensor]:
        """Those of the last step, by layer and name."""
        named = {f"{number}.{name}": each for number, layer in enumerate(self.learnt) for name, each in layer.items()}
        return {name: each.grad for name, each in named.items() if each.grad is not None}


@dataclass(frozen=True)
class Errors:
    """How far a side is from float64: its logits, the gradients of the first step, and the losses of all steps."""

    logits: float
    gradients: float
    losses: float

    @property
    def right(self) -> bool:
        """Whether all are what sums in float32 may be off by; NaN is not."""
        from benchmarks import training
        from benchmarks.gpu_suite.rows import LAYER_TOLERANCE

        of_sums = self.logits <= LAYER_TOLERANCE and self.gradients <= LAYER_TOLERANCE
        return of_sums and self.losses <= training.TOLERANCE


def errors(side: Training, exact: Training, steps: int) -> Errors:
    """A side's errors, from steps that it and the exact one take from the same parameters. Gradients are those of the
    first, with the slopes that the side's ReLU has."""
    from benchmarks.gpu_suite.rows import relative_error

    of_logits = relative_error(side.logits(), exact.logits())
    bent = Training(exact.forward.bent_as(side.forward, side.x, side.learnt), exact.x, exact.labels, exact.learnt)
    bent.step()
    losses = [(float(side.step()), float(exact.step()))]
    of_gradients = largest_of_all(side.gradients(), bent.gradients())
    losses += [(float(side.step()), float(exact.step())) for _ in range(steps - 1)]
    return Errors(of_logits, of_gradients, max(abs(a - b) / abs(b) for a, b in losses))


def largest_of_all(got: Mapping[str, Tensor], want: Mapping[str, Tensor]) -> float:
    """The largest difference of a gradient, relative to its largest value or to LEAST of all gradients' largest: sums
    along what a softmax does not see cancel, and are rounded as their terms are."""
    least = LEAST * max(float(each.abs().max()) for each in want.values())
    return max(
        float((got[name].double() - each).abs().max()) / max(float(each.abs().max()), least)
        for name, each in want.items()
    )
