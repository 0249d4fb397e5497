"""Whether a run's arrays fit into memory, told before any of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime import liveness
from explorer.runtime.arrays import extents_of, kernels_of
from explorer.runtime.inputs import InputError
from explorer.runtime.layer_inputs import tensor_shape

MEMORY_LIMIT = 2 << 30
"""The most bytes that all arrays of a run may take together, unless the caller says otherwise."""


def check_memory(
    graph: Graph,
    program: Kernel | Module,
    counts: Mapping[str, int],
    on: str,
    remedy: str,
    structure_bytes: int = 0,
    limit: int = MEMORY_LIMIT,
) -> None:
    """Raises InputError where the tensors, the structure and what kernels make would take more than `limit` bytes.

    `counts` are the sizes of the graph's sets, `on` names the data, `remedy` is what to try."""
    shapes = {tensor.name: tensor_shape(graph, tensor, counts) for tensor in graph.tensors}
    sizes = {name: 4 * prod(shape) for name, shape in shapes.items()}
    kept = liveness.kept_to_the_end(program)
    made = liveness.peak_bytes(kernels_of(program), kept, extents_of(graph, program, counts))
    total = made + structure_bytes + sum(sizes.values())
    if total > limit:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"the {graph.family} would take {total / 2**30:,.2f} GiB on {on}, more than the limit of"
            f" {limit / 2**30:,.2f} GiB: {made / 2**30:,.2f} GiB are made in the run, and of its tensors the largest,"
            f" {largest}{list(shapes[largest])}, takes {sizes[largest] / 2**30:,.2f} GiB; try {remedy}"
        )
