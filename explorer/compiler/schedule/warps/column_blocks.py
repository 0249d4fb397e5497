"""Columns of blocks: the iterations of a loop that is all that an iteration of the parallel loop does.

A matrix for each of a few hundred relations is little work for as many warps one row after another, and enough for all
multiprocessors with a block for each few rows.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.decisions import Decision
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Where
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.ir.node import walk
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.primitives import split, unroll
from explorer.compiler.schedule.edit.queries import edit, names_of, scheduled, static_extent
from explorer.compiler.schedule.fitting import nearest

ROWS = Decision(
    name="rows",
    domain=(0, 1, 2, 4, 8),
    why="iterations of such a loop that a block has side by side, so that their loads are in flight together; 0 for all"
    " one after another",
    source="8, or the most that divides them; measured on an H100",
)
FEWEST = 16
"""Iterations that are worth columns."""


def in_columns(nest: ScheduledKernel, outputs: set[str], report: Report) -> ScheduledKernel:
    """The nest with such a loop given to columns of blocks; itself where there is none."""
    loop = _only_loop(nest)
    size = static_extent(nest, loop.extent) if loop is not None else None
    if loop is None or size is None or size < FEWEST or not _apart(loop, outputs):
        return nest
    fitting = tuple(rows for rows in map(int, ROWS.domain) if not rows or size % rows == 0)
    rows = nearest(nest.name, ROWS, fitting[-1], fitting, report, f"{loop.variable} has {size} iterations")
    if not rows:
        return nest
    names = names_of(nest)
    column, row = names.new(f"{loop.variable}0"), names.new(f"{loop.variable}1")
    cut = unroll(split(nest, loop.variable, rows, column, row), row)
    (blocks,) = edit(cut.body, lambda s: s.body if isinstance(s, Loop) and s.variable == column else (s,))
    assert isinstance(blocks, Loop)
    columns = Loop(variable=column, extent=size // rows, body=blocks.body, bind="column", origin=loop.origin)
    return scheduled(cut, f"bind {column} to column", (replace(blocks, body=(columns,)),))


def _only_loop(nest: ScheduledKernel) -> Loop | None:
    """The loop over rows that is the one thing that an iteration, or one of its heads, does, where it holds loops of
    its own."""
    found: Statement = nest.body[0]
    alone = False
    while isinstance(found, Where) or (isinstance(found, Loop) and found.bind):
        alone = len(found.body) == 1
        found = found.body[-1]
    while isinstance(found, Loop) and len(found.body) == 1 and (static_extent(nest, found.extent) or 0) < FEWEST:
        found = found.body[0]
    if not alone or not isinstance(found, Loop) or found.bind:
        return None
    return found if any(isinstance(s, Loop) for s in found.body) else None


def _apart(loop: Loop, outputs: set[str]) -> bool:
    """Whether no iteration touches what another writes."""
    for node in walk(loop):
        if isinstance(node, Load) and node.buffer in outputs and loop.variable not in node.indices:
            return False
        if isinstance(node, (Store, Accumulate)) and node.target in outputs and loop.variable not in node.indices:
            return False
    return loop.lower == 0 and loop.step == 1
