"""The rows of the GPU suite: each a kernel at a size, how its inputs are made on the device, and what it is held to.

Targets and what hand-written kernels reach are issue 5's table, measured on an H100. Sizes are fields, so that tests
make the same rows small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

import explorer
from benchmarks.gpu_suite import libraries, peers
from benchmarks.gpu_suite.inputs import EXAMPLES, away_from_corners, drawn, knowledge_graph, power_law, relational_graph
from explorer.compiler.options import Options
from explorer.runtime.data.graphs import graph_counts
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.targets.gpu.device import NoGpu, current_device
from explorer.runtime.torch.programs import TensorProgram
from explorer.runtime.torch.structure import DTYPES, Structure, prepare

TOLERANCES = {"float32": 1e-5, "tf32x3": 2e-5, "tf32": 5e-3}
"""Of scores, by what products are multiplied in."""
SHOWN = {"float32": "", "tf32x3": " 3xTF32", "tf32": " TF32"}
LAYER_TOLERANCE = 1e-4
"""Sums over a node's edges, and over the rows that a gradient adds up, have more terms."""
LAYER_TOLERANCES = {"float32": LAYER_TOLERANCE, "tf32x3": LAYER_TOLERANCE, "tf32": 8e-3}
CHECKED = 256
"""Rows, or nonzeros, whose float64 values are computed where all would take too long."""
POPULAR_BYTES = 200_000_000
"""A table from which on an inspector marks the rows that are gathered most often: four times the L2 cache."""
NEGATIVES = 64
"""Corrupted triples for each of a batch's, which share its head and relation (cuKE §VII-B)."""
KNOWLEDGE_GRAPH = {"nodes": 14_541, "edges": 620_232, "etypes": 474, "src_pairs": 161_922, "dst_pairs": 161_922}
"""FB15k-237 with the inverse of every triple, counted."""
MOST_PLAIN_BYTES = 20 << 30
"""A plain expression that would make more than this is left out."""

Tensor = torch.Tensor


@dataclass(eq=False)
class Problem:
    """A row made ready: `check` gives the error of a result (and gradients) against float64."""

    program: TensorProgram
    structure: Structure
    tensors: dict[str, Tensor]
    peers: dict[str, peers.Run]
    check: Callable[[Tensor, Mapping[str, Tensor]], float]
    compiled: dict[str, peers.Run] = field(default_factory=dict)  # peers that their first call compiles
    note: str = ""  # on the inputs

    @property
    def counts(self) -> dict[str, int]:
        """The sizes of all sets."""
        counts = dict(self.structure.counts)
        for tensor in self.program.graph.tensors:
            if tensor.name in self.tensors:
                counts.update(zip(tensor.sets, self.tensors[tensor.name].shape, strict=False))
        for entry in self.program.graph.maps:
            counts.setdefault(entry.codomain, self.structure.highest.get(entry.name, -1) + 1)
        return counts


@dataclass(frozen=True, kw_only=True)
class Row(ABC):
    """A line of the table. `target_ms` is what ours may take; `of_peer` the share of the time of the peer `against`
    (by default the fastest), `of_row` that of another row of ours; `hand_ms` what hand-written kernels take.
    `precision` is the compiler's option."""

    name: str
    tolerance: float = LAYER_TOLERANCE
    target_ms: float | None = None
    of_peer: float | None = None
    against: str = ""
    of_row: tuple[str, float] | None = None
    hand_ms: float | None = None
    precision: str = "float32"

    @abstractmethod
    def program(self) -> TensorProgram:
        """The row's compiled program."""

    @abstractmethod
    def problem(self, device: str, data: str) -> Problem:
        """The row's inputs on a device, with `data` as the knowledge graph."""

    def compiled(
        self, path: str, sizes: Mapping[str, int], counts: Mapping[str, int] | None = None, **options: str | int
    ) -> TensorProgram:
        """An example at these sizes, for data of such counts. Raises ValueError where it has no CUDA."""
        return self.program_of((EXAMPLES / f"{path}.emb").read_text(), sizes, counts, **options)

    def program_of(
        self, text: str, sizes: Mapping[str, int], counts: Mapping[str, int] | None = None, **options: str | int
    ) -> TensorProgram:
        """The same of a text."""
        chosen: dict[str, str | int] = {"precision": self.precision, "arch": architecture(), **options}
        made = explorer.compile(text, sizes=sizes, options=chosen, counts=counts, on_demand=True)
        if not made.ok:
            raise ValueError("; ".join(diagnostic.message for diagnostic in made.diagnostics))
        if not made.stages["cuda"].available:
            raise ValueError(made.stages["cuda"].reason)
        return TensorProgram.of(made, made.options.grad)


@dataclass(frozen=True, kw_only=True)
class ScoreRow(Row):
    """A score on a batch of triples that are drawn from the knowledge graph; with `negatives`, of so many triples for
    each, whose tails are any entities."""

    model: str
    size: int = 512
    batch: int = 16_384
    negatives: int = 0
    checked: int = CHECKED

    def program(self, **options: str | int) -> TensorProgram:
        """The score with all its dimensions of the row's size, for its batch, by options of the compiler."""
        names = explorer.compile((EXAMPLES / "kge" / f"{self.model}.emb").read_text(), on_demand=True).sizes
        chosen = {"negatives": f"tail:{self.negatives}" if self.negatives else "none", **options}
        sizes, counts = dict.fromkeys(names, self.size), {"batch": self.batch}
        return self.compiled(f"kge/{self.model}", sizes, counts, **chosen)

    def problem(self, device: str, data: str) -> Problem:
        """Tables of random rows; the matrices keep rows at their length."""
        program = self.program()
        triples = knowledge_graph(data)
        random = np.random.default_rng(0)
        rows = random.integers(0, len(triples.h), self.batch)
        ids = {"h": triples.h[rows], "r": triples.r[rows], "t": triples.t[rows]}
        if self.negatives:
            ids["t"] = random.integers(0, triples.num_entities, (self.batch, self.negatives))
        index = {name: torch.from_numpy(each).long().to(device) for name, each in ids.items()}
        counts = {"entity": triples.num_entities, "relation": triples.num_relations}
        tensors = drawn(program.graph, counts, device)
        of_relations = {tensor.name for tensor in program.graph.tensors if tensor.sets == ("relation",)}
        eager = peers.SCORES[self.model]
        h, r, t = (each if each.dim() == index["t"].dim() else each.unsqueeze(1) for each in index.values())

        def check(result: Tensor, gradients: Mapping[str, Tensor]) -> float:
            few = [ids[: self.checked] for ids in (h, r, t)]
            relations = few[1].flatten()
            wide = {name: (v[relations] if name in of_relations else v).double() for name, v in tensors.items()}
            own = torch.arange(len(relations), device=device).view_as(few[1])
            return relative_error(result[: self.checked], eager(wide, few[0], own, few[2]))

        compiled = torch.compile(lambda h, r, t: eager(tensors, h, r, t))
        theirs = {} if self.negatives else libraries.scores(self.model, tensors, h, r, t)
        return Problem(
            program=program,
            structure=prepare(program.graph, index, {}, self.negatives, checked=True),
            tensors=tensors,
            peers={"eager": lambda: eager(tensors, h, r, t), **theirs},
            check=check,
            compiled={
                "TorchScript": peers.torch_script(self.model, tensors, h, r, t),
                "torch.compile": lambda: compiled(h, r, t),
            },
        )


@dataclass(frozen=True, kw_only=True)
class LayerRow(Row):
    """A layer on a graph: "" is the knowledge graph with the inverse of every triple, others are presets."""

    model: str
    graph: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    training: bool = False

    def program(self) -> TensorProgram:
        """The layer, with its backward pass if it trains."""
        counts = graph_counts(self.graph) if self.graph else KNOWLEDGE_GRAPH
        return self.compiled(f"rgnn/{self.model}", dict(self.sizes), counts, grad=self.training)

    def problem(self, device: str, data: str) -> Problem:
        """Random features and weights; attention vectors that PyTorch Geometric has once are the same for all types."""
        program = self.program()
        structure, edges = relational_graph(self.graph, data, device)
        tensors, note = self._drawn(program, structure, edges, device)
        upstream = next(iter(upstream_names(program.graph)), "")
        given = {name: tensor for name, tensor in tensors.items() if name != upstream}
        plain = peers.LAYERS[self.model]

        def check(result: Tensor, gradients: Mapping[str, Tensor]) -> float:
            exact = {name: v.double().requires_grad_(name in gradients) for name, v in given.items()}
            with torch.set_grad_enabled(bool(gradients)):
                want = plain(exact, edges)
            errors = [relative_error(result, want.detach())]
            if gradients:
                want.backward(tensors[upstream].double())
                errors += [largest_error(gradients[name], exact[name].grad) for name in gradients]
            return max(errors)

        runs = peers.pyg_layers(self.model, given, edges, self.training)
        if not self.training:
            runs["loop of products"] = lambda: plain(given, edges)
        return Problem(program=program, structure=structure, tensors=tensors, peers=runs, check=check, note=note)

    def _drawn(
        self, program: TensorProgram, structure: Structure, edges: peers.Edges, device: str
    ) -> tuple[dict[str, Tensor], str]:
        """The tensors, of which gradients exist, and a note on how they were found."""

        def draw(seed: int) -> dict[str, Tensor]:
            tensors = drawn(program.graph, structure.counts, device, seed)
            for name in {"w_s", "w_t"} & tensors.keys():
                tensors[name][:] = tensors[name][:1]
            return tensors

        if not self.training:
            return draw(0), ""
        return away_from_corners(draw, lambda tensors: peers.LAYERS[self.model](tensors, edges))


@dataclass(frozen=True, kw_only=True)
class BagRow(Row):
    """Sums of the rows of bags of one length; ids are uniform, or as skewed as Zipf's law with exponent 1.05. The table
    is stored as `storage` says; PyTorch's sums are then of that type too."""

    rows: int
    size: int
    bags: int
    length: int
    skewed: bool = False
    storage: str = "f32"

    def program(self) -> TensorProgram:
        """SLS at the row's size."""
        text = (EXAMPLES / "embedding" / "sls.emb").read_text().replace("T[row, D]", f"T[row, D]: {self.storage}")
        return self.program_of(text, {"D": self.size})

    def problem(self, device: str, data: str) -> Problem:
        """int64 indices as a user of PyTorch has them; ours are narrowed to int32 before the clock runs."""
        program = self.program()
        count = self.bags * self.length
        random = torch.Generator(device).manual_seed(0)
        if self.skewed:
            ids = np.random.default_rng(0).zipf(1.05, count) % self.rows
            idx = torch.from_numpy(ids.astype(np.int64)).to(device)
        else:
            idx = torch.randint(0, self.rows, (count,), device=device, generator=random)
        ptr = torch.arange(0, count + 1, self.length, device=device)
        table = torch.randn(self.rows, self.size, device=device, generator=random).to(DTYPES[self.storage])

        def check(result: Tensor, gradients: Mapping[str, Tensor]) -> float:
            few = idx[: min(self.bags, CHECKED) * self.length]
            want = table[few].double().view(-1, self.length, self.size).sum(1)
            return largest_error(result[: len(want)], want)

        runs = peers.bags(table, ptr, idx, self.length) | libraries.bags(table, ptr, idx)
        compiled = {"torch.compile": runs.pop("torch.compile")}
        structure = prepare(program.graph, {"ptr": ptr, "idx": idx}, {}, 0, checked=True)
        return Problem(program, structure, {"T": table}, runs, check, compiled)


@dataclass(frozen=True, kw_only=True)
class MatrixRow(Row):
    """SpMM or SDDMM on a square matrix whose rows' and columns' numbers of nonzeros follow a power law."""

    model: str
    nodes: int
    nonzeros: int
    size: int
    exponent: ClassVar[float] = 0.8

    def program(self) -> TensorProgram:
        """The op for a matrix of the row's size; with the compiler's option `popular` where tables are large."""
        counts = {"rows": self.nodes, "cols": self.nodes, "nonzeros": self.nonzeros}
        popular = 4 * self.nodes * self.size > POPULAR_BYTES
        return self.compiled(f"embedding/{self.model}", {"D": self.size}, counts, popular=popular)

    def problem(self, device: str, data: str) -> Problem:
        """Dense rows at random, values in 0 to 1."""
        program = self.program()
        random = torch.Generator(device).manual_seed(0)
        col, row = (power_law(self.nodes, self.nonzeros, self.exponent, random) for _ in range(2))
        row, order = torch.sort(row)
        col = col[order].int()
        ptr = torch.searchsorted(row, torch.arange(self.nodes + 1, device=device), out_int32=True)
        dense = [torch.randn(self.nodes, self.size, device=device, generator=random) for _ in range(2)]
        value = torch.rand(self.nonzeros, device=device, generator=random)
        given = {"rowptr": ptr, "col": col, "num_cols": self.nodes}
        structure = prepare(program.graph, given, {}, 0, checked=True)
        if self.model == "spmm":
            tensors = {"X": dense[0], "value": value}
            runs = peers.sparse_product(ptr, col, value, dense[0])
            runs |= libraries.sparse_product(ptr, col, value, dense[0])
        else:
            tensors = {"X": dense[0], "Y": dense[1], "value": value}
            runs = peers.sampled_product(ptr, col, value, *dense) | libraries.sampled_product(ptr, col, value, *dense)
            if 3 * 4 * self.nonzeros * self.size < MOST_PLAIN_BYTES:
                runs["eager"] = lambda: value * (dense[0][row] * dense[1][col]).sum(-1)

        def check(result: Tensor, gradients: Mapping[str, Tensor]) -> float:
            few = torch.randint(0, len(result), (CHECKED,), device=device, generator=random)
            if self.model == "sddmm":
                want = value[few].double() * (dense[0][row[few]].double() * dense[1][col[few]].double()).sum(-1)
                return largest_error(result[few], want)
            want = torch.stack([_row_of_product(int(place), ptr, col, value, dense[0]) for place in few])
            return largest_error(result[few], want)

        return Problem(program, structure, tensors, runs, check)


def _row_of_product(place: int, ptr: Tensor, col: Tensor, value: Tensor, x: Tensor) -> Tensor:
    own = slice(int(ptr[place]), int(ptr[place + 1]))
    return value[own].double() @ x[col[own]].double()


def relative_error(got: Tensor, want: Tensor) -> float:
    """The largest difference, each relative to its own value or to the mean one, whichever is larger."""
    size = want.abs()
    return float(((got.double() - want).abs() / size.clamp(min=float(size.mean()) + 1e-300)).max())


def largest_error(got: Tensor, want: Tensor) -> float:
    """The largest difference relative to the largest value: of long sums, whose terms cancel."""
    return float((got.double() - want).abs().max() / want.abs().max().clamp(min=1e-300))


def architecture() -> str:
    """What rows are compiled for: this device; where there is none, what the options say."""
    try:
        return current_device().compile_for
    except NoGpu:
        return Options().arch


def _score(
    shown: str, model: str, target_ms: float, hand_ms: float, size: int = 512, precision: str = "float32"
) -> Row:
    return ScoreRow(
        name=shown + ("" if size == 512 else f" {size}") + SHOWN[precision],
        model=model,
        size=size,
        tolerance=TOLERANCES[precision],
        precision=precision,
        target_ms=target_ms,
        hand_ms=hand_ms,
        checked=CHECKED if size == 512 else CHECKED // 4,
    )


def _layer(
    model: str,
    graph: str,
    target_ms: float,
    hand_ms: float | None = None,
    training: bool = False,
    precision: str = "float32",
) -> Row:
    sizes = {"hgt": (("F", 64), ("H", 1), ("D", 64))}.get(model, (("F", 64), ("G", 64)))
    words = [model.upper(), graph or "fb15k", "training" if training else "inference"]
    return LayerRow(
        name=" ".join(words) + SHOWN[precision],
        model=model,
        graph=graph,
        sizes=sizes,
        training=training,
        tolerance=LAYER_TOLERANCES[precision],
        precision=precision,
        target_ms=target_ms,
        hand_ms=hand_ms,
    )


SHAPES = {
    "arxiv": (169_343, 1_166_243, 128),
    "products": (2_449_029, 61_859_140, 100),
    "proteins": (132_534, 39_561_252, 128),
}
"""Nodes, edges and the features of the graphs of G-Sparse's evaluation, as OGB publishes them."""

ROWS: tuple[Row, ...] = (
    _score("TransE", "transe_l2", 0.019, 0.0177),
    _score("TransH", "transh", 0.021, 0.0200),
    _score("TransF", "transf", 0.019, 0.0176),
    _score("TransR", "transr", 0.30, 0.290),
    _score("TransR", "transr", 0.21, 0.200, precision="tf32x3"),
    _score("TransR", "transr", 0.17, 0.162, precision="tf32"),
    _score("RESCAL", "rescal", 0.30, 0.272),
    _score("RESCAL", "rescal", 0.21, 0.191, precision="tf32x3"),
    _score("RESCAL", "rescal", 0.17, 0.154, precision="tf32"),
    _score("TransR", "transr", 1.02, 0.97, size=1024),
    _score("TransR", "transr", 0.75, 0.70, size=1024, precision="tf32x3"),
    _score("TransR", "transr", 0.60, 0.575, size=1024, precision="tf32"),
    *(
        ScoreRow(
            name=f"{model} tail:{NEGATIVES}",
            model=path,
            batch=1_024,
            negatives=NEGATIVES,
            checked=32,
            tolerance=TOLERANCES["float32"],
            of_peer=1.0,
        )
        for model, path in (("TransE", "transe_l2"), ("TransR", "transr"))
    ),
    _layer("rgcn", "", 0.080, 0.071),
    _layer("rgcn", "", 0.080, 0.055, precision="tf32"),
    _layer("rgcn", "", 0.30, training=True),
    _layer("rgat", "", 0.105, 0.095),
    _layer("rgat", "", 0.105, 0.081, precision="tf32"),
    _layer("rgat", "", 0.45, training=True),
    _layer("hgt", "", 0.20),
    _layer("hgt", "", 0.8, training=True),
    _layer("rgcn", "biokg", 0.5),
    _layer("rgcn", "am", 1.5),
    BagRow(
        name="SLS RM1",
        rows=16_384,
        size=32,
        bags=64 * 132,
        length=64,
        of_peer=0.5,
        against="EmbeddingBag",
        hand_ms=0.0162,
    ),
    BagRow(
        name="SLS RM2",
        rows=16_384,
        size=64,
        bags=32 * 132,
        length=128,
        of_peer=0.42,
        against="EmbeddingBag",
        hand_ms=0.0235,
    ),
    BagRow(
        name="SLS RM3",
        rows=16_384,
        size=128,
        bags=16 * 132,
        length=256,
        of_peer=0.4,
        against="EmbeddingBag",
        hand_ms=0.0424,
    ),
    BagRow(name="SLS 4M uniform", rows=4_000_000, size=128, bags=65_536, length=64, target_ms=0.78, hand_ms=0.753),
    BagRow(
        name="SLS 4M zipf", rows=4_000_000, size=128, bags=65_536, length=64, skewed=True, target_ms=0.50, hand_ms=0.470
    ),
    *(
        BagRow(
            name=f"SLS 4M {ids} {storage}",
            rows=4_000_000,
            size=128,
            bags=65_536,
            length=64,
            skewed=ids == "zipf",
            storage=storage,
            of_row=(f"SLS 4M {ids}", 0.55),
        )
        for ids in ("uniform", "zipf")
        for storage in ("f16", "bf16")
    ),
    *(
        MatrixRow(name=f"SpMM {name}", model="spmm", nodes=nodes, nonzeros=edges, size=size, of_peer=1.0, hand_ms=hand)
        for (name, (nodes, edges, size)), hand in zip(SHAPES.items(), (0.127, 6.73, 2.21), strict=True)
    ),
    *(
        MatrixRow(
            name=f"SDDMM {name}",
            model="sddmm",
            nodes=nodes,
            nonzeros=edges,
            size=size,
            of_row=(f"SpMM {name}", 1.1),
            hand_ms=hand,
        )
        for (name, (nodes, edges, size)), hand in zip(SHAPES.items(), (0.129, 8.02, 2.21), strict=True)
    ),
)


def smaller(row: Row) -> Row:
    """The same row in seconds instead of minutes: for a first look, and for tests of what it does."""
    match row:
        case ScoreRow():
            return replace(
                row, size=min(row.size, 64), batch=min(row.batch, 512), negatives=min(row.negatives, 4), checked=64
            )
        case LayerRow():
            return replace(row, graph="small")
        case BagRow():
            return replace(row, rows=1_000, bags=64, length=min(row.length, 16))
        case MatrixRow():
            return replace(row, nodes=1_000, nonzeros=20_000, size=min(row.size, 32))
    return row
