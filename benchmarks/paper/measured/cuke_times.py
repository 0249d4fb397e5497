"""cuKE's Figures 9 and 10 as times: scores beside eager PyTorch, TorchScript and torch.compile, with and without the
inspector. The rows, their inputs and what they are held against are those of `explorer bench gpu`.

Needs PyTorch, CuPy and a GPU, which are looked for only when a table is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.paper.figure import Row, Table
from benchmarks.paper.measured import on_gpu, rows
from benchmarks.paper.measured.ahead import Code
from benchmarks.paper.measured.on_gpu import COMPILE_SECONDS, COMPILED, Options
from explorer.compiler.compilation import Compilation

MODELS = {"TransE": "transe_l2", "TransH": "transh", "TransR": "transr", "TransF": "transf", "RESCAL": "rescal"}
SIZES = (512, 256, 128)
"""Widths of embeddings. torch.compile has the first alone, and the larger batch, since setting it up takes longest."""
NEGATIVES = 64
POSITIVE, NEGATIVE = (4_096, 16_384), (64, 1_024)
"""Triples of a batch, without negatives and with NEGATIVES each: as many scores."""
CHECKED_GROUPS = 32
"""Triples whose negatives' scores are computed in float64."""
OURS, PLAIN = "ours", "no inspector"
PYTORCH = ("eager", "TorchScript")
"""§VII-A: "the performance of the better one between the compiled and uncompiled code"."""
SPEEDS = {
    0: {"TransH": (5.9, 1.2), "TransR": (20.6, 2.1), "RESCAL": (27.5, 2.2)},
    NEGATIVES: {"TransF": (6.4, 1.6), "TransR": (1.9, 3.6), "RESCAL": (3.8, 1.2)},
}
"""§VII-B, by negatives and model: speedups over PyTorch and over hand-written code, means over batches and sizes."""
OVER_PYTORCH, OVER_PLAIN, OVER_COMPILED = "over PyTorch", f"over {PLAIN}", f"over {COMPILED}"
ALL, MOST = (14.9, 1.7), (27.5, 3.6)
"""§I: the means of all, and the largest."""


@dataclass(frozen=True)
class Settings:
    """What is measured: the triples, a preset or a file, the name that rows have for it, and inspectors by name."""

    data: str
    shown: str
    inspectors: tuple[tuple[str, tuple[tuple[str, str | int | bool], ...]], ...]

    @classmethod
    def of(cls, data: str, shown: str, inspectors: Mapping[str, Options]) -> Settings:
        """The same, which functions that remember their tables can take."""
        return cls(data, shown, tuple((name, tuple(options.items())) for name, options in inspectors.items()))

    @property
    def options(self) -> dict[str, dict[str, str | int | bool]]:
        """By setting the compiler's options, of ours as it chooses first."""
        return {OURS: {}, **{name: dict(options) for name, options in self.inspectors}}


@dataclass(frozen=True)
class Case:
    """A model's example, its width, a batch, its negatives, and what torch.compile may take: it is left out where that
    is 0."""

    model: str
    size: int
    batch: int
    negatives: int
    seconds: int


@cache
def table(settings: Settings, negatives: int) -> Table:
    """The times of every model's score, and how many times as fast ours is."""
    found = rows.MeasuredRows()
    batches = NEGATIVE if negatives else POSITIVE

    def make(label: str, size: int, name: str, batch: int) -> tuple[list[Row], bool]:
        left = int(max(1, min(COMPILE_SECONDS, rows.SECONDS - found.spent)))
        compiled = (size, batch) == (SIZES[0], batches[-1])
        times = measured(Case(MODELS[name], size, batch, negatives, left if compiled else 0), settings)
        return [_row(label, times, batch * max(1, negatives), SPEEDS[negatives].get(name))], times.right

    for size, name, batch in product(SIZES, MODELS, batches):
        label = f"{name}, {batch:,}, {size} wide"
        found.add(label, partial(make, label, size, name, batch))
    kind = f"with {negatives} corrupted tails each" if negatives else "each a score"
    note = (
        f"Batches of {settings.shown}, {kind}; medians of {on_gpu.REPEAT} with cold caches, in turns."
        f" {OVER_PYTORCH}: the faster of eager and TorchScript, as published. Published are means over batches and"
        f" sizes on an RTX 3090; there the last ratio is over code written by hand that loads each edge's rows, as ours"
        f" does without inspector. {COMPILED} is set up for batches of {batches[-1]:,}, {SIZES[0]} wide. TransE has the"
        " Euclidean norm. TVM is not here."
    )
    columns = (f"{OURS}, ms", "million a second", *(f"{each}, ms" for each in [*settings.options][1:]))
    columns += (*(f"{each}, ms" for each in (*PYTORCH, COMPILED)), OVER_PYTORCH, OVER_COMPILED, OVER_PLAIN)
    return found.table(columns, note, form=",.3f")


def _row(label: str, times: on_gpu.Measured, scores: int, published: tuple[float, float] | None) -> Row:
    """A line: all times, and ours in relation to those that there are."""
    ms, basis = times.ms, rows.reasons(times.errors)
    ours = {f"{name}, ms": value for name, value in ms.items()}
    if OURS not in ms:
        return Row(label, ours, basis=basis)
    ours["million a second"] = scores / ms[OURS] / 1e3
    pytorch = [ms[name] for name in PYTORCH if name in ms]
    beside = {OVER_PYTORCH: min(pytorch, default=None), OVER_PLAIN: ms.get(PLAIN), OVER_COMPILED: ms.get(COMPILED)}
    ours |= {name: value / ms[OURS] for name, value in beside.items() if value is not None}
    return Row(label, ours, dict(zip((OVER_PYTORCH, OVER_PLAIN), published or (), strict=False)), basis)


def code(settings: Settings, negatives: int) -> list[Code]:
    """What these times are of."""
    every = product(SIZES, MODELS.values(), NEGATIVE if negatives else POSITIVE, settings.options.values())
    return [
        partial(_code_of, _asked(Case(model, size, batch, negatives, 0)), tuple(options.items()))
        for size, model, batch, options in every
    ]


def _code_of(case: Case, options: tuple[tuple[str, Any], ...]) -> Compilation:
    made: Compilation = _program(case, options).compilation
    return made


def _asked(case: Case) -> Case:
    """What the case's program is compiled for: without negatives the same for all batches."""
    return replace(case, batch=case.batch if case.negatives else POSITIVE[-1], seconds=0)


def measured(case: Case, settings: Settings) -> on_gpu.Measured:
    """A score's times by setting and peer."""
    import torch

    from benchmarks.gpu_suite.rows import CHECKED, TOLERANCES
    from benchmarks.timing.device import called_within

    on_gpu.give_back()
    torch._dynamo.reset()
    checked = CHECKED_GROUPS if case.negatives else CHECKED
    problem = replace(_row_of(case), checked=checked).problem(on_gpu.DEVICE, settings.data)
    asked = _asked(case)
    programs = {name: _program(asked, tuple(options.items())) for name, options in settings.options.items()}
    peers: dict[str, Any] = {"eager": problem.peers["eager"]}
    errors = {}
    limits = {"TorchScript": COMPILE_SECONDS} | ({COMPILED: case.seconds} if case.seconds else {})
    for name, limit in limits.items():
        if error := called_within(limit, problem.compiled[name]):
            errors[name] = error
        else:
            peers[name] = problem.compiled[name]
    found = on_gpu.in_turns(problem, programs, lambda got: problem.check(got, {}), TOLERANCES["float32"], peers=peers)
    return replace(found, errors={**found.errors, **errors})


@cache
def _program(case: Case, options: tuple[tuple[str, Any], ...]) -> Any:
    """A score's program for a batch, made once."""
    return _row_of(case).program(**dict(options))


def _row_of(case: Case) -> Any:
    """The row of `explorer bench gpu` of a score."""
    from benchmarks.gpu_suite.rows import ScoreRow

    return ScoreRow(name=case.model, model=case.model, size=case.size, batch=case.batch, negatives=case.negatives)


def means(settings: Settings) -> Table:
    """What §I says of all scores together: the means of the ratios, and the largest."""
    tables = {"positive": table(settings, 0), "negative": table(settings, NEGATIVES)}
    ratios = (OVER_PYTORCH, OVER_PLAIN, OVER_COMPILED)
    columns = tuple(f"{ratio}, {kind}" for ratio in ratios for kind in ("mean", "most"))
    lines = [Row(f"{kind} scores", _summed(each.rows, ratios)) for kind, each in tables.items()]
    told = dict(zip(columns[:4], (ALL[0], MOST[0], ALL[1], MOST[1]), strict=True))
    lines.append(Row("all", _summed([row for each in tables.values() for row in each.rows], ratios), told))
    note = (
        "Of the rows of Figures 9 and 10 above, or measured for this: all five models, three widths, two"
        " batches of either kind. The paper's means are over its models, batches and sizes; its 7.8x over TVM has"
        " nothing beside it."
    )
    right = all(each.right for each in tables.values())
    return Table("measured", columns, lines, note, "times as fast", right=right)


def _summed(lines: Sequence[Row], ratios: Sequence[str]) -> dict[str, float]:
    """The mean and the most of each ratio that some row has."""
    found: dict[str, float] = {}
    for ratio in ratios:
        values = [row.ours[ratio] for row in lines if ratio in row.ours]
        if values:
            found |= {f"{ratio}, mean": float(np.mean(values)), f"{ratio}, most": max(values)}
    return found
