"""Sums in rows: what a nest adds to an output goes into a row of its own, and to memory once, when it is complete."""

from __future__ import annotations

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, Node, Origin, merge, walk
from explorer.compiler.ir.statements import all_names
from explorer.compiler.schedule.edit.nests import kept_in
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit

Access = loops.Load | loops.Store | loops.Accumulate


def sums_in_rows(nest: Nest) -> Nest:
    """The nest with a row for each output that it adds to or reads again; raises Unfit.

    An output starts as zeros in the loops, and so does the row where the nest does not fill it itself."""
    outputs = _Outputs(nest, Names(all_names(nest.kernel)))
    for buffer in nest.kernel.buffers:
        accesses = outputs.accesses.get(buffer.name, ())
        if buffer.kind == "output" and not all(isinstance(node, loops.Store) for node in accesses):
            outputs.hold(buffer)
    return outputs.nest()


def output_in_row(nest: Nest, buffer: loops.Buffer, names: Names) -> Nest:
    """The nest with a row, or an accumulator, for an output, of new `names`; raises Unfit."""
    outputs = _Outputs(nest, names)
    outputs.hold(buffer)
    return outputs.nest()


class _Outputs:
    """The outputs of a nest that rows hold: found in one walk, and exchanged in one."""

    def __init__(self, nest: Nest, names: Names) -> None:
        self._nest, self._names = nest, names
        self.accesses: dict[str, list[Node]] = {}
        self._first: dict[str, loops.Statement] = {}  # by array: the first statement of an iteration that touches it
        for statement in nest.loop.body:
            for node in walk(statement):
                if name := loops.array_of(node):
                    self.accesses.setdefault(name, []).append(node)
                    self._first.setdefault(name, statement)
        self._rows: dict[str, str] = {}  # by output: what holds it
        self._declared: list[loops.Statement] = []
        self._stored: list[loops.Statement] = []

    def hold(self, buffer: loops.Buffer) -> None:
        """Has a row, or an accumulator, hold an output; raises Unfit."""
        kernel, loop, accesses = self._nest.kernel, self._nest.loop, self.accesses.get(buffer.name, [])
        extents, origin = buffer.extents[1:], merge(*(node.origin for node in accesses))
        own = all(isinstance(node, Access) and node.indices[:1] == (loop.variable,) for node in accesses)
        if own and not extents and all(isinstance(node, loops.Accumulate) for node in accesses):
            self._hold_number(buffer.name, origin)
            return
        if not extents or not own or any(isinstance(e, str) and e not in dict(kernel.sizes) for e in extents):
            raise Unfit(f"it goes back to elements of {buffer.name} that no row holds")
        write, row = Writer.named(self._names, origin), self._names.new("y")
        declared: list[loops.Statement] = [loops.Row(name=row, extents=extents, origin=write.origin)]
        if not self._fills_first(buffer.name):
            declared += write.cleared(row, extents)
        self._rows[buffer.name] = row
        self._declared = [*declared, *self._declared]
        self._stored += write.stored(row, extents, row, buffer.name, loop.variable)

    def _hold_number(self, name: str, origin: Origin) -> None:
        """An accumulator for an output of one number an iteration, which the nest only adds to."""
        total = loops.Accumulator(name=self._names.new("s"), start=0.0, origin=origin)
        stored = loops.Store(
            target=name,
            indices=(self._nest.loop.variable,),
            function="copy",
            operands=(total.name,),
            origin=origin,
        )
        self._rows[name] = total.name
        self._declared.insert(0, total)
        self._stored.append(stored)

    def _fills_first(self, buffer: str) -> bool:
        """Whether the nest stores all of a row before it does anything else with it."""
        first = self._first.get(buffer)
        stores = isinstance(next(iter(self.accesses.get(buffer, ())), None), loops.Store)
        return stores and isinstance(first, loops.For) and self._nest.static(first)

    def nest(self) -> Nest:
        """The nest with what holds its outputs; the same where nothing does."""
        if not self._rows:
            return self._nest
        changed = tuple(kept_in(statement, self._rows) for statement in self._nest.loop.body)
        nested = replace(self._nest.loop, body=(*self._declared, *changed, *self._stored))
        return Nest(replace(self._nest.kernel, body=(nested,)), nested)
