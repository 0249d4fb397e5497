"""Joins the loops that an iteration makes over one segment, where the later ones need nothing of the earlier.

A softmax that is divided last sums its numerators in one loop and its denominators in another. Together they are one
sum of two things, which may be shared out by its elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.statements import closure, is_segment, names_read, renamed, written_names
from explorer.compiler.schedule.edit.nests import Body, only_loop


def join_segments(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with such loops joined; itself where there are none."""
    loop = only_loop(kernel)
    if loop is None:
        return kernel
    body = loop.body
    while (joined := _join_two(kernel, body)) is not None:
        body = joined
    return kernel if body is loop.body else replace(kernel, body=(replace(loop, body=body),))


def _join_two(kernel: loops.Kernel, body: Body) -> Body | None:
    """The statements with two of their loops over one segment joined; None where there are none."""
    places = [at for at, statement in enumerate(body) if is_segment(kernel, statement)]
    for number, first in enumerate(places):
        apart = _apart(body, first)
        for later in places[number + 1 :]:
            if later in apart and (joined := _joined(body, first, later)) is not None:
                return joined
    return None


def _apart(body: Body, at: int) -> set[int]:
    """The places behind a loop of what needs nothing that it writes, directly or through what stands between."""
    written, waiting = written_names([body[at]]), set[str]()
    found: set[int] = set()
    for place, statement in enumerate(body[at + 1 :], at + 1):
        if written.isdisjoint(_touched([statement])) and waiting.isdisjoint(names_read([statement])):
            found.add(place)
        else:
            waiting |= written_names([statement]) | {loops.result_of(statement) or ""}
    return found


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
    joined = replace(first, body=(*first.body, *renamed(second.body, names)))
    return (*body[:at], *moved, joined, *stay, *body[later + 1 :])


def _touched(body: Iterable[loops.Statement]) -> set[str]:
    """What statements read or write."""
    body = tuple(body)
    return names_read(body) | written_names(body)
