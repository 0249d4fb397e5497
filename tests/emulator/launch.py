"""A compilation's kernels on the emulator, as a GPU would be given them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

import explorer
from explorer.compiler.returned import as_returned
from explorer.runtime.arrays import as_declared, check_inputs
from tests.emulator.emulate import emulate
from tests.emulator.facts import broken_facts


def launch(compilation: explorer.Compilation, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result, a tuple of several, and the gradients of emulating each kernel once, as float64."""
    program: Any = compilation.stages["loops"].program
    code: Any = compilation.stages["cuda"].program
    code = as_declared(code, program)
    arrays, extents = check_inputs(program, inputs)
    results = getattr(program, "results", ()) or [next(b.name for b in code.buffers if b.kind == "output")]
    gradients = dict(getattr(program, "gradients", ()))
    seed, kept = zlib.crc32(compilation.name.encode()), {*results, *gradients.values()}
    written = emulate(code, arrays, extents, seed, kept)
    scheduled: Any = compilation.stages["kernels"].program
    facts = [fact for kernel in getattr(scheduled, "programs", (scheduled,)) for fact in kernel.facts]
    counted = {str(name): size for name, size in extents.items()}
    for name, count in code.counts:
        counted[name] = count.value(counted)
    broken = broken_facts(facts, {**arrays, **written}, counted)
    assert not broken, broken
    returned = as_returned(written[name].astype(np.float64) for name in results)
    return returned, {t: written[name].astype(np.float64) for t, name in gradients.items()}
