"""opt1: the innermost loops take a vector of positions at a time, in both units (Ember §7.1): from SLC to SLCV.

The access unit loads, and pushes, vectors of neighbouring elements; masks leave out positions beyond the bound. The
callback works on all lanes at once, and sums over them where it sums. Loops that the execute unit runs by itself are
vectorised alike. Sums are thereby taken in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.execute import Lanes
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Names, Node, walk
from explorer.compiler.ir.statements import origin_around
from explorer.compiler.passes.access.lanes import LaneTest
from explorer.compiler.passes.access.records import QUEUE_WORDS
from explorer.compiler.report import Report


@each_program
def vectorize(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with each innermost loop vectorised that may be."""
    if report.options.vlen == 1:
        report.refused("vectors of length 1 are scalars")
        return program
    vectorization = _Vectorization(program, report)
    return replace(program, body=vectorization.items(program.body))


class _Vectorization:
    def __init__(self, program: slc.SlcProgram, report: Report) -> None:
        self.report = report
        self.width = report.options.vlen
        self.kernel = program.name
        streams = {name for node in walk(program) if (name := getattr(node, "result", None))}
        self.names = Names(streams)

    def items(self, items: tuple[slc.Item, ...]) -> tuple[slc.Item, ...]:
        result: list[slc.Item] = []
        for item in items:
            match item:
                case slc.SlcFor() if any(isinstance(inner, slc.SlcFor) for inner in item.body):
                    result.append(replace(item, body=self.items(item.body)))
                case slc.SlcFor():
                    result += self._loop(item)
                case slc.Callback():
                    result.append(replace(item, body=self._statements(item.body)))
                case _:
                    result.append(item)
        return tuple(result)

    def _statements(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        """A callback's statements, its innermost loops vectorised."""
        return tuple(self._workspace(s) if isinstance(s, loops.For) else s for s in body)

    def _workspace(self, loop: loops.For) -> loops.For:
        where = f"{self.kernel}, loop {loop.variable} of the execute unit"
        if any(isinstance(inner, loops.For) for inner in loop.body):
            return replace(loop, body=cast("tuple[loops.Statement, ...]", self._statements(loop.body)))
        reason = LaneTest(loop.variable).statements(loop.body)
        if reason:
            self.report.refused(f"{where} stays scalar: {reason}")
            return loop
        self.report.did(f"{where}: {self.width} lanes")
        return replace(loop, step=self.width)

    def _loop(self, loop: slc.SlcFor) -> list[slc.Item]:
        """An innermost loop as a vector loop, behind the streams that are the same in all its iterations."""
        test = LaneTest(loop.stream)
        uniform: list[slc.Item] = []
        varying: list[slc.Item] = []
        callbacks = [item for item in loop.body if isinstance(item, slc.Callback)]
        for item in loop.body:
            if not isinstance(item, slc.Callback):
                moves = self._stream(item, test)
                (uniform if moves else varying).append(item)
        width = self._width(callbacks)
        bodies = [self._callback(callback, loop, varying, width) for callback in callbacks]
        reason = test.reason or next((reason for _, reason in bodies if reason), "")
        if reason:
            self.report.refused(f"{self.kernel}, loop {loop.stream[1:]} stays scalar: {reason}")
            return [replace(loop, body=self.items(loop.body))]
        mask = self.names.new("%msk")
        streams = tuple(_vector(item, width, mask) for item in varying)
        self.report.did(f"{self.kernel}, loop {loop.stream[1:]}: {width} lanes")
        calls = (replace(callback, body=body) for callback, (body, _) in zip(callbacks, bodies, strict=True))
        return [*uniform, replace(loop, vector=width, mask=mask, body=(*streams, *calls))]

    def _stream(self, item: slc.Item, test: LaneTest) -> bool:
        """Tells the test of a stream; whether it is the same for all lanes."""
        match item:
            case slc.MemStream():
                test.load(item.result, item.buffer, item.indices)
            case slc.AluStream():
                test.index(item.result, item.function, item.operands)
            case slc.StoreStream():
                test.store(item.buffer, item.indices)
        return isinstance(item, (slc.MemStream, slc.AluStream)) and item.result not in test.varying

    def _width(self, callbacks: list[slc.Callback]) -> int:
        """How many lanes a loop gets: fewer where a callback takes so many streams that vectors of all of them, of the
        position and of the bound do not fit the queue."""
        received = max((sum(isinstance(s, slc.ToVal) for s in c.body) for c in callbacks), default=0)
        return min(self.width, max(2, QUEUE_WORDS // (received + 2)))

    def _callback(
        self, callback: slc.Callback, loop: slc.SlcFor, varying: list[slc.Item], width: int
    ) -> tuple[tuple[Node, ...], str]:
        """The callback for all lanes at once, or the reason against it.

        Of the lanes' indices only the first one's position crosses the queue; others are computed from it."""
        variable = loop.stream.removeprefix("%")
        shifted = {item.result: item for item in varying if isinstance(item, slc.AluStream)}
        loaded = {item.result for item in varying if isinstance(item, slc.MemStream)}
        conversions = [s for s in callback.body if isinstance(s, slc.ToVal)]
        scalars: list[slc.ToVal] = []
        vectors: list[slc.ToVal] = []
        test = LaneTest(variable)
        for conversion in conversions:
            if conversion.stream in loaded:
                test.varying.add(conversion.result)
                vectors.append(replace(conversion, vector=width))
            elif conversion.stream not in shifted and conversion.stream != loop.stream:
                scalars.append(conversion)
        computed = _indices(loop, shifted, conversions)
        statements = (*computed, *(s for s in callback.body if not isinstance(s, slc.ToVal)))
        reason = test.statements(statements)
        if any(name.startswith("%") for index in computed for name in loops.reads_of(index)):
            reason = reason or "an index that the callback needs is shifted by another stream"
        origin = origin_around(statements, "vector", "vectorize")
        extent = loop.extent
        if isinstance(extent, str) and extent.startswith("%"):
            extent = extent.removeprefix("%")
            if extent not in {scalar.result for scalar in scalars}:
                scalars.append(slc.ToVal(result=extent, stream=f"%{extent}", origin=origin))
        first = slc.ToVal(result=variable, stream=loop.stream, first=True, origin=origin)
        region = Lanes(variable=variable, width=width, extent=extent, body=statements, origin=origin)
        return (*scalars, first, *vectors, region), reason


def _vector(item: slc.Item, width: int, mask: str) -> slc.Item:
    match item:
        case slc.MemStream() | slc.StoreStream():
            return replace(item, vector=width, mask=mask)
        case slc.AluStream():
            return replace(item, vector=width)
    return item


def _indices(
    loop: slc.SlcFor, shifted: Mapping[str, slc.AluStream], conversions: Sequence[slc.ToVal]
) -> list[loops.Index]:
    """The lanes' indices that the callback converts, computed by the execute unit where the access unit has streams of
    them, and before them those that they are shifted from."""
    converted = {conversion.stream: conversion for conversion in conversions}
    needed = {loop.stream, *converted}
    for name, stream in reversed([*shifted.items()]):
        if name in needed:
            needed.update(str(operand) for operand in stream.operands if operand in shifted)
    known: dict[Atom, str] = {name: name.removeprefix("%") for name in needed}
    return [
        loops.Index(
            result=known[name],
            function=stream.function,
            operands=tuple(known.get(operand, operand) for operand in stream.operands),
            origin=converted[name].origin if name in converted else stream.origin,
        )
        for name, stream in shifted.items()
        if name in needed
    ]
