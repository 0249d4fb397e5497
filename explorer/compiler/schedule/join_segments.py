"""Joins the loops that an iteration makes over one segment, where the later ones need nothing of the earlier.

A softmax that is divided last sums its numerators in one loop and its denominators in another. Together they are one
sum of two things, which may be shared out by its elements, and what both compute of an element is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import rewrite
from explorer.compiler.passes.statements import closure, is_segment, names_read, rename, written_names
from explorer.compiler.schedule.distribute import Body, only_loop


def join_segments(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with such loops joined; itself where there are none."""
    loop = only_loop(kernel)
    if loop is None:
        return kernel
    body = loop.body
    while (joined := _join_two(kernel, body)) is not None:
        body = joined
    if body is loop.body:
        return kernel
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    given = {buffer.name for buffer in kernel.buffers} - outputs
    body = tuple(_computed_once(s, given) if is_segment(kernel, s) else s for s in body)
    return replace(kernel, body=(replace(loop, body=body),))


def _join_two(kernel: loops.Kernel, body: Body) -> Body | None:
    """The statements with two of their loops over one segment joined; None where there are none."""
    places = [at for at, statement in enumerate(body) if is_segment(kernel, statement)]
    for number, first in enumerate(places):
        for later in places[number + 1 :]:
            if (joined := _joined(body, first, later)) is not None:
                return joined
    return None


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

    names = {second.variable: first.variable}
    joined = replace(first, body=(*first.body, *(_renamed(statement, names) for statement in second.body)))
    return (*body[:at], *moved, joined, *stay, *body[later + 1 :])


def _touched(body: Iterable[loops.Statement]) -> set[str | None]:
    """What statements read or write."""
    body = tuple(body)
    return names_read(body) | written_names(body)


def _renamed(statement: loops.Statement, names: Mapping[str, str]) -> loops.Statement:
    """A statement and those below it with names exchanged for others."""

    def change(node: loops.Statement) -> loops.Statement:
        return rename(node, names)

    return rewrite(statement, change)


def _computed_once(segment: loops.Statement, given: set[str]) -> loops.Statement:
    """A segment's loop with each scalar of an element under one name."""
    assert isinstance(segment, loops.For)
    names: dict[str, str] = {}
    seen: dict[loops.Statement, str] = {}
    found: list[loops.Statement] = []
    for each in segment.body:
        statement = _renamed(each, names)
        match statement:
            case loops.Index() | loops.Compute():
                key: loops.Statement = replace(statement, result="")
            case loops.Load() if statement.buffer in given:
                key = replace(statement, result="")
            case _:
                found.append(statement)
                continue
        result = str(loops.result_of(statement))
        if key in seen:
            names[result] = seen[key]
        else:
            seen[key] = result
            found.append(statement)
    return replace(segment, body=tuple(found))
