"""Joins the loops that an iteration makes over one segment, where the later ones need nothing of the earlier.

A softmax that is divided last sums its numerators in one loop and its denominators in another. Together they are one
sum of two things, which may be shared out by its elements, and what both compute of an element is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Node, rewrite
from explorer.compiler.passes.statements import closure, is_segment, names_read, pure, rename, written_names
from explorer.compiler.schedule.distribute import Body, only_loop


def join_segments(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with such loops joined; itself where there are none."""
    loop = only_loop(kernel)
    if loop is None:
        return kernel
    body = loop.body
    places = [at for at, statement in enumerate(body) if is_segment(kernel, statement)]
    if len(places) < 2:
        return kernel
    for later in places[:0:-1]:
        body = _joined(body, places[0], later) or body
    if body is loop.body:
        return kernel
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    given = {buffer.name for buffer in kernel.buffers} - outputs
    joined = tuple(_computed_once(s, given) if is_segment(kernel, s) else s for s in body)
    return replace(kernel, body=(replace(loop, body=joined),))


def _joined(body: Body, at: int, later: int) -> Body | None:
    """The statements with the loop at one place doing what the one at another does too; None where it may not."""
    first, second = body[at], body[later]
    assert isinstance(first, loops.For)
    assert isinstance(second, loops.For)
    if (first.lower, first.extent) != (second.lower, second.extent):
        return None
    between = body[at + 1 : later]
    moved = closure(between, names_read([second]))
    stay = tuple(statement for statement in between if not any(statement is each for each in moved))
    ahead = (*moved, second)
    if written_names([first]) & _touched(ahead) or written_names(ahead) & (_touched([first]) | _touched(stay)):
        return None

    def change(node: Node) -> Node:
        return rename(node, {second.variable: first.variable}) if not isinstance(node, loops.For) else node

    joined = replace(first, body=(*first.body, *(rewrite(statement, change) for statement in second.body)))
    return (*body[:at], *moved, joined, *stay, *body[later + 1 :])


def _touched(body: Iterable[loops.Statement]) -> set[str | None]:
    """What statements read or write."""
    body = tuple(body)
    return names_read(body) | written_names(body)


def _computed_once(segment: loops.Statement, given: set[str]) -> loops.Statement:
    """A segment's loop with each scalar of an element under one name."""
    assert isinstance(segment, loops.For)
    names: dict[str, str] = {}
    seen: dict[Node, str] = {}
    found: list[loops.Statement] = []
    for statement in segment.body:
        statement = rewrite(statement, lambda node: node if isinstance(node, loops.For) else rename(node, names))
        if pure(statement) and not (isinstance(statement, loops.Load) and statement.buffer not in given):
            result = str(loops.result_of(statement))
            key = replace(statement, result="")  # type: ignore[call-arg]
            if key in seen:
                names[result] = seen[key]
                continue
            seen[key] = result
        found.append(statement)
    return replace(segment, body=tuple(found))
