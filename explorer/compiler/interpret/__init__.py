"""What the IRs mean, in NumPy: one interpreter for each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from explorer.compiler.interpret.again import run_once
from explorer.compiler.interpret.dlc import run_dlc
from explorer.compiler.interpret.graph import run_graph
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.interpret.slc import run_slc
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.access.slc import SlcProgram
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.returned import as_returned


def run_program(program: object, inputs: Mapping[str, Any], again: bool = False) -> tuple[Any, dict[str, Any]]:
    """The result of a program of any IR with an interpreter, a tuple of several, and the gradients that it computes, by
    tensor.
    With `again`, what comes of a module's programs is kept with them, for when they are run on the same inputs.

    Raises ValueError for what has no interpreter."""
    with np.errstate(all="ignore"):  # a division by 0 is inf or NaN, as on every target, and nobody's mistake
        return _run(program, inputs, again)


def _run(program: object, inputs: Mapping[str, Any], again: bool) -> tuple[Any, dict[str, Any]]:
    if isinstance(program, Graph):
        return run_graph(program, inputs)
    if isinstance(program, Module):
        arrays = _outputs_of_module(program, inputs, again)
        gradients = {tensor: arrays[name] for tensor, name in program.gradients}
        return as_returned(arrays[name] for name in program.results), gradients
    (result,) = _outputs(program, inputs).values()
    return result, {}


def _outputs_of_module(module: Module, inputs: Mapping[str, Any], again: bool) -> dict[str, Any]:
    scheduled = [program for program in module.programs if isinstance(program, ScheduledKernel)]
    if scheduled:
        return run_scheduled(scheduled, inputs, again)
    arrays = dict(inputs)
    for program in module.programs:
        run = partial(_outputs, program, dict(arrays))
        arrays |= run_once(program, arrays, run) if again else run()
    return arrays


def _outputs(program: object, inputs: Mapping[str, Any]) -> dict[str, Any]:
    match program:
        case Kernel():
            return run_kernel(program, inputs)
        case ScheduledKernel():
            return run_scheduled([program], inputs)
        case SlcProgram():
            return run_slc(program, inputs)
        case DlcProgram():
            return run_dlc(program, inputs)
    raise ValueError("this stage has no interpreter")
