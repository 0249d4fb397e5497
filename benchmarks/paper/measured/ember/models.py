"""The nine models of Ember's Figure 1 as PyTorch has them, whole: what surrounds their embedding operations.

The paper's own are "highly-optimized models from the literature", of which it gives the kinds, inputs and layers' sizes
(§2.2, Table 2). These are plain forward passes of the same kinds in float32, without gradients, that run each lookup
within a range of the profiler's. Needs PyTorch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import record_function

from benchmarks.paper.measured.ember.lookups import Bags, Blocks, Facts, Lookup, Sums
from explorer.runtime.data.attention import TOKENS
from explorer.runtime.data.matrices import MATRIX_PRESETS

EMBEDDING = "embedding"
"""The range that lookups run in."""
Forward = Callable[[], Tensor]


def looked_up(lookup: Callable[[], Tensor]) -> Tensor:
    """What a lookup gives, within its range."""
    with record_function(EMBEDDING):
        return lookup()


class Weights:
    """Draws what is learnt: of layers the matrices are divided by the root of what a product with them sums over."""

    def __init__(self, device: str) -> None:
        self._random = torch.Generator(device).manual_seed(1)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, device=self._random.device, generator=self._random)

    def layer(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """A matrix and a bias as F.linear takes them, from `rows` features to `columns`."""
        return self.normal(columns, rows) * rows**-0.5, self.normal(columns)

    def layers(self, widths: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """A network's layers, from each width to the next."""
        return [self.layer(*each) for each in pairwise(widths)]


def perceptron(rows: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Layers with ReLU between them, and none behind the last."""
    *hidden, last = layers
    for layer in hidden:
        rows = F.linear(rows, *layer).relu()
    return F.linear(rows, *last)


@dataclass(frozen=True)
class Model(ABC):
    """A model around an embedding operation, whose name it has."""

    lookup: Lookup

    @property
    def name(self) -> str:
        """As the figure has it."""
        return self.lookup.name

    @abstractmethod
    def ready(self, device: str) -> Forward:
        """The whole forward pass on inputs of its own."""


@dataclass(frozen=True)
class Recommendation(Model):
    """DLRM (Naumov et al. 2019): a network of dense features, bags of `tables`, the products of all pairs of these, and
    a network of the products. Widths are those of its example for Criteo's terabyte."""

    lookup: Bags
    tables: int = 26
    dense: tuple[int, ...] = (13, 512, 256)
    top: tuple[int, ...] = (512, 512, 256, 1)

    def ready(self, device: str) -> Forward:
        weights, bags = Weights(device), self.lookup
        bottom = weights.layers((*self.dense, bags.size))
        vectors = 1 + self.tables
        left, right = torch.tril_indices(vectors, vectors, -1, device=device)
        top = weights.layers((bags.size + len(left), *self.top))
        x = weights.normal(bags.bags, self.dense[0])
        sums = [bags.in_pytorch(*bags.drawn(device, seed)) for seed in range(self.tables)]

        def forward() -> Tensor:
            dense = perceptron(x, bottom).relu()
            found = torch.stack([dense, *map(looked_up, sums)], 1)
            pairs = torch.bmm(found, found.transpose(1, 2))[:, left, right]
            return perceptron(torch.cat([dense, pairs], 1), top).sigmoid()

        return forward


@dataclass(frozen=True)
class Attention(Model):
    """An encoder layer of BigBird (Zaheer et al. 2020), `heads` a sequence: keys and values of the blocks that a block
    of queries attends to are gathered, then multiplied. Blocks that all see see no more than others here."""

    lookup: Blocks
    heads: int = 12

    def ready(self, device: str) -> Forward:
        weights, gather = Weights(device), self.lookup
        batch, tokens = gather.sequences // self.heads, gather.blocks * gather.tokens
        width = self.heads * gather.size
        inner, out, grown, back = (
            weights.layer(*each)
            for each in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
        )
        x = weights.normal(batch * tokens, width)
        index, _ = gather.drawn(device)
        like = (gather.sequences * gather.blocks, gather.tokens, gather.size)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k, v = (looked_up(gather.in_pytorch(index, {"K": rows})).view(len(q), -1, gather.size) for rows in (k, v))
            shares = (torch.bmm(q, k.transpose(1, 2)) * gather.size**-0.5).softmax(-1)
            return torch.bmm(shares, v)

        def forward() -> Tensor:
            parts = F.linear(x, *inner).view(batch, tokens, 3, self.heads, gather.size)
            q, k, v = (each.reshape(like) for each in parts.permute(2, 0, 3, 1, 4).contiguous())
            heads = attend(q, k, v).view(batch, self.heads, tokens, gather.size).transpose(1, 2)
            seen = F.layer_norm(x + F.linear(heads.reshape(x.shape), *out), (width,))
            return F.layer_norm(seen + F.linear(F.gelu(F.linear(seen, *grown)), *back), (width,))

        return forward


@dataclass(frozen=True)
class Completion(Model):
    """TransE (Bordes et al. 2013): the distances of a batch's triples."""

    lookup: Facts

    def ready(self, device: str) -> Forward:
        index, tables = self.lookup.drawn(device)

        def row(table: str, by: str) -> Tensor:
            return looked_up(lambda: tables[table].index_select(0, index[by]))

        return lambda: (row("E", "h") + row("R", "r") - row("E", "t")).norm(dim=-1)


@dataclass(frozen=True)
class Convolutions(Model):
    """GCN (Kipf and Welling 2017) of the widths in Table 2: in each layer the weighted sums of neighbours' rows, then a
    product."""

    lookup: Sums
    widths: tuple[int, ...] = ()

    def ready(self, device: str) -> Forward:
        index, tensors = self.lookup.drawn(device)
        matrix, x = self.lookup.matrix(index, tensors), tensors["X"]
        first, *others = Weights(device).layers((self.lookup.size, *self.widths))

        def convolved(rows: Tensor, layer: tuple[Tensor, Tensor]) -> Tensor:
            return F.linear(looked_up(lambda: torch.sparse.mm(matrix, rows)), *layer)

        def forward() -> Tensor:
            rows = convolved(x, first)
            for layer in others:
                rows = convolved(rows.relu(), layer)
            return rows

        return forward


LENGTH, BATCH, ROWS, WIDTH = 64, 2_048, 1_000_000, 64
"""Of a DLRM: lookups a bag and bags a table, rows of a table ("millions of entries", §2.2.1) and their elements."""
TRIPLES = 16_384
RELATIONS = {"biokg": 51, "wikikg2": 535}
"""As OGB counts them; entities, nodes and edges are those of the presets."""
WIDTHS = {"arxiv": (256, 256, 40), "mag": (256, 349), "products": (256, 256, 47), "proteins": (256, 256, 112)}
"""Table 2, behind the width of the inputs."""
SEQUENCES, HEADS, BLOCK, HEAD = 4, 12, 64, 64
"""Of BigBird's base model: sequences here, their heads, the tokens of a block and the elements of a head."""


def _bags(name: str, **more: Any) -> Recommendation:
    return Recommendation(Bags(name=name, size=WIDTH, rows=ROWS, bags=BATCH, length=LENGTH, **more))


def _facts(name: str, relations: int) -> Completion:
    preset = MATRIX_PRESETS[name]
    row = Facts(name=f"kg_{name}", size=preset.elements, entities=preset.vertices, relations=relations, batch=TRIPLES)
    return Completion(row)


def _sums(name: str, widths: tuple[int, ...]) -> Convolutions:
    preset = MATRIX_PRESETS[name]
    skews = preset.row_skew, preset.col_skew
    row = Sums(name=f"gnn_{name}", size=preset.elements, nodes=preset.vertices, edges=preset.edges, skews=skews)
    return Convolutions(row, widths)


MODELS: tuple[Model, ...] = (
    _bags("dlrm_uni"),
    _bags("dlrm_gau", gaussian=True),
    Attention(
        Blocks(name="llm_bigbird", size=HEAD, sequences=SEQUENCES * HEADS, blocks=TOKENS // BLOCK, tokens=BLOCK), HEADS
    ),
    *(_facts(name, relations) for name, relations in RELATIONS.items()),
    *(_sums(name, widths) for name, widths in WIDTHS.items()),
)
"""In the figure's order."""
