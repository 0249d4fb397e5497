"""The embedding operations of Ember's Figure 1, each by itself: as rows that `explorer bench gpu`'s measuring takes.

A row draws its indices and tables on the device, generated with the published counts, and has PyTorch's operator beside
the compiled example and float64's values of the first results. Needs PyTorch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gpu_suite.inputs import power_law
from benchmarks.gpu_suite.rows import CHECKED, POPULAR_BYTES, Problem, Row, largest_error
from explorer.runtime.data.attention import EACH, attended
from explorer.runtime.data.triples import HEAD_SKEW, RELATION_SKEW, TAIL_SKEW
from explorer.runtime.torch.programs import TensorProgram
from explorer.runtime.torch.structure import prepare

PYTORCH = "PyTorch"
DEVIATION = 1 / 8
"""Of Gaussian ids, as a share of the table's rows. An assumption: no text has it."""
Drawn = tuple[dict[str, Any], dict[str, Tensor]]
"""The indices that `prepare` takes, and the tensors, by the names of the example's text."""


@dataclass(frozen=True, kw_only=True)
class Lookup(Row):
    """An embedding operation; `size` is the elements of an embedding vector, float32."""

    size: int
    path: ClassVar[str]

    @abstractmethod
    def drawn(self, device: str, seed: int = 0) -> Drawn:
        """The operation's inputs, on a device."""

    @abstractmethod
    def in_pytorch(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Callable[[], Tensor]:
        """The operation as a user of PyTorch has it."""

    @abstractmethod
    def exactly(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        """The first results in float64, CHECKED at most."""

    def program(self) -> TensorProgram:
        """The example at this size."""
        return self.compiled(self.path, {"D": self.size})

    def problem(self, device: str, data: str) -> Problem:
        """The operation beside PyTorch's; `data` is not looked at, since rows draw their own."""
        program = self.program()
        index, tensors = self.drawn(device)

        def check(result: Tensor, gradients: Any) -> float:
            want = self.exactly(index, tensors)
            return largest_error(result[: len(want)], want)

        structure = prepare(program.graph, index, {}, 0, checked=True)
        return Problem(program, structure, tensors, {PYTORCH: self.in_pytorch(index, tensors)}, check)


@dataclass(frozen=True, kw_only=True)
class Bags(Lookup):
    """Sums of the rows of bags of one length: SLS, PyTorch's EmbeddingBag. Ids are uniform, or Gaussian around the
    middle of the table."""

    rows: int
    bags: int
    length: int
    gaussian: bool = False
    path: ClassVar[str] = "embedding/sls"

    def drawn(self, device: str, seed: int = 0) -> Drawn:
        random = torch.Generator(device).manual_seed(seed)
        count = self.bags * self.length
        if self.gaussian:
            places = 0.5 + DEVIATION * torch.randn(count, device=device, generator=random)
            idx = (self.rows * places).long().clamp_(0, self.rows - 1)
        else:
            idx = torch.randint(0, self.rows, (count,), device=device, generator=random)
        ptr = torch.arange(0, count + 1, self.length, device=device)
        return {"ptr": ptr, "idx": idx}, {"T": torch.randn(self.rows, self.size, device=device, generator=random)}

    def in_pytorch(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Callable[[], Tensor]:
        ptr, idx, table = index["ptr"], index["idx"], tensors["T"]
        return lambda: F.embedding_bag(idx, table, ptr, mode="sum", include_last_offset=True)

    def exactly(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        few = index["idx"][: CHECKED * self.length]
        return tensors["T"][few].double().view(-1, self.length, self.size).sum(1)


@dataclass(frozen=True, kw_only=True)
class Blocks(Lookup):
    """Block-sparse attention's gather after BigBird: of each query block of `tokens` the key blocks that it attends to,
    for sequences side by side, of `blocks` each; nothing is computed."""

    sequences: int
    blocks: int
    tokens: int
    path: ClassVar[str] = "embedding/spattn"

    def program(self) -> TensorProgram:
        """The example at this size."""
        return self.compiled(self.path, {"S": self.tokens, "D": self.size})

    def drawn(self, device: str, seed: int = 0) -> Drawn:
        random = np.random.default_rng(seed)
        lists = [
            attended(self.blocks, range(self.blocks), random) + self.blocks * number for number in range(self.sequences)
        ]
        picks = torch.from_numpy(np.concatenate(lists)).to(device)
        ptr = torch.arange(0, picks.numel() + 1, EACH, device=device)
        count = self.sequences * self.blocks
        keys = torch.randn(
            count, self.tokens, self.size, device=device, generator=torch.Generator(device).manual_seed(seed)
        )
        return {"ptr": ptr, "blocks": picks.flatten(), "num_blocks": count}, {"K": keys}

    def in_pytorch(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Callable[[], Tensor]:
        picks, keys = index["blocks"], tensors["K"]
        return lambda: keys.index_select(0, picks)

    def exactly(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        return tensors["K"][index["blocks"][:CHECKED].long()].double()


@dataclass(frozen=True, kw_only=True)
class Facts(Lookup):
    """The lookup of a knowledge graph's triples with what Ember's Table 1 computes: the squared norm of head and
    relation without tail. Ends and relations are as busy as in generated triples."""

    entities: int
    relations: int
    batch: int
    path: ClassVar[str] = "embedding/kg_lookup"

    def program(self) -> TensorProgram:
        """The example at this size, for its batch."""
        return self.compiled(self.path, {"D": self.size}, {"batch": self.batch})

    def drawn(self, device: str, seed: int = 0) -> Drawn:
        random = torch.Generator(device).manual_seed(seed)
        of = {"h": (self.entities, HEAD_SKEW), "r": (self.relations, RELATION_SKEW), "t": (self.entities, TAIL_SKEW)}
        index = {name: power_law(count, self.batch, skew, random) for name, (count, skew) in of.items()}
        rows = {"E": self.entities, "R": self.relations}
        tables = {name: torch.randn(n, self.size, device=device, generator=random) for name, n in rows.items()}
        return index, tables

    def in_pytorch(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Callable[[], Tensor]:
        def distances() -> Tensor:
            u = tensors["E"][index["h"]] + tensors["R"][index["r"]] - tensors["E"][index["t"]]
            return (u * u).sum(-1)

        return distances

    def exactly(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        rows = [tensors[name][index[by][:CHECKED]].double() for name, by in (("E", "h"), ("R", "r"), ("E", "t"))]
        return (rows[0] + rows[1] - rows[2]).square().sum(-1)


@dataclass(frozen=True, kw_only=True)
class Sums(Lookup):
    """Weighted sums of the rows of a graph's neighbours: SpMM, PyTorch's product with cuSPARSE. Degrees follow power
    laws, `skews` of rows and columns."""

    nodes: int
    edges: int
    skews: tuple[float, float]
    path: ClassVar[str] = "embedding/spmm"

    def program(self) -> TensorProgram:
        """The example for such a graph; rows that are gathered most often are marked where the table is large."""
        counts = {"rows": self.nodes, "cols": self.nodes, "nonzeros": self.edges}
        return self.compiled(self.path, {"D": self.size}, counts, popular=4 * self.nodes * self.size > POPULAR_BYTES)

    def drawn(self, device: str, seed: int = 0) -> Drawn:
        random = torch.Generator(device).manual_seed(seed)
        row, col = (power_law(self.nodes, self.edges, skew, random) for skew in self.skews)
        row, order = torch.sort(row)
        ptr = torch.searchsorted(row, torch.arange(self.nodes + 1, device=device), out_int32=True)
        value = torch.rand(self.edges, device=device, generator=random)
        x = torch.randn(self.nodes, self.size, device=device, generator=random)
        return {"rowptr": ptr, "col": col[order].int(), "num_cols": self.nodes}, {"X": x, "value": value}

    def matrix(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        """The graph as PyTorch's sparse matrix."""
        shape = (self.nodes, self.nodes)
        return torch.sparse_csr_tensor(index["rowptr"], index["col"], tensors["value"], shape)

    def in_pytorch(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Callable[[], Tensor]:
        matrix = self.matrix(index, tensors)
        return lambda: torch.sparse.mm(matrix, tensors["X"])

    def exactly(self, index: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
        few = index["rowptr"][: CHECKED + 1].long()
        entries = slice(0, int(few[-1]))
        rows = torch.repeat_interleave(torch.arange(len(few) - 1, device=few.device), few.diff())
        terms = tensors["value"][entries].double().unsqueeze(1) * tensors["X"][index["col"][entries].long()].double()
        return terms.new_zeros(len(few) - 1, self.size).index_add_(0, rows, terms)
