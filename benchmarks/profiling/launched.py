"""What runs under Nsight Compute: a problem's result is held against float64, and then its kernels are launched once
more, while the profiler counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu_suite import measuring
from benchmarks.gpu_suite.rows import Problem
from benchmarks.timing.device import first_line, give_back
from explorer.compiler.to_json import kernels_of
from explorer.runtime.targets.gpu.device import cupy_module
from explorer.runtime.targets.gpu.program import BoundProgram
from explorer.runtime.torch.programs import TensorProgram

Json = dict[str, Any]


def launched_once(name: str, problem_of: Callable[[], Problem], most: float) -> Json:
    """Makes a problem, holds its error against the `most` that is right, and launches its kernels once more for the
    profiler, one after another; what was launched, on what, and what went wrong. Kernels that run once, when a program
    is bound, have run before."""
    told: Json = {"name": name, "launched": [], "right": False, "error": "", "device": ""}
    try:
        told["device"] = device_name()
        problem = problem_of()
        bound = measuring.bind(problem)
        bound.launch()
        told["right"] = problem.check(*measuring.outcome(problem, bound)) <= most
        about = described(problem.program, bound)
        wait()
        give_back()  # what the check took: ncu keeps copies of what kernels write while it repeats them
        with torch.cuda.profiler.profile():
            for each, known in zip(bound.launches, about, strict=True):
                each.run(None)
                told["launched"].append(known)
            wait()
    except Exception as error:  # other problems are not lost
        told["error"] = first_line(error)
    return told


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


def wait() -> None:
    """Until all that was launched has ended."""
    cupy_module().cuda.get_current_stream().synchronize()


def device_name() -> str:
    """The current device."""
    name = cupy_module().cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)
