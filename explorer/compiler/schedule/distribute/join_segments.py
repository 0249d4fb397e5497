"""Joins the loops that an iteration makes over one segment, where the later ones need nothing of the earlier.

A softmax that is divided last sums its numerators in one loop and its denominators in another. Together they are one
sum of two things, which may be shared out by its elements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import once
from explorer.compiler.ir.statements import is_segment, read_in, renamed, written_in
from explorer.compiler.schedule.edit.nests import Body, only_loop


@once
def join_segments(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with such loops joined; itself where there are none."""
    loop = only_loop(kernel)
    if loop is None:
        return kernel
    body = loop.body
    while (joined := _each_joined(kernel, body)) is not body:
        body = joined
    return kernel if body is loop.body else replace(kernel, body=(replace(loop, body=body),))


def _each_joined(kernel: loops.Kernel, body: Body) -> Body:
    """The statements, behind each loop over a segment those gone through once that may be joined to it."""
    place = 0
    while place < len(body):
        if is_segment(kernel, body[place]):
            joining = _Joining(body[place])
            for statement in body[place + 1 :]:
                joining.add(statement)
            if joining.joined:
                body = (*body[:place], *joining.body())
                place += len(joining.ahead)
        place += 1
    return body


class _Joining:
    """A loop with those that were joined to it, what goes `ahead` of it since they need it, and what stays behind; all
    is known of these by name, so that a loop is joined without going through the statements again."""

    def __init__(self, first: loops.Statement) -> None:
        assert isinstance(first, loops.For)
        self.first, self.joined, self.ahead = first, list[loops.Statement](), list[loops.Statement]()
        self.written = set(written_in(first))
        self.touched = self.written | read_in(first)
        self.waiting: set[str] = set()
        self.staying: dict[int, loops.Statement] = {}
        self.makers: dict[str, list[int]] = {}
        self.uses: Counter[str] = Counter()

    def add(self, statement: loops.Statement) -> None:
        """The next statement: joined, if it is a loop over the same segment that needs nothing of what is written."""
        apart = self.written.isdisjoint(_touched(statement)) and self.waiting.isdisjoint(read_in(statement))
        if apart and self._join(statement):
            return
        made = written_in(statement) | {loops.result_of(statement) or ""}
        if not apart:
            self.waiting |= made
        place = len(self.staying) + len(self.ahead)
        self.staying[place] = statement
        self.uses.update(_touched(statement))
        for name in made:
            self.makers.setdefault(name, []).append(place)

    def _join(self, second: loops.Statement) -> bool:
        """Whether a loop is joined, what it needs done ahead of both."""
        if not isinstance(second, loops.For):
            return False
        if (self.first.lower, self.first.extent) != (second.lower, second.extent):
            return False
        places = self._needed(second)
        moved = [self.staying[place] for place in places]
        ahead = (*moved, second)
        written = frozenset[str]().union(*map(written_in, ahead))
        leaving = Counter(name for statement in moved for name in _touched(statement))
        if any(not self.written.isdisjoint(_touched(statement)) for statement in ahead):
            return False
        if any(name in self.touched or self.uses[name] > leaving[name] for name in written):
            return False
        for place in places:
            del self.staying[place]
        self.uses.subtract(leaving)
        self.ahead += moved
        names = {second.variable: self.first.variable}
        self.joined += renamed(second.body, names)
        self.written |= written_in(second)
        self.touched |= {names.get(name, name) for name in _touched(second)}
        return True

    def _needed(self, reader: loops.Statement) -> list[int]:
        """The places of what a statement needs of what stays, directly or through one another, in order."""
        found: set[int] = set()
        waiting = [(len(self.staying) + len(self.ahead), reader)]
        while waiting:
            before, statement = waiting.pop()
            for name in read_in(statement):
                for place in self.makers.get(name, ()):
                    if place < before and place in self.staying and place not in found:
                        found.add(place)
                        waiting.append((place, self.staying[place]))
        return sorted(found)

    def body(self) -> Body:
        """What goes ahead, the loops as one, and what stays behind."""
        joined = replace(self.first, body=(*self.first.body, *self.joined))
        return *self.ahead, joined, *self.staying.values()


def _touched(statement: loops.Statement) -> frozenset[str]:
    """What a statement reads or writes."""
    return read_in(statement) | written_in(statement)
