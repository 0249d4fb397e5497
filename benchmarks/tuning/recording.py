"""Compiles the points of a space in processes, ahead of the device, and measures them on it, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.tuning.spaces import Input, RecordedSpace
from explorer.compiler.compilation import Compilation
from explorer.compiler.decisions import Value
from explorer.runtime.run import set_up
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import ModelRequest, RunRequest, Setup
from explorer.runtime.targets.gpu.device import current_device
from explorer.runtime.targets.gpu.program import GpuProgram
from explorer.tuner.device.recipes import Recipe, compiled_ahead
from explorer.tuner.device.trials import Fields, OnDevice
from explorer.tuner.points import Points
from explorer.tuner.space import points_of

__all__ = ["AHEAD", "Bench", "Recipe", "compiled_ahead", "enumerated"]

AHEAD = 4
"""Points for each process that are compiled, or wait to be, before they are measured."""


def enumerated(space: RecordedSpace, data: Input, folder: Path, arch: str) -> tuple[Points, Compilation]:
    """The points of a space for an input, and the model compiled for it. Raises ValueError."""
    source = "" if data.batch else data.source(folder)
    options = {**space.options, "arch": arch}
    compilation = fit(ModelRequest(text=space.text, sizes=data.sizes, options=options, data=source)).compilation
    if not compilation.ok:
        raise ValueError("; ".join(diagnostic.message for diagnostic in compilation.diagnostics))
    return points_of(compilation, space.varied, space.vary_options), compilation


class Bench(OnDevice):
    """A space made ready on the device for an input."""

    def __init__(self, space: RecordedSpace, data: Input, folder: Path) -> None:
        super().__init__(_set_up(space, data, folder))

    def measured(self, program: GpuProgram, values: Mapping[str, Value]) -> Fields:
        """The times of a point, cold and warm, or what is wrong with it. Raises DeviceFault."""
        bound = self.bind(program, values)
        _, repeat = self.warmed(bound)
        if not self.agrees(bound):
            return {"invalidity": "correctness"}
        cold = [self.cold(bound) for _ in range(repeat)]
        self.watch.warm(bound.launch)
        warm = [self.watch.warm(bound.launch) for _ in range(repeat)]
        return {"invalidity": "correct", "times": [_mean(cold), _median(cold), _mean(warm), _median(warm)]}


def _set_up(space: RecordedSpace, data: Input, folder: Path) -> Setup:
    """The model on its input, as any run has it."""
    request = RunRequest(
        text=space.text,
        on="gpu",
        sizes=data.sizes,
        options={**space.options, "arch": current_device().compile_for},
        data=data.source(folder),
        batch=data.batch or 1,
        peers=False,
        memory=None,
    )
    return set_up(request)


def _mean(samples: list[float]) -> float:
    return float(np.mean(samples))


def _median(samples: list[float]) -> float:
    return float(np.median(samples))
