"""A coordinate is sent when it changes (Ember §7.4): for matrices whose nonzeros each name their row.

Where a callback takes the coordinate of each nonzero, `row[z]`, only to know where a result goes, a callback of its
own sends it, at the first nonzero and whenever it differs from the one before. Sorted coordinates then cross the
queue once a row of the matrix, and not once a nonzero.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import walk
from explorer.compiler.report import Report


@each_program
def toggle_callbacks(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with a callback for each coordinate, if the option asks for it."""
    if not report.options.toggle_callbacks:
        return program
    toggling = _Toggling(program, report)
    return replace(program, body=toggling.items(program.body, ""))


class _Toggling:
    def __init__(self, program: slc.SlcProgram, report: Report) -> None:
        self.report = report
        self.kernel = program.name
        self.indices = {buffer.name for buffer in program.buffers if buffer.kind == "index"}
        self.outputs = {buffer.name for buffer in program.buffers if buffer.kind == "output"}

    def items(self, items: tuple[slc.Item, ...], position: str) -> tuple[slc.Item, ...]:
        """The items of the loop over a position."""
        inner = tuple(replace(i, body=self.items(i.body, i.stream)) if isinstance(i, slc.SlcFor) else i for i in items)
        coordinates = [
            item
            for item in inner
            if isinstance(item, slc.MemStream) and item.buffer in self.indices and item.indices == (position,)
        ]
        first = next((i for i in inner if isinstance(i, (slc.SlcFor, slc.Callback))), None)
        for coordinate in coordinates:
            conversion = self._result_place(inner, coordinate)
            if conversion is None:
                continue
            if not isinstance(first, slc.SlcFor):
                self.report.refused(f"{self.kernel}: {conversion.result} stays: each iteration calls anyway")
                continue
            toggle = slc.Callback(body=(conversion,), toggle=coordinate.result, origin=conversion.origin)
            at = inner.index(first)
            inner = (*inner[:at], toggle, *(_without(item, conversion) for item in inner[at:]))
            self.report.did(f"{self.kernel}: {conversion.result} is sent when it changes")
            break  # an event has one callback
        return inner

    def _result_place(self, items: tuple[slc.Item, ...], coordinate: slc.MemStream) -> slc.ToVal | None:
        """The conversion of the coordinate, if all that the execute unit does with it is to place a result."""
        nodes = [node for item in items for node in walk(item)]
        conversions = [n for n in nodes if isinstance(n, slc.ToVal) and n.stream == coordinate.result]
        if len(conversions) != 1:
            return None
        name = conversions[0].result
        readers = [n for n in nodes if name in loops.reads_of(n)]
        places = all(
            isinstance(n, (loops.Store, loops.Accumulate)) and n.target in self.outputs and name not in n.operands
            for n in readers
        )
        return conversions[0] if places and readers else None


def _without(item: slc.Item, conversion: slc.ToVal) -> slc.Item:
    """The item, and all inside it, without the conversion."""
    match item:
        case slc.SlcFor():
            return replace(item, body=tuple(_without(inner, conversion) for inner in item.body))
        case slc.Callback():
            return replace(item, body=tuple(s for s in item.body if s is not conversion))
    return item
