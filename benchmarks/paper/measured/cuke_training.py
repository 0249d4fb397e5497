"""cuKE's Figure 11: an iteration of training, ours beside eager PyTorch, and the share of the score in it.

An iteration has the scores of a batch, half of which have a corrupted tail, the mean of their softplus, its gradients,
and Adagrad's step of the rows that the batch touched, as DGL-KE takes it. The step is the same on both sides; eager
PyTorch stands twice, with dense gradients and with sparse ones (`embedding(sparse=True)`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.cuke_times import MODELS
from benchmarks.paper.measured.rows import MeasuredRows, reasons

BATCH, SIZE = 4_096, 512
GRAPHS = {"FB15k": tuple(MODELS), "FB15k-237": ("TransR", "RESCAL"), "BioKG": ("TransR",), "WN18": ("TransR",)}
"""What is trained on which graph: all on the first, so that few kernels are made; what is widest on the others."""
SIMILARITIES = ("TransF", "RESCAL")
"""Scores that are to be high for true triples; the others are distances."""
RATE, EPSILON = 0.1, 1e-10
"""Adagrad's, as DGL-KE has them."""
TOLERANCE = 1e-4
"""How far a gradient may be from the one in float64, of its largest element: sums of up to BATCH terms."""
OURS, DENSE, SPARSE = "ours", "eager", "eager, sparse"
SIDES = (OURS, DENSE, SPARSE)
SCORE = " score"
FASTER, SHARE = (1.3, 2.3), (50.0, 80.0)
"""Figure 11, and §I of DGL-KE's time of which the score takes so many %."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The triples of an iteration, what the loss multiplies their scores by, and the tables with the set of each."""

    h: Any
    r: Any
    t: Any
    signs: Any
    tables: Mapping[str, Any]
    owners: Mapping[str, str]

    def touched(self, tables: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """By table the rows that the batch touched, each once, and the gradient's."""
        import torch

        rows = {"entity": torch.unique(torch.cat((self.h, self.t))), "relation": torch.unique(self.r)}
        return {name: (rows[self.owners[name]], table.grad[rows[self.owners[name]]]) for name, table in tables.items()}


def coalesced(tables: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The same of sparse gradients, which have no other rows."""
    summed = {name: table.grad.coalesce() for name, table in tables.items()}
    return {name: (each.indices()[0], each.values()) for name, each in summed.items()}


@dataclass(frozen=True, eq=False)
class Side:
    """One way to train: the batch's scores, the tables that it learns, which rows of these the batch touched, and what
    Adagrad has added up of each."""

    score: Callable[[], Any]
    signs: Any
    tables: Mapping[str, Any]
    touched: Callable[[Mapping[str, Any]], Mapping[str, tuple[Any, Any]]]
    sums: dict[str, Any] = field(default_factory=dict)

    def gradients(self) -> None:
        """Those of the loss, left with the tables."""
        from torch.nn.functional import softplus

        self._forget()
        softplus(self.signs * self.score()).mean().backward()

    def score_alone(self) -> None:
        """The scores and their gradients, without a loss."""
        self._forget()
        self.score().sum().backward()

    def iteration(self) -> None:
        """One step of training."""
        import torch

        self.gradients()
        with torch.no_grad():
            for name, (rows, gradient) in self.touched(self.tables).items():
                if name not in self.sums:
                    self.sums[name] = torch.zeros_like(self.tables[name])
                step(self.tables[name], self.sums[name], rows, gradient)

    def _forget(self) -> None:
        for table in self.tables.values():
            table.grad = None


def step(table: Any, sums: Any, rows: Any, gradient: Any) -> None:
    """Adagrad's step of some rows, all different: the squares of gradients are added up, and divide."""
    added = sums[rows] + gradient.square()
    sums[rows] = added
    table.index_add_(0, rows, gradient / added.sqrt_().add_(EPSILON), alpha=-RATE)


class SparseRows:
    """A table whose gradient has the rows that were asked for alone."""

    def __init__(self, table: Any) -> None:
        self.flat = table.detach().flatten(1).requires_grad_()
        self.dims = table.shape[1:]

    def __getitem__(self, ids: Any) -> Any:
        from torch.nn.functional import embedding

        return embedding(ids, self.flat, sparse=True).view(*ids.shape, *self.dims)


def module(name: str) -> Any:
    """A score as a module that is given its tables."""
    return on_gpu.module(f"kge/{MODELS[name]}", SIZE)


def code() -> list[Code]:
    """What is trained."""
    return [partial(on_gpu.module_code, f"kge/{model}", SIZE, True, {}) for model in MODELS.values()]


def drawn(name: str, data: str) -> Batch:
    """A batch of a graph's triples, the tails of its second half corrupted, and tables of random rows."""
    import torch

    from benchmarks.gpu_suite.inputs import drawn as random_tensors
    from benchmarks.gpu_suite.inputs import knowledge_graph

    triples, random = knowledge_graph(data), np.random.default_rng(0)
    places, half = random.integers(0, len(triples.h), BATCH), BATCH // 2
    corrupted = random.integers(0, triples.num_entities, BATCH - half)
    tails = np.concatenate([triples.t[places[:half]], corrupted])
    ids = [torch.from_numpy(each).long().to(on_gpu.DEVICE) for each in (triples.h[places], triples.r[places], tails)]
    signs = torch.ones(BATCH, device=on_gpu.DEVICE)
    signs[slice(half) if name in SIMILARITIES else slice(half, None)] = -1
    graph = module(name).compilation.stages["graph"].program
    counts = {"entity": triples.num_entities, "relation": triples.num_relations}
    tables = {key: table.requires_grad_() for key, table in random_tensors(graph, counts, on_gpu.DEVICE).items()}
    return Batch(*ids, signs, tables, {tensor.name: tensor.sets[0] for tensor in graph.tensors})


def eager(name: str, batch: Batch, tables: Mapping[str, Any]) -> Side:
    """Eager PyTorch with dense gradients of such tables."""
    from benchmarks.gpu_suite.peers import SCORES

    score = SCORES[MODELS[name]]
    return Side(lambda: score(tables, batch.h, batch.r, batch.t), batch.signs, tables, batch.touched)


def sides(name: str, batch: Batch) -> dict[str, Side]:
    """All ways to train, which share the tables."""
    from benchmarks.gpu_suite.peers import SCORES

    made, score = module(name), SCORES[MODELS[name]]
    rows = {key: SparseRows(table) for key, table in batch.tables.items()}
    flat = {key: each.flat for key, each in rows.items()}
    ids = batch.h, batch.r, batch.t
    return {
        OURS: Side(lambda: made(*ids, **batch.tables), batch.signs, batch.tables, batch.touched),
        DENSE: eager(name, batch, batch.tables),
        SPARSE: Side(lambda: score(rows, *ids), batch.signs, flat, coalesced),
    }


def error_of(mine: Side, name: str, batch: Batch) -> float:
    """How far a side's gradients are from those in float64, each of its largest element."""
    exact = eager(name, batch, {key: table.detach().double().requires_grad_() for key, table in batch.tables.items()})
    exact.gradients()
    mine.gradients()
    pairs = [(mine.tables[key].grad, table.grad) for key, table in exact.tables.items()]
    return max(float((got - want).abs().max() / want.abs().max()) for got, want in pairs)


def measured(name: str, data: str) -> on_gpu.Measured:
    """The times of an iteration and of the score in it, by side."""
    on_gpu.give_back()
    batch = drawn(name, data)
    contenders = sides(name, batch)
    right = error_of(contenders[OURS], name, batch) <= TOLERANCE
    runs: dict[str, Callable[[], Any]] = {}
    for each, side in contenders.items():
        runs |= {each: side.iteration, f"{each}{SCORE}": side.score_alone}
    found = on_gpu.timed(runs)
    return replace(found, right=right and OURS in found.ms)


def table(source: Callable[[str], str], shown: Callable[[str], str]) -> Table:
    """An iteration's times by model and graph. `source` gives the file of a graph, or its name, and `shown` a title."""
    found = MeasuredRows()

    def make(label: str, name: str, data: str) -> tuple[list[Row], bool]:
        times = measured(name, source(data))
        return [_row(label, times)], times.right

    for data, names in GRAPHS.items():
        for name in names:
            label = f"{name}, {shown(data)}"
            found.add(label, partial(make, label, name, data))
    note = (
        f"{BATCH:,} triples, half of them with a corrupted tail, {SIZE} wide: scores, the mean of their softplus, its"
        f" gradients, and Adagrad's step of the touched rows, which is PyTorch's on all sides; medians of"
        f" {on_gpu.REPEAT} with cold caches. A score's share is its forward and backward pass, measured alone. The last"
        " column is over the faster of eager PyTorch's two. Published: 1.3 to 2.3x over PyTorch on an RTX 3090, where"
        " DGL-KE has its scores for 50 to 80 % of its time; Figure 11's bars are a drawing. Sampling is left out."
    )
    columns = tuple(column for side in SIDES for column in (f"{side}, ms", f"{side}: score, %"))
    return found.table((*columns, "times as fast"), note)


def _row(label: str, times: on_gpu.Measured) -> Row:
    """A line of the table."""
    ms = times.ms
    ours = {f"{side}, ms": ms[side] for side in SIDES if side in ms}
    both = [side for side in SIDES if {side, f"{side}{SCORE}"} <= ms.keys()]
    ours |= {f"{side}: score, %": 100 * ms[f"{side}{SCORE}"] / ms[side] for side in both}
    plain = [ms[side] for side in (DENSE, SPARSE) if side in ms]
    if plain and OURS in ms:
        ours["times as fast"] = min(plain) / ms[OURS]
    return Row(label, ours, {"times as fast": FASTER, f"{DENSE}: score, %": SHARE}, reasons(times.errors))
