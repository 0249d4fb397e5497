"""opt3: vectors stay aligned to the data queue's lines (Ember §7.3).

A scalar in front of a vector shifts it across two lines. Where the scalar is the position of a loop, the execute unit
counts along instead: a counter that goes on once an iteration, at a segment-end token if there is no other, for empty
segments too. Other scalars are padded to vectors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.execute import Increment, Reset
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Names, Node, merge, rewrite, walk
from explorer.compiler.ir.statements import origin_around, rename
from explorer.compiler.passes.access.records import QUEUE_WORDS, scalar_words, vector_words
from explorer.compiler.report import Report


@each_program
def align_queues(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with nothing but whole vectors in its data queue, if there are vectors at all."""
    widths = {n.vector for n in walk(program) if isinstance(n, (slc.BufStream, slc.ToVal))} - {1}
    if not widths:
        report.refused(f"{program.name}: no vector crosses the queue, so nothing is out of line")
        return program
    alignment = _Alignment(program, report, max(widths))
    return replace(program, body=alignment.outermost(program.body))


class _Alignment:
    def __init__(self, program: slc.SlcProgram, report: Report, width: int) -> None:
        self.report = report
        self.kernel = program.name
        self.width = width
        taken = {name for node in walk(program) if (name := getattr(node, "result", None) or loops.result_of(node))}
        self.names = Names(
            taken | loops.fixed_names(program.sizes, program.buffers) | {b.name for b in program.buffers}
        )
        self.buffers = {node.result for node in walk(program) if isinstance(node, slc.BufStream)}
        self.read = {node.stream for node in walk(program) if isinstance(node, slc.ToVal)}
        self.counters: dict[str, str] = {}  # by the stream of a loop, the counter that follows it

    def items(self, items: tuple[slc.Item, ...], end: tuple[Node, ...]) -> tuple[slc.Item, ...]:
        """The items of a loop, at whose end the execute unit does what `end` says.

        A counter that has run through its loop is set back with the next thing that the execute unit does."""
        result: list[slc.Item] = []
        due: tuple[Node, ...] = ()
        called: int | None = None  # where the last callback stands, if no loop has come since
        for item in items:
            match item:
                case slc.SlcFor():
                    loop = self._loop(item)
                    result.append(loop)
                    called = None
                    if loop.counter and isinstance(loop.lower, int):
                        due = (*due, Reset(target=loop.counter, value=loop.lower, origin=loop.origin))
                case slc.Callback():
                    called = len(result)
                    result.append(_with(self._callback(item), due))
                    due = ()
                case _:
                    result.append(item)
        return _closed(result, called, (*due, *end))

    def outermost(self, items: tuple[slc.Item, ...]) -> tuple[slc.Item, ...]:
        """The program: its loops run once, so their counters need not be set back."""
        return tuple(self._loop(i) if isinstance(i, slc.SlcFor) else self._item(i) for i in items)

    def _item(self, item: slc.Item) -> slc.Item:
        return self._callback(item) if isinstance(item, slc.Callback) else item

    def _loop(self, loop: slc.SlcFor) -> slc.SlcFor:
        variable = loop.stream.removeprefix("%")
        if loop.stream not in self.read or loop.vector > 1:
            return replace(loop, body=self.items(loop.body, ()))
        if not isinstance(loop.lower, int):
            self.report.refused(f"{self.kernel}: {variable} is no counter, since it starts at {loop.lower[1:]}")
            return replace(loop, body=self.items(loop.body, ()))
        counter = self.counters[loop.stream] = self.names.new("o")
        goes_on = Increment(target=counter, origin=loop.origin)
        body = self.items(loop.body, (goes_on,))
        self.report.did(f"{self.kernel}: {variable} is not sent, the execute unit counts it")
        return replace(loop, body=body, counter=counter)

    def _callback(self, callback: slc.Callback) -> slc.Callback:
        """The callback without what is counted, all other scalars padded, if that fits the queue."""
        words = scalar_words((callback,), self.width, self.buffers) + vector_words(callback)
        body: list[Node] = []
        for statement in callback.body:
            if not isinstance(statement, slc.ToVal):
                body.append(self._counted(statement))
            elif statement.stream in self.counters:
                continue
            elif statement.vector == 1 and statement.stream not in self.buffers:
                if words > QUEUE_WORDS:
                    self.report.refused(f"{self.kernel}: {statement.result} is not padded, which would fill the queue")
                    body.append(statement)
                    continue
                body.append(replace(statement, splat=self.width, first=False))
                self.report.did(f"{self.kernel}: {statement.result} is padded to {self.width} x 4 bytes")
            else:
                body.append(statement)
        return replace(callback, body=tuple(body))

    def _counted(self, statement: Node) -> Node:
        """A statement that reads counters where it read positions."""
        names = {stream.removeprefix("%"): counter for stream, counter in self.counters.items()}

        def change(node: Any) -> Any:
            if isinstance(node, loops.For):
                lower, extent = (names.get(str(bound), bound) for bound in (node.lower, node.extent))
                return replace(node, lower=lower, extent=extent)
            return rename(node, names)

        return rewrite(statement, change)


def _closed(items: list[slc.Item], called: int | None, due: tuple[Node, ...]) -> tuple[slc.Item, ...]:
    """The items of a loop, with what is due done at the end: by the last callback, or by one of its own."""
    if not due:
        return tuple(items)
    if called is None:
        callback = slc.Callback(body=due, origin=origin_around(due, "callback", "align_queues"))
        return (*items, callback)
    last = items[called]
    assert isinstance(last, slc.Callback)
    items[called] = _with(last, due)
    return tuple(items)


def _with(callback: slc.Callback, due: tuple[Node, ...]) -> slc.Callback:
    """The callback, with what is due behind all that it does."""
    origin = merge(callback.origin, *(s.origin for s in due))
    return replace(callback, body=(*callback.body, *due), origin=origin)
