"""A compilation's kernels on the emulator, as a GPU would be given them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

import explorer
from explorer.runtime.arrays import as_declared, check_inputs
from tests.emulator.emulate import emulate
from tests.emulator.facts import broken_facts


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result and the gradients of emulating each kernel once, as float64."""
    program: Any = compilation.stages["loops"].program
    code: Any = compilation.stages["cuda"].program
    code = as_declared(code, program)
    arrays, extents = check_inputs(program, inputs)
    result = getattr(program, "result", None) or next(b.name for b in code.buffers if b.kind == "output")
    gradients = dict(getattr(program, "gradients", ()))
    seed, results = zlib.crc32(compilation.name.encode()), {result, *gradients.values()}
    written = emulate(code, arrays, extents, seed, results)
    scheduled: Any = compilation.stages["kernels"].program
    facts = [fact for kernel in getattr(scheduled, "programs", (scheduled,)) for fact in kernel.facts]
    counted = {str(name): size for name, size in extents.items()}
    for name, count in code.counts:
        counted[name] = count.value(counted)
    broken = broken_facts(facts, {**arrays, **written}, counted)
    assert not broken, broken
    return written[result].astype(np.float64), {t: written[name].astype(np.float64) for t, name in gradients.items()}
