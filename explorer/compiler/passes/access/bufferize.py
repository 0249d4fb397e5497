"""opt2: a loop's vectors travel as one record (Ember §7.2).

The innermost loop pushes what it loads into buffer streams, without a token; the callback moves behind the loop, and
goes over the buffers in a loop of its own. The execute unit does the same things in the same order, for one token a
row. Callbacks that nothing of the execute unit separates any more become one.

A record that is longer than the data queue is cut into parts, each with a token:

    slc.for (%part from 0 to 3) {
      %begin = slc.alu_str(*, %part, 1024)
      %end = slc.alu_str(+, %begin, 1024)
      %buf = slcv.buf_str<16>()
      slcv.for<16> ((%d, %msk) from %begin to %end) { ... slc.push(%buf, %e) }
      slcv.callback { ... for d in begin..end step 16 { e = buf[d] ... } }
    }
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.execute import Lanes
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Names, Node, serving, walk
from explorer.compiler.ir.statements import loop_origin
from explorer.compiler.passes.access.records import QUEUE_WORDS, Parts, number_of_parts, scalar_words
from explorer.compiler.report import Report


@each_program
def bufferize(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with the records of each innermost loop collected, where their number is known beforehand."""
    bufferization = _Bufferization(program, report)
    return replace(program, body=bufferization.items(program.body))


class _Bufferization:
    def __init__(self, program: slc.SlcProgram, report: Report) -> None:
        self.report = report
        self.kernel = program.name
        self.sizes = dict(program.sizes)
        self.width = report.options.vlen  # what scalars are padded to at opt3
        taken = {getattr(node, "result", "").removeprefix("%") for node in walk(program)}
        taken |= {name for node in walk(program) if (name := loops.result_of(node))}
        taken |= {node.stream.removeprefix("%") for node in walk(program) if isinstance(node, slc.SlcFor)}
        self.buffers: set[str] = set()
        self.names = Names(taken | loops.fixed_names(program.sizes, program.buffers))

    def items(self, items: tuple[slc.Item, ...]) -> tuple[slc.Item, ...]:
        """The items of a loop, with each callback joined to the one before where no token can come between them."""
        result: list[slc.Item] = []
        for item in items:
            if not isinstance(item, slc.SlcFor):
                result.append(item)
            elif any(isinstance(inner, slc.SlcFor) for inner in item.body):
                result.append(replace(item, body=self.items(item.body)))
            else:
                result += self._loop(item, scalar_words(items, self.width))
        return _joined(result, self.buffers)

    def _loop(self, loop: slc.SlcFor, around: int) -> list[slc.Item]:
        """An innermost loop: its buffers, what is left of it, and the callback that was inside it; all that in a loop
        over the parts of the record where it is too long, `around` being the words that callbacks beside it take."""
        name = loop.stream.removeprefix("%")
        callbacks = [item for item in loop.body if isinstance(item, slc.Callback)]
        streams = {s.result for s in loop.body if isinstance(s, (slc.MemStream, slc.AluStream))}
        conversions = [s for c in callbacks for s in c.body if isinstance(s, slc.ToVal)]
        buffered = [c for c in conversions if c.stream in streams]
        reason, parts = self._reason(loop, callbacks, buffered), 0
        if not reason:
            elements = loop.extent if isinstance(loop.extent, int) else self.sizes[loop.extent]
            others = around + scalar_words(callbacks, self.width) + 2 * self.width  # where a part begins and ends
            parts = number_of_parts(elements, loop.vector, len(buffered), others)
            if not parts:
                reason = f"a vector of each of {len(buffered)} streams is more than the queue holds"
        if reason:
            self.report.refused(f"{self.kernel}, loop {name} is not buffered: {reason}")
            return [loop]
        buffers = [
            slc.BufStream(result="%" + self.names.new("buf"), vector=loop.vector, origin=c.origin) for c in buffered
        ]
        self.buffers |= {buffer.result for buffer in buffers}
        pushes = [
            slc.Push(buffer=buffer.result, stream=c.stream, origin=c.origin)
            for c, buffer in zip(buffered, buffers, strict=True)
        ]
        inside = tuple(item for item in loop.body if not isinstance(item, slc.Callback))
        what = ", ".join(c.result for c in buffered)
        record = replace(loop, body=(*inside, *pushes))
        results = dict(zip([c.result for c in buffered], buffers, strict=True))
        if parts == 1:
            self.report.did(f"{self.kernel}, loop {name}: one record of {loop.extent} x ({what}), and one token")
            return [*buffers, record, _callback(loop, callbacks[0], results)]
        self.report.did(
            f"{self.kernel}, loop {name}: {parts} records of {-(-elements // parts):,} x ({what}), and a token each,"
            f" since the queue holds {QUEUE_WORDS:,} operands"
        )
        over = Parts.of(loop.extent, elements, parts, self.names, loop.origin)
        record = replace(record, lower=over.first, extent=over.end)
        items: tuple[slc.Item, ...] = (*over.bounds, *buffers, record, _callback(record, callbacks[0], results))
        return [slc.SlcFor(stream=over.stream, extent=parts, body=items, note="parts", origin=loop.origin)]

    def _reason(self, loop: slc.SlcFor, callbacks: list[slc.Callback], buffered: list[slc.ToVal]) -> str:
        if not callbacks:
            return "nothing of it crosses the queue"
        if not buffered:
            return "its callback reads nothing that it loads"
        if loop.lower != 0:
            return "it does not start at 0"
        if any(isinstance(item, slc.AccStream) for item in loop.body):
            return "it adds up as it goes"
        if not isinstance(loop.extent, int) and loop.extent not in self.sizes:
            return f"its length {loop.extent} is known only at run time, and a record must fit into the queue"
        return ""


def _callback(loop: slc.SlcFor, callback: slc.Callback, buffers: dict[str, slc.BufStream]) -> slc.Callback:
    """What the callback did at each iteration, in a loop over the buffers."""
    variable = loop.stream.removeprefix("%")
    received = [s for s in callback.body if isinstance(s, slc.ToVal)]
    scalars = [s for s in received if s.result not in buffers and s.stream != loop.stream]
    lower, extent = (
        bound.removeprefix("%") if isinstance(bound, str) else bound for bound in (loop.lower, loop.extent)
    )
    scalars += [
        slc.ToVal(result=bound.removeprefix("%"), stream=bound, origin=loop.origin)
        for bound in (loop.lower, loop.extent)
        if isinstance(bound, str) and bound.startswith("%")
    ]
    arrays = [
        slc.ToVal(result=buffer.result.removeprefix("%"), stream=buffer.result, origin=buffer.origin)
        for buffer in buffers.values()
    ]
    loads = [
        loops.Load(result=result, buffer=array.result, indices=(variable,), origin=array.origin)
        for result, array in zip(buffers, arrays, strict=True)
    ]
    rest: tuple[Node, ...] = tuple(s for s in callback.body if not isinstance(s, slc.ToVal))
    if isinstance(rest[0], Lanes):
        rest = rest[0].body
    body = cast("tuple[loops.Statement, ...]", (*loads, *rest))
    origin = loop_origin(body, extent)
    over = loops.For(variable=variable, lower=lower, extent=extent, body=body, step=loop.vector, origin=origin)
    return replace(callback, body=(*scalars, *arrays, over))


def _joined(items: list[slc.Item], buffers: set[str]) -> tuple[slc.Item, ...]:
    """The items, with each callback joined to the next one. A record has one buffered loop, and so stays short."""
    result: list[slc.Item] = []
    open_: int | None = None  # where the last callback stands, if no token has come since
    for item in items:
        if isinstance(item, slc.Callback):
            earlier = result[open_] if open_ is not None else None
            if isinstance(earlier, slc.Callback) and not (_buffered(earlier, buffers) and _buffered(item, buffers)):
                del result[cast("int", open_)]
                item = _join(earlier, item, buffers)
            open_ = len(result) if not item.toggle else None
        elif isinstance(item, slc.SlcFor) and any(isinstance(node, slc.Callback) for node in walk(item)):
            open_ = None
        result.append(item)
    return tuple(result)


def _buffered(callback: slc.Callback, buffers: set[str]) -> bool:
    return any(isinstance(s, slc.ToVal) and s.stream in buffers for s in callback.body)


def _join(first: slc.Callback, second: slc.Callback, buffers: set[str]) -> slc.Callback:
    """Both callbacks in one: what comes through the queue first, the buffers last, then all statements in order."""
    received = [s for s in (*first.body, *second.body) if isinstance(s, slc.ToVal)]
    received.sort(key=lambda s: s.stream in buffers)
    statements = [s for s in (*first.body, *second.body) if not isinstance(s, slc.ToVal)]
    origin = serving("callback", "bufferize", (first.origin, second.origin))
    return slc.Callback(body=(*received, *statements), origin=origin)
