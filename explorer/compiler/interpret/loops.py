"""What loops mean: one statement after another, in float32, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.guarded import guarded
from explorer.compiler.interpret.python.text import Environment, Text
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.lengths import with_lengths
from explorer.compiler.ir.node import walk
from explorer.compiler.stored import rounded

Outputs = dict[str, Any]
"""The arrays that a program writes, by name."""


def run_kernel(kernel: loops.Kernel, inputs: Mapping[str, Number]) -> Outputs:
    """The kernel's outputs by name, float32."""
    environment, outputs = bind(kernel.sizes, kernel.buffers, inputs)
    rows = {node.name: len(node.extents) for node in walk(kernel) if isinstance(node, loops.Row)}
    arrays = rows | {buffer.name: len(buffer.extents) for buffer in kernel.buffers}
    indices = frozenset(buffer.name for buffer in kernel.buffers if buffer.type == "i32")
    Text(kernel.body, arrays, indices, dict(kernel.sizes)).function()(environment)
    return {name: np.asarray(environment[name]) for name in outputs}


def bind(
    sizes: tuple[tuple[str, int], ...], buffers: tuple[loops.Buffer, ...], inputs: Mapping[str, Number]
) -> tuple[Environment, list[str]]:
    """The names that a program starts with, and the names of its outputs, which start as zeros.

    Extents are learnt from the arrays; a layer's `inputs` name the sizes of its sets too."""
    inputs = with_lengths([buffer.name for buffer in buffers], inputs)
    environment: Environment = {name: int(n) for name, n in inputs.items() if np.ndim(n) == 0} | dict(sizes)
    outputs = [buffer for buffer in buffers if buffer.kind == "output"]
    for buffer in buffers:
        if buffer in outputs:
            continue
        given = inputs[buffer.name]
        array = np.asarray(given, dtype=np.int64) if buffer.kind == "index" else rounded(given, buffer.storage)
        environment[buffer.name] = guarded(array, buffer.name)
        environment |= {e: n for e, n in zip(buffer.extents, array.shape, strict=True) if isinstance(e, str)}
    for buffer in outputs:
        shape = tuple(environment[e] if isinstance(e, str) else e for e in buffer.extents)
        environment[buffer.name] = guarded(np.zeros(shape, dtype=np.float32), buffer.name)
    return environment, [buffer.name for buffer in outputs]
