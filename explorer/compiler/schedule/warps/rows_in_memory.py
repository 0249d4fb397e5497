"""Keeps rows of an iteration in memory of the GPU where shared memory has no room for them: slower, and of any size.

    parallel for b in 0..B              output N_y[B, K, 40000]
      row y[K, 40000]                   parallel for b in 0..B
      ... y[k, i] += u          =>        ... N_y[b, k, i] += u

Each iteration has a part of the array, so that it takes as much memory as all iterations have rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.schedule.edit.nests import Body, array_of_each, stored_in


def rows_to_move(sizes: Mapping[str, int], most: int) -> tuple[str, ...]:
    """The fewest of these rows, of so many numbers each, without which the others are at most `most` numbers: the
    longest ones."""
    moved: list[str] = []
    for name in sorted(sizes, key=lambda row: (-sizes[row], row)):
        if sum(size for row, size in sizes.items() if row not in moved) <= most:
            break
        moved.append(name)
    return tuple(moved)


def rows_in_memory(kernel: loops.Kernel, rows: Collection[str], names: Names) -> loops.Kernel:
    """The kernel with these rows in arrays, which have a row for each iteration of its last loop."""
    *before, loop = kernel.body
    assert isinstance(loop, loops.For)
    declared = [node for node in walk(kernel) if isinstance(node, loops.Row) and node.name in rows]
    body: Body = (*before, *loop.body)
    made: list[Buffer] = []
    for row in declared:
        made.append(array_of_each(kernel, row, loop.extent, names))
        body = tuple(stored_in(statement, row.name, made[-1].name, loop.variable) for statement in body)
    kept = _without(body, {row.name for row in declared})
    return replace(kernel, buffers=(*kernel.buffers, *made), body=(replace(loop, body=kept),))


def _without(body: Body, rows: Collection[str]) -> Body:
    """The statements without the declarations of some rows."""
    kept = (s for s in body if not (isinstance(s, loops.Row) and s.name in rows))
    return tuple(replace(s, body=_without(s.body, rows)) if isinstance(s, loops.For) else s for s in kept)
