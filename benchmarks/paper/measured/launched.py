"""What runs under Nsight Compute: `python -m benchmarks.paper.measured.launched FOLDER SECONDS`.

Launches the kernels of all cases of FOLDER's cases.json, none begun after so many seconds, each case once to hold its
results against float64 and once while the profiler counts. What was launched goes into launched.jsonl, a line a case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.gpu_suite.inputs import drawn, relational_graph
from benchmarks.gpu_suite.rows import CHECKED, TOLERANCES, Problem, ScoreRow
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.counters import Case
from benchmarks.profiling.launched import Json, launched_once
from explorer.compiler.compilation import Compilation
from explorer.runtime.torch.programs import TensorProgram


@dataclass(frozen=True, kw_only=True)
class Score(ScoreRow):
    """A score under a setting of the compiler."""

    options: tuple[tuple[str, Any], ...] = ()

    def compiled(self, path: str, sizes: Mapping[str, int], *rest: Any, **options: Any) -> TensorProgram:
        """An example at these sizes, under the setting."""
        return super().compiled(path, sizes, *rest, **{**options, **dict(self.options)})


def score_row(case: Case) -> Score:
    """A score as the rows of `bench gpu` are, with the case's data and setting."""
    model = case.model.partition("/")[2]
    options = tuple(case.options.items())
    fewer = {"negatives": case.negatives, "checked": CHECKED // case.negatives} if case.negatives else {}
    return Score(name=case.name, model=model, size=case.size, batch=case.batch, options=options, **fewer)


def score_problem(case: Case) -> Problem:
    """A score on a batch of triples; its error is over that which it may have."""
    row = score_row(case)
    problem = row.problem(on_gpu.DEVICE, case.data)
    most, check = TOLERANCES[row.precision], problem.check
    return replace(problem, check=lambda result, gradients: check(result, gradients) / most)


def layer_program(case: Case) -> TensorProgram:
    """A layer as the tables of times have it, compiled once for graphs of any size."""
    options = dict(case.options)
    grad = bool(options.pop("grad", False))
    layer = case.model.partition("/")[2]
    sizes = {"F": case.size, **({"H": 1, "D": case.size} if layer == "hgt" else {"G": case.size})}
    program: TensorProgram = on_gpu.layer_program(layer, tuple(sizes.items()), grad, tuple(options.items()))
    return program


def layer_problem(case: Case) -> Problem:
    """A layer on a graph; its error, and those of gradients, are over what they may be."""
    program = layer_program(case)
    structure, edges = relational_graph(case.data, "", on_gpu.DEVICE)
    tensors = drawn(program.graph, structure.counts, on_gpu.DEVICE)
    layer = case.model.partition("/")[2]
    return Problem(program, structure, tensors, {}, partial(on_gpu.error_of, layer, program.graph, tensors, edges))


PROBLEMS: Mapping[str, Callable[[Case], Problem]] = {"kge": score_problem, "rgnn": layer_problem}
PROGRAMS: Mapping[str, Callable[[Case], TensorProgram]] = {
    "kge": lambda case: score_row(case).program(),
    "rgnn": layer_program,
}
"""By the examples' folder."""


def family_of(case: Case) -> str:
    """The folder of the case's example."""
    return case.model.partition("/")[0]


def launched(case: Case) -> Json:
    """Checks a case and launches its kernels once more for the profiler; what was launched, and what went wrong."""
    return launched_once(case.name, lambda: PROBLEMS[family_of(case)](case), 1)


def launch_all(folder: Path, seconds: float) -> None:
    """Launches the cases in their order; none is begun after so many seconds."""
    began = monotonic()
    with (folder / "launched.jsonl").open("w") as out:
        for case in cases_of(folder):
            if monotonic() - began > seconds:
                return
            print(json.dumps(launched(case)), file=out, flush=True)
            on_gpu.give_back()


def cases_of(folder: Path) -> list[Case]:
    """The cases of a folder."""
    return [Case(**each) for each in json.loads((folder / "cases.json").read_text())]


def code_of(case: Case) -> Compilation:
    """The compilation of a case's program."""
    return PROGRAMS[family_of(case)](case).compilation


def main(argv: Sequence[str]) -> int:
    folder, seconds = argv
    launch_all(Path(folder), float(seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
