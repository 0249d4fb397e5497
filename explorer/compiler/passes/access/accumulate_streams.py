"""Segments by their lengths instead of their offsets (Ember §7.4), as many recommendation models keep them.

A loop over segments reads `ptr[b]` and `ptr[b + 1]`. With lengths it reads one number a segment: a running sum gives
where a segment begins, and adding its length where it ends. The array of lengths belongs to the array of offsets:
`bag_len` holds the differences of `bag_ptr`.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.lengths import OFFSETS, lengths_name
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Names, walk
from explorer.compiler.report import Report


@each_program
def accumulate_streams(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with its segments found by their lengths, if the option asks for it."""
    if not report.options.accumulate_streams:
        return program
    accumulation = _Accumulation(program, report)
    body = accumulation.items(program.body, None)
    read = {node.buffer for node in walk(replace(program, body=body)) if isinstance(node, slc.MemStream)}
    kept = tuple(b for b in program.buffers if b.name not in accumulation.lengths or b.name in read)
    return replace(program, body=body, buffers=(*accumulation.lengths.values(), *kept))


@dataclass(frozen=True)
class _Segment:
    """`begin = ptr[b]; n = b + 1; end = ptr[n]` in the loop over b."""

    begin: slc.MemStream
    next: slc.AluStream
    end: slc.MemStream


class _Accumulation:
    def __init__(self, program: slc.SlcProgram, report: Report) -> None:
        self.report = report
        self.kernel = program.name
        self.names = Names({getattr(node, "result", "") for node in walk(program)})
        self.lengths: dict[str, loops.Buffer] = {}  # by the array of offsets

    def items(self, items: tuple[slc.Item, ...], loop: slc.SlcFor | None) -> tuple[slc.Item, ...]:
        """The items of a loop."""
        inner = tuple(replace(i, body=self.items(i.body, i)) if isinstance(i, slc.SlcFor) else i for i in items)
        while loop is not None and (segment := _segment(inner, loop.stream)) is not None:
            if loop.lower != 0:
                self.report.refused(f"{self.kernel}: {segment.begin.buffer} stays: its loop does not start at 0")
                break
            inner = self._accumulated(inner, segment, loop)
        return inner

    def _accumulated(self, items: tuple[slc.Item, ...], segment: _Segment, loop: slc.SlcFor) -> tuple[slc.Item, ...]:
        offsets, origin = segment.begin.buffer, segment.begin.origin
        name = lengths_name(offsets)
        self.lengths[offsets] = loops.Buffer(name=name, kind="index", extents=(loop.extent,), origin=origin)
        length = slc.MemStream(
            result=self.names.new("%len"), buffer=name, indices=(loop.stream,), origin=segment.end.origin
        )
        begin = slc.AccStream(result=segment.begin.result, operand=length.result, origin=origin)
        end = slc.AluStream(
            result=segment.end.result, function="add", operands=(begin.result, length.result), origin=segment.end.origin
        )
        self.report.did(f"{self.kernel}: {name} instead of {offsets}, one load a segment")
        read = [node for item in items for node in walk(item) if segment.next.result in _operands(node)]
        result: list[slc.Item] = []
        for item in items:
            if item is segment.begin:
                result += [length, begin]
            elif item is segment.end:
                result.append(end)
            elif item is not segment.next or len(read) > 1:
                result.append(item)
        return tuple(result)


def _operands(node: object) -> tuple[object, ...]:
    match node:
        case slc.MemStream() | slc.StoreStream():
            return node.indices
        case slc.AluStream():
            return node.operands
        case slc.SlcFor():
            return (node.lower, node.extent)
        case slc.ToVal() | slc.Push():
            return (node.stream,)
    return ()


def _segment(items: tuple[slc.Item, ...], position: str) -> _Segment | None:
    """The first pair of neighbouring offsets that the loop over a position reads."""
    nexts = {i.result: i for i in items if isinstance(i, slc.AluStream) and i.operands == (position, 1)}
    loads = [i for i in items if isinstance(i, slc.MemStream) and i.buffer.endswith(OFFSETS)]
    for begin in (load for load in loads if load.indices == (position,)):
        for end in (load for load in loads if load.buffer == begin.buffer and load.indices[0] in nexts):
            step = nexts[str(end.indices[0])]
            if step.function == "add":
                return _Segment(begin, step, end)
    return None
