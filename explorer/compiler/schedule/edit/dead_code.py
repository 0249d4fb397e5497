"""Leaves out what a scheduled kernel computes and nobody reads.

Templates write what most kernels need, and where a nest is cut, each part begins with all that precedes it. A compiler
of CUDA leaves out the rest by itself, but people read the text.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    Loop,
    Reduce,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    reads_of,
    result_of,
)
from explorer.compiler.ir.node import Node, once, walk
from explorer.compiler.schedule.edit.queries import Body, edit


@once
def without_unread(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel without scalars that nobody reads, without registers that are only written, and without loops and
    conditions around nothing; the same object where all is read."""
    while True:
        read, own = set[str](), set[str | None]()
        for node in walk(kernel):
            read.update(_read(node))
            if _is_own(node):
                own.add(result_of(node))
        unread = {name for name in own - read if name is not None}
        if not unread:
            return kernel
        kernel = replace(kernel, body=edit(kernel.body, partial(_kept, unread=unread)))


def _read(node: Node) -> tuple[str, ...]:
    """The names that a statement reads, but what it only adds to."""
    if not isinstance(node, (loops.Accumulate, Reduce)) or isinstance(node, AtomicAccumulate):
        return reads_of(node)
    return tuple(name for name in reads_of(node) if name != node.target)


def _target(node: Node) -> str:
    return node.target if isinstance(node, (loops.Store, loops.Accumulate, Reduce)) else ""


def _is_own(node: Node) -> bool:
    """Whether what a statement defines is its thread's alone, and defining it does nothing else."""
    scalar = isinstance(node, (loops.Index, loops.Compute, loops.Load, loops.Accumulator, Search))
    return scalar or (isinstance(node, Tile) and node.memory == "register")


def _kept(statement: Statement, unread: set[str]) -> Body:
    """The statement, or nothing where it defines or writes something unread, or has nothing inside."""
    empty = isinstance(statement, (Loop, Where)) and not statement.body
    gone = _is_own(statement) and result_of(statement) in unread
    return () if empty or gone or _target(statement) in unread else (statement,)
