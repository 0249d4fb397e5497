"""Kernels of sparse operations on ragged structures, for the tests of their schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from explorer.compiler.compilation import compile_model
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.interpret.loops import run_kernel
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.options import read_options
from explorer.compiler.report import Report

Schedule = Callable[[Kernel, Report], tuple[ScheduledKernel, ...]]

EXAMPLES = Path(__file__).parents[3] / "examples" / "embedding"


def scheduled(schedule: Schedule, kernel: Kernel, **options: str | int | bool) -> tuple[ScheduledKernel, ...]:
    """The kernels of a template, each of which must obey the IR's rules and be read back from its text."""
    report = Report(read_options(options))
    found = schedule(kernel, report)
    assert found, report.refusals
    for step in found:
        verify_scheduled(step)
        assert _read("".join(f"{line.text}\n" for line in print_scheduled(step))) == step
    return found


@cache
def _read(text: str) -> ScheduledKernel:
    """The kernel of a text, which many structures share."""
    return parse_scheduled(text)


@cache
def kernel_of(example: str, size: int) -> Kernel:
    """The loops of an example that lowers to one kernel, with D = size."""
    compilation = compile_model((EXAMPLES / f"{example}.emb").read_text(), sizes={"D": size}, on_demand=True)
    module = compilation.stages["loops"].program
    assert isinstance(module, Module)
    (kernel,) = module.programs
    assert isinstance(kernel, Kernel)
    return kernel


def arrays_for(kernel: Kernel, lengths: Sequence[int]) -> dict[str, Any]:
    """Arrays for a kernel on rows of these lengths; every index that is gathered by is below the number of rows."""
    random = np.random.default_rng(3)
    rows, elements = len(lengths), sum(lengths)
    sizes = dict(kernel.sizes) | {"nonzeros": elements, "entries": elements}
    arrays: dict[str, Any] = {}
    for buffer in kernel.buffers:
        if buffer.kind == "output":
            continue
        if buffer.name.endswith("_ptr"):
            arrays[buffer.name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            continue
        shape = [sizes.get(e, rows) if isinstance(e, str) else e for e in buffer.extents]
        index = buffer.kind == "index"
        arrays[buffer.name] = (
            random.integers(0, rows, shape) if index else random.standard_normal(shape).astype(np.float32)
        )
    return arrays


def largest_error(kernel: Kernel, scheduled: Sequence[ScheduledKernel], arrays: dict[str, Any]) -> float:
    """The largest difference between what the loops compute and what their schedule does, over all outputs."""
    arrays = arrays | {"bags": len(arrays.get("bag_ptr", [0])) - 1, "rows": len(arrays.get("row_ptr", [0])) - 1}
    expected, found = run_kernel(kernel, arrays), run_scheduled(scheduled, arrays)
    return max(
        float(np.max(np.abs(found[name] - value), initial=0.0) / np.max(np.abs(value), initial=1.0))
        for name, value in expected.items()
    )
