"""Where a model can run: one entry a target. The command line, what messages may ask for, the page, and how a run and
`Compilation.run` reach a target are made from it. Each target's stage says so itself (`pipeline.StageSpec.targets`).

Loading this loads no target: their modules are named, and imported when they are first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import STAGES

TargetName = Literal["gpu", "cpu", "dae"]
Source = Literal["measured", "simulated", "replayed"]
"""Where times are from; those that are replayed were measured when a space was recorded."""
Outcome = tuple[Any, dict[str, Any]]
"""The result, and gradients by tensor."""
Compute = Callable[[Any, Mapping[str, Any]], Outcome]
"""Runs a stage's program on arrays by name."""


@dataclass(frozen=True)
class Target:
    """One target. `missing` says why it is not there, "" where it is."""

    name: TargetName
    title: str
    source: Source
    """Whether its times are of a real device."""
    run: str
    """The module of a whole run, with `ready` and `run`."""
    computing: Callable[[Compilation], Compute]
    """What `Compilation.run` calls."""
    reads: frozenset[str]
    """The fields of a run's request that this target reads and not every other does."""
    missing: Callable[[], str] = lambda: ""
    free_bytes: Callable[[], int] | None = None
    """What its own memory has left, where it has its own."""
    taken: Callable[[Compilation, Mapping[Any, int]], int] | None = None
    """The bytes that what its kernels make takes, where extents have these sizes; None where its kernels are the loops.
    """
    device: Callable[[], str] = lambda: ""
    """What its times are of: "" for what is the same on every computer."""
    made: Callable[[], int] = lambda: 0
    """How many kernels this process has made or loaded machine code of, which it keeps until it ends."""

    @property
    def stage(self) -> str:
        """The stage whose program it runs."""
        return next(spec.name for spec in STAGES if self.name in spec.targets)


def reading(field: str) -> str:
    """The names of the targets that read a field of a request."""
    return " or ".join(name for name, target in TARGETS.items() if field in target.reads)


def _on_cpu(compilation: Compilation) -> Compute:
    checked = bool(compilation.edits)

    def compute(program: Any, inputs: Mapping[str, Any]) -> Outcome:
        from explorer.runtime.targets.cpu import prepare_once

        return prepare_once(program, checked).bind(inputs).run()

    return compute


def _on_dae(_: Compilation) -> Compute:
    def compute(program: Any, inputs: Mapping[str, Any]) -> Outcome:
        from explorer.runtime.targets.dae import simulate

        simulated = simulate(program, inputs)
        return simulated.output, simulated.gradients

    return compute


def _on_gpu(compilation: Compilation) -> Compute:
    """Of the program as it is for the GPU that is there, as `explorer run` and a module have it too."""
    for_device = cache(lambda: _for_device(compilation))

    def compute(_: Any, inputs: Mapping[str, Any]) -> Outcome:
        """A code knows how to launch its kernels; what their arrays must hold, the loops know."""
        from explorer.runtime.arrays import check_inputs
        from explorer.runtime.data.triples import InputError
        from explorer.runtime.targets.gpu.program import GpuProgram

        compiled = for_device()
        loops: Any = compiled.stages["loops"].program
        try:
            return GpuProgram.of(compiled).bind(*check_inputs(loops, inputs)).run()
        except InputError as error:
            raise ValueError(str(error)) from None

    return compute


def _for_device(compilation: Compilation) -> Compilation:
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.targets.gpu.device import compiled_for_device

    try:
        return compiled_for_device(compilation)
    except InputError as error:
        raise ValueError(str(error)) from None


def _made_on_cpu() -> int:
    cpu = sys.modules.get("explorer.runtime.targets.cpu")  # nothing is made before it is loaded
    return 0 if cpu is None else int(cpu.made())


def _made_on_gpu() -> int:
    program = sys.modules.get("explorer.runtime.targets.gpu.program")
    return 0 if program is None else int(program.made())


def _no_gpu() -> str:
    from explorer.runtime.targets.gpu import device

    return device.missing()


def _taken_on_gpu(compilation: Compilation, extents: Mapping[Any, int]) -> int:
    from explorer.runtime.targets.gpu.program import GpuProgram

    return GpuProgram.of_stage(compilation, "cuda").made_bytes(extents)


def _free_on_gpu() -> int:
    from explorer.runtime.targets.gpu import device

    return device.available_bytes()


def _gpu() -> str:
    from explorer.runtime.targets.gpu import device

    return device.current_device().described


def _processor() -> str:
    from explorer.runtime.targets.cpu import device_name

    return device_name()


TARGETS: dict[TargetName, Target] = {
    "gpu": Target(
        name="gpu",
        title="the GPU",
        source="measured",
        run="explorer.runtime.on_gpu",
        computing=_on_gpu,
        reads=frozenset({"repeat", "peers"}),
        missing=_no_gpu,
        free_bytes=_free_on_gpu,
        taken=_taken_on_gpu,
        device=_gpu,
        made=_made_on_gpu,
    ),
    "cpu": Target(
        name="cpu",
        title="this CPU",
        source="measured",
        run="explorer.runtime.on_cpu",
        computing=_on_cpu,
        reads=frozenset({"repeat", "peers"}),
        device=_processor,
        made=_made_on_cpu,
    ),
    "dae": Target(
        name="dae",
        title="the simulated access-execute machine",
        source="simulated",
        run="explorer.runtime.on_dae",
        computing=_on_dae,
        reads=frozenset({"machine", "written"}),
    ),
}
"""From top to bottom of the page's rail."""
USUAL: TargetName = "dae"
"""What the page runs on until another is chosen: it is there on every machine."""
