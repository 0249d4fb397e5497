"""What runs under Nsight Compute: `python -m benchmarks.paper.measured.launched COMMAND FOLDER NUMBER`.

`compile` makes the machine code of case NUMBER, which is kept on disk; `launch` launches the kernels of all cases of
FOLDER's cases.json, none begun after NUMBER seconds, each case once to hold its results against float64 and once while
the profiler counts. What was launched goes into launched.jsonl, a line a case.
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

import torch

from benchmarks import _gpu_measuring as measuring
from benchmarks._gpu_inputs import drawn, relational_graph
from benchmarks._gpu_rows import CHECKED, TOLERANCES, Problem, ScoreRow
from benchmarks._gpu_timing import first_line
from benchmarks.paper.measured import on_gpu
from benchmarks.paper.measured.counters import Case, Json
from explorer.compiler.to_json import kernels_of
from explorer.runtime.targets.gpu.device import cupy_module
from explorer.runtime.targets.gpu.program import BoundProgram
from explorer.runtime.torch.programs import TensorProgram

Tensor = torch.Tensor


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


def described(program: TensorProgram, bound: BoundProgram) -> list[Json]:
    """What is known of each launch: its template, whether it is of the backward pass, a block's threads."""
    stages = program.compilation.stages
    launches = bound.program.code.launches
    kernels = kernels_of(stages["kernels"].program)
    templates = {each.symbol: kernel.template for each, kernel in zip(launches, kernels, strict=True)}
    last = max(place for place, each in enumerate(launches) if each.writes & {*bound.program.results})
    forward = {each.symbol for each in launches[: last + 1]}
    return [
        {
            "symbol": each.launch.symbol,
            "template": templates[each.launch.symbol],
            "backward": each.launch.symbol not in forward,
            "threads": each.launch.threads,
        }
        for each in bound.launches
    ]


def launched(case: Case) -> Json:
    """Checks a case and launches its kernels once more for the profiler; what was launched, and what went wrong."""
    told: Json = {"name": case.name, "launched": [], "right": False, "error": "", "device": ""}
    try:
        told["device"] = device_name()
        problem = PROBLEMS[family_of(case)](case)
        bound = measuring.bind(problem)
        bound.launch()
        told["right"] = problem.check(*measuring.outcome(problem, bound)) <= 1
        about = described(problem.program, bound)
        wait()
        on_gpu.give_back()  # what the check took: ncu keeps copies of what kernels write while it repeats them
        with torch.cuda.profiler.profile():
            for each, known in zip(bound.launches, about, strict=True):
                each.run(None)
                told["launched"].append(known)
            wait()
    except Exception as error:  # the other cases are not lost
        told["error"] = first_line(error)
    return told


def wait() -> None:
    """Until all that was launched has ended."""
    cupy_module().cuda.get_current_stream().synchronize()


def device_name() -> str:
    """The current device."""
    name = cupy_module().cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


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


def compile_one(folder: Path, number: int) -> None:
    """Has a case's machine code made and kept."""
    case = cases_of(folder)[number]
    stage = PROGRAMS[family_of(case)](case).compilation.stages["ptx"]
    if not stage.available:
        raise ValueError(stage.reason)


def main(argv: Sequence[str]) -> int:
    command, folder, number = argv
    if command == "compile":
        compile_one(Path(folder), int(number))
    else:
        launch_all(Path(folder), float(number))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
