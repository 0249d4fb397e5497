"""Cases of the papers' figures under Nsight Compute, launched one after another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.profiling.counters import Kernel, count, error_of, joined, rows_of
from benchmarks.profiling.ncu import NoCounters, find_ncu, version_of
from explorer.compiler.compilation import Compilation


@dataclass(frozen=True)
class Case:
    """What is launched: a model of the examples with every dimension of a size, on a graph; a score with a batch of
    triples, and with `negatives` so many corrupted ones for each."""

    name: str
    model: str
    size: int
    data: str
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    batch: int = 0
    negatives: int = 0


@dataclass(frozen=True)
class Counted:
    """The kernels by case, which cases failed or were wrong and how, and which came too late; the device and ncu in
    words."""

    kernels: Mapping[str, Sequence[Kernel]]
    failed: Mapping[str, str]
    late: Sequence[str]
    on: str


def counted(cases: Sequence[Case], metrics: Sequence[str], seconds: float) -> Counted:
    """Launches cases one after another under ncu; after so many seconds none is begun. Raises NoCounters, also where no
    kernel has a value of the first metric, and Failed."""
    ncu = find_ncu()
    if not ncu:
        raise NoCounters("there is no ncu on the path, nor in a CUDA toolkit")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
        process = [sys.executable, "-m", "benchmarks.paper.measured.launched", name, f"{seconds:.1f}"]
        report = folder / "all.ncu-rep"
        said = count(ncu, metrics, report, process, 2 * seconds)
        told = [json.loads(line) for line in (folder / "launched.jsonl").read_text().splitlines()]
        rows = rows_of(ncu, metrics, report, said) if any(case["launched"] for case in told) else []
        on = f"{next((case['device'] for case in told if case['device']), 'no device')} with {version_of(ncu)}"
        failed = {case["name"]: error for case in told if (error := error_of(case))}
        late = [case.name for case in cases if case.name not in {each["name"] for each in told}]
        return Counted(joined(told, rows), failed, late, on)


def code(cases: Iterable[Case]) -> list[partial[Compilation]]:
    """What cases launch, so that it is compiled before."""
    return [partial(_code_of, case) for case in cases]


def _code_of(case: Case) -> Compilation:
    from benchmarks.paper.measured.launched import code_of  # which needs PyTorch

    return code_of(case)
