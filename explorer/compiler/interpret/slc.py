"""What SLC means: the access unit's loops and streams with the execute unit's callbacks, run in program order.

In a vector loop a stream stands for its live lanes: those that the mask leaves. Both units are one Python function; a
program without vectors is that of the loops that it is, whose iterations may then be done side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.loops import Outputs, bind, run_kernel
from explorer.compiler.interpret.python.units import UnitText
from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.node import Node, VerificationError, once, walk
from explorer.compiler.ir.statements import renamed


def run_slc(program: slc.SlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32. The two units see each other's values only through `to_val`."""
    kernel = as_loops(program)
    if kernel is not None:
        return run_kernel(kernel, inputs)
    environment, outputs = bind(program.sizes, program.buffers, inputs)
    _Text(program).function()(environment)
    return {name: np.asarray(environment[name]) for name in outputs}


@once
def as_loops(program: slc.SlcProgram) -> loops.Kernel | None:
    """The loops that a program is when its two units are taken for one; None where there are vectors, buffers, counters
    or toggles, or where a callback reads what one outside of its loops has defined, as loops never do."""
    ranks = {buffer.name: len(buffer.extents) for buffer in program.buffers}
    streams = [node for node in walk(program) if isinstance(node, (slc.MemStream, slc.StoreStream))]
    if any(len(stream.indices) != ranks.get(stream.buffer) for stream in streams):
        return None  # of loops, one index reaches into all of an array
    try:
        body = tuple(_statements(program.body, {}))
        kernel = loops.Kernel(
            name=program.name,
            template="",
            sizes=program.sizes,
            buffers=program.buffers,
            body=body,
            origin=program.origin,
        )
        loops.verify_kernel(kernel)
    except (_NoLoops, VerificationError):
        return None
    return kernel


class _NoLoops(Exception):
    """A program has what loops do not."""


def _statements(items: tuple[Node, ...], sent: dict[str, str]) -> Iterator[loops.Statement]:
    """Items and statements of callbacks as statements of loops, in order. What was `sent` is the stream that it is of,
    as long as the iteration is the same."""
    for item in items:
        match item:
            case slc.SlcFor(vector=1, counter=""):
                yield loops.For(
                    variable=item.stream,
                    lower=item.lower,
                    extent=item.extent,
                    body=tuple(_statements(item.body, dict(sent))),
                    origin=item.origin,
                )
            case slc.MemStream(vector=1):
                yield loops.Load(result=item.result, buffer=item.buffer, indices=item.indices, origin=item.origin)
            case slc.AluStream(vector=1):
                yield loops.Index(
                    result=item.result, function=item.function, operands=item.operands, origin=item.origin
                )
            case slc.StoreStream(vector=1):
                target, value = item.buffer, (item.stream,)
                yield loops.Store(
                    target=target, indices=item.indices, function="copy", operands=value, origin=item.origin
                )
            case slc.ToVal(vector=1, first=False, splat=1):
                sent[item.result] = item.stream
            case slc.Callback(toggle=""):
                yield from _statements(item.body, sent)
            case loops.For() if not all(map(_is_of_loops, walk(item))):
                raise _NoLoops
            case loops.For() | loops.Row() | loops.Accumulator() | loops.Accumulate() | loops.Store():
                yield from renamed((item,), sent)
            case loops.Load() | loops.Index() | loops.Compute():
                yield from renamed((item,), sent)
            case _:
                raise _NoLoops


def _is_of_loops(node: Node) -> bool:
    """Whether a statement of the execute unit is one of loops, of a single element."""
    return node.step == 1 if isinstance(node, loops.For) else isinstance(node, loops.Statement)


class _Text(UnitText):
    """The program as one function: streams are names that no value has, since they start with `%`."""

    def __init__(self, program: slc.SlcProgram) -> None:
        nodes = tuple(walk(program))
        self.buffered = frozenset(node.result for node in nodes if isinstance(node, slc.BufStream))
        self.around: list[slc.SlcFor] = []  # the loops that are being written
        self.toggles = 0
        rows = {node.name: len(node.extents) for node in nodes if isinstance(node, loops.Row)}
        read = {node.result: 1 for node in nodes if isinstance(node, slc.ToVal) and node.stream in self.buffered}
        arrays = {buffer.name: len(buffer.extents) for buffer in program.buffers}
        indices = frozenset(buffer.name for buffer in program.buffers if buffer.type == "i32")
        super().__init__(program.body, {**arrays, **rows, **read}, indices, dict(program.sizes))

    def result_of(self, node: Node) -> str | None:
        match node:
            case slc.MemStream() | slc.AluStream() | slc.AccStream() | slc.BufStream() | slc.ToVal():
                return node.result
            case slc.SlcFor():
                return node.stream
        return super().result_of(node)

    def statement(self, statement: Node) -> None:
        match statement:
            case slc.SlcFor():
                self.traverse(statement)
            case slc.Callback():
                self.callback(statement)
            case slc.Push():
                first, count = self.positions()
                self.line(f"{self.name(statement.buffer)}.append(({first}, {count}, {self.operand(statement.stream)}))")
            case slc.BufStream():
                self.line(f"{self.name(statement.result)} = []")
            case slc.MemStream() | slc.AluStream() | slc.StoreStream():
                self.live = "1"
                self.lanes_do(self.of_lanes(statement))
                self.live = ""
            case slc.AccStream():
                pass  # the loop keeps it
            case _:
                super().statement(statement)

    def of_lanes(self, item: slc.MemStream | slc.AluStream | slc.StoreStream) -> loops.Statement:
        """What an item of the access unit does in all lanes, as a statement of a region."""
        if not isinstance(item, slc.AluStream) and len(item.indices) != self.arrays[item.buffer]:
            raise TypeError(f"{item.buffer} has {self.arrays[item.buffer]} dimensions, and {len(item.indices)} indices")
        match item:
            case slc.MemStream():
                return loops.Load(result=item.result, buffer=item.buffer, indices=item.indices, origin=item.origin)
            case slc.AluStream():
                return loops.Index(
                    result=item.result, function=item.function, operands=item.operands, origin=item.origin
                )
        return loops.Store(
            target=item.buffer, indices=item.indices, function="copy", operands=(item.stream,), origin=item.origin
        )

    def traverse(self, loop: slc.SlcFor) -> None:
        sums = [item for item in loop.body if isinstance(item, slc.AccStream)]
        for item in sums:
            self.line(f"{self.name(item.result)}_next = {self.atom(item.start)}")
        if loop.counter:
            self.inner |= {loop.counter}
            counter = self.name(loop.counter)
            self.head(f"{counter} = None")
            self.line(f"if {counter} is None: {counter} = {self.atom(loop.lower)}")
        self.around.append(loop)
        bounds = f"{self.atom(loop.lower)}, {self.atom(loop.extent)}, {loop.vector}"
        with self.inside(f"for {self.name(loop.stream)} in range({bounds}):"):
            if loop.vector > 1:
                self.lanes(loop.stream, loop.vector, loop.extent)
            for item in sums:
                self.line(f"{self.name(item.result)} = {self.name(item.result)}_next")
            self.each(loop.body)
            for item in sums:
                self.line(f"{self.name(item.result)}_next = {self.name(item.result)} + {self.atom(item.operand)}")
        self.around.pop()

    def callback(self, callback: slc.Callback) -> None:
        if not callback.toggle:
            self.each(callback.body)
            return
        now, self.toggles = self.atom(callback.toggle), self.toggles + 1
        last = f"last{self.toggles}"
        self.head(f"{last} = None")
        with self.inside(f"if {now} != {last}:"):
            self.line(f"{last} = {now}")
            self.each(callback.body)

    def positions(self) -> tuple[str, str]:
        """The first position of the innermost loop that is being written, and how many lanes are live."""
        loop = self.around[-1]
        return self.name(loop.stream), str(self.width(loop.stream))

    def receive(self, statement: Node) -> None:
        if not isinstance(statement, slc.ToVal):
            super().receive(statement)
            return
        stream, splat = statement.stream, statement.splat > 1 and self.wide((statement.stream,))
        if stream in self.buffered:
            value = f"{self.constant(_buffered)}({self.name(stream)})"
            self.define(statement.result, f"{value}[0]" if statement.first else value, False)
        elif stream in self.widths and (statement.first or splat):
            self.define(statement.result, self.atom(stream), False)  # the first lane's index
        elif statement.first or splat:
            self.define(statement.result, f"{self.atom(stream)}[0]", False)
        else:
            self.define(statement.result, self.operand(stream), self.wide((stream,)))


def _buffered(parts: list[tuple[int, int, Number]]) -> Number:
    """What was pushed into a buffer, at the positions of the loop that pushed it."""
    kind = np.result_type(*(value for _, _, value in parts)) if parts else np.float32
    array = np.zeros(max((first + count for first, count, _ in parts), default=0), kind)
    for first, count, value in parts:
        array[first : first + count] = value
    return array
