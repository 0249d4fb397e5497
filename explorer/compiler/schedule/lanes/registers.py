"""How many registers a thread needs whose rows are tiles on lanes, and so how many blocks a multiprocessor holds."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.functions import COSTLY
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.lanes.mapping import Spread
from explorer.compiler.target import GpuTarget

OTHER_REGISTERS = 24
"""Registers of a thread for what is no tile, as assemblers need them: indices, addresses, what is being computed."""
SUMMING_REGISTERS, FUNCTION_REGISTERS = 12, 16
"""Those for sums that lanes join in the midst of others, and for exp and its like."""
FEWEST_FLOATS = 16
"""Floats in tiles from which on a thread needs more registers than the assembler gives it by itself."""


def with_resident(kernel: kernels.ScheduledKernel, spread: Spread, target: GpuTarget) -> kernels.ScheduledKernel:
    """The kernel with so many blocks a multiprocessor that its threads have registers for all of their tiles.

    Without tiles to fill, how many is left to the assembler."""
    needed = registers_of(kernel, spread)
    return replace(kernel, resident=target.resident(kernel.threads, needed)) if needed else kernel


def registers_of(kernel: kernels.ScheduledKernel, spread: Spread) -> int:
    """The registers that a thread needs; 0 where it has hardly a tile to fill, and the assembler finds enough."""
    lanes = {node.variable for node in walk(kernel) if isinstance(node, kernels.Loop) and node.bind == "lane"}
    loads = [node for node in walk(kernel) if isinstance(node, loops.Load)]
    spread_out = {load.buffer for load in loads if load.indices[-1:] and load.indices[-1] in lanes}

    def mine(tile: kernels.Tile) -> int:
        *outer, last = (kernel.size(extent) for extent in tile.extents)
        own = -(-last // (spread.step * spread.width)) * spread.step if tile.name in spread_out else last
        return prod(outer) * own

    floats = _most_at_once(kernel.body, mine)
    return OTHER_REGISTERS + _working(kernel) + floats if floats >= FEWEST_FLOATS else 0


def _most_at_once(body: tuple[kernels.Statement, ...], mine: Callable[[kernels.Tile], int]) -> int:
    """The most floats that tiles in registers have at a time, of each what is a thread's."""
    floats, inside = 0, 0
    for node in body:
        if isinstance(node, kernels.Tile) and node.memory == "register" and node.type == "f32":
            floats += mine(node)
        elif isinstance(node, (kernels.Loop, kernels.Where)):
            inside = max(inside, _most_at_once(node.body, mine))
    return floats + inside


def _working(kernel: kernels.ScheduledKernel) -> int:
    """Registers for joining sums over lanes and inside of costly functions."""
    joins = any(isinstance(node, kernels.Reduce) and node.apart == 1 for node in walk(kernel))
    costly = any(isinstance(node, loops.Compute) and node.function in COSTLY for node in walk(kernel))
    return SUMMING_REGISTERS * joins + FUNCTION_REGISTERS * costly
