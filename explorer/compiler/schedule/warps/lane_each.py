"""A lane an iteration: all that it does in one thread, its rows in registers, where these are too short for lanes.

A row of 5, 6 or 7 numbers leaves a warp's other lanes idle, and what is between such rows, of several at a time, goes
through shared memory or from lane to lane. One lane does as many instructions for an iteration as a warp would, and a
warp has 32 iterations at a time.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Tile
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.edit.primitives import bind, split, unroll
from explorer.compiler.schedule.edit.queries import (
    Body,
    edit,
    floats,
    names_of,
    scheduled,
    static_extent,
    tiles_of,
    touched_in,
)
from explorer.compiler.target import WARP

NARROW = 8
"""Numbers of the longest row up to which at most a quarter of a warp's lanes would be at work."""
MOST_FLOATS = 96
"""Floats of rows in a thread's registers."""
MOST_STATEMENTS = 3_000
"""Statements of an iteration whose loops over rows are unrolled, so that their elements are registers."""


def fits_a_lane(nest: ScheduledKernel) -> bool:
    """Whether an iteration of a nest, of which there are many, has no rows but short ones, and a thread has registers
    for all of them."""
    (batch,) = nest.body
    if not isinstance(batch, Loop) or not isinstance(batch.extent, str) or few(batch.extent):
        return False
    inner = [node for statement in batch.body for node in walk(statement) if isinstance(node, Loop)]
    innermost = (loop for loop in inner if not any(isinstance(node, Loop) for s in loop.body for node in walk(s)))
    lengths = [static_extent(nest, loop.extent) for loop in innermost]
    sizes = [floats(nest, tile) for tile in tiles_of(nest)]
    if static_extent(nest, batch.extent) is not None or any(loop.lower != 0 for loop in inner):
        return False
    if any(static_extent(nest, loop.extent) is None for loop in inner) or None in sizes:
        return False
    if any(length is None or length > NARROW for length in lengths):
        return False
    return sum(size or 0 for size in sizes) <= MOST_FLOATS and _statements(nest, batch.body) <= MOST_STATEMENTS


def _statements(nest: ScheduledKernel, body: Body) -> int:
    """How many statements an iteration has, those of unrolled loops as often as these go round."""
    return sum(_times(nest, s) * _statements(nest, s.body) if isinstance(s, Loop) else 1 for s in body)


def _times(nest: ScheduledKernel, loop: Loop) -> int:
    return (static_extent(nest, loop.extent) or 1) if _over_tiles(nest, loop) else 1


def _over_tiles(nest: ScheduledKernel, loop: Loop) -> bool:
    """Whether a loop touches rows, whose registers have no run-time index."""
    return not touched_in(loop).isdisjoint(tile.name for tile in tiles_of(nest))


def a_lane_each(nest: ScheduledKernel, variable: str, warps: int) -> ScheduledKernel:
    """The nest with an iteration for each lane of blocks of so many warps."""
    names = ", ".join(tile.name for tile in tiles_of(nest))

    def private(statement: Statement) -> Body:
        return (replace(statement, memory="register"),) if isinstance(statement, Tile) else (statement,)

    nest = scheduled(nest, f"place {names} in registers", edit(nest.body, private))
    for loop in [node for node in walk(nest) if isinstance(node, Loop) and node.variable != variable]:
        if _over_tiles(nest, loop):
            nest = unroll(nest, loop.variable)
    return share_out(nest, variable, warps, WARP)


def share_out(nest: ScheduledKernel, variable: str, warps: int, each: int) -> ScheduledKernel:
    """The iterations given to blocks, the warps of a block, and `each` to groups of a warp's lanes."""
    names = names_of(nest)
    outer, inner = names.new(f"{variable}0"), names.new(f"{variable}1")
    nest = bind(split(nest, variable, warps * each, outer, inner), outer, "block")
    if each == 1:
        return bind(nest, inner, "warp")
    of_warp, of_lanes = names.new(f"{variable}2"), names.new(f"{variable}3")
    nest = bind(split(nest, inner, each, of_warp, of_lanes), of_warp, "warp")
    return bind(nest, of_lanes, "lane", each)
