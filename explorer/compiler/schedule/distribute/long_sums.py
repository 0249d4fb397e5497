"""Two-level sums (rfactor): a sum over a whole set in pieces of so many elements, each of which adds its part.

    parallel for u in 0..1                     for p in 0..pieces
      for n in 0..nodes                          row y[F]
        for f { b[u, f] += x[n, f] }      ->     for n in p * 32..min(p * 32 + 32, nodes)
                                                   for f { y[f] += x[n, f] }
                                                 for f { b[0, f] += y[f] }

A piece's part is in registers; pieces add to what another kernel has cleared, by atomics: one for each number of a sum
and piece. A kernel that merged parts from memory would be one launch more, and its work would grow with the pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import few
from explorer.compiler.ir.kernels import Count, ScheduledKernel, Statement
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names
from explorer.compiler.ir.statements import pure, renamed
from explorer.compiler.passes.loops.cleared import ADDS, clear_outputs
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.nests import Body, kept_in, only_adds, only_loop, part
from explorer.compiler.schedule.edit.queries import edit
from explorer.compiler.schedule.edit.reductions import stores_added
from explorer.compiler.schedule.edit.statement_writer import Writer

LONGEST, SHORTEST = 128, 32
PIECE = Decision(
    name="piece",
    domain=(16, SHORTEST, 64, LONGEST, 256, 512),
    why="elements of a piece: more add to the sums less often, an atomic a number and piece, and leave fewer warps",
    source="128, or as few as leave 4,000 pieces, which keep an H100 busy, but 32 at least: a batch of 4,096 has 128",
)
FEWEST_PIECES = 4_000
"""Pieces that keep all multiprocessors of an H100 busy, a warp each: what the usual `piece` is told by."""


@dataclass(frozen=True)
class InPieces:
    """The kernel that clears the outputs; the nest over pieces, in two forms: one whose iterations add to the outputs,
    and one whose iterations store what they have in rows of `parts`, each of which belongs to an output; and how many
    pieces there are, by name."""

    clearing: loops.Kernel
    adding: loops.Kernel
    storing: loops.Kernel
    parts: Mapping[str, Buffer]
    count: tuple[str, Count]


def sum_in_pieces(kernel: loops.Kernel, names: Names, report: Report) -> InPieces | None:
    """The kernels of a nest whose one iteration is sums over a whole set; None for another."""
    loop = only_loop(kernel)
    if loop is None or loop.extent != 1:
        return None
    sums = [statement for statement in loop.body if not pure(statement)]
    outputs = {buffer.name: buffer for buffer in kernel.buffers if buffer.kind == "output"}
    over = {(each.lower, each.extent) for each in sums if isinstance(each, loops.For)}
    if len(over) != 1 or not all(isinstance(each, loops.For) for each in sums):
        return None
    ((lower, extent),) = over
    if lower != 0 or not isinstance(extent, str) or few(extent) or extent in dict(kernel.sizes):
        return None
    if not all(only_adds([loop], name, loop.variable) for name in outputs):
        return None
    piece = report.number(kernel.name, PIECE, _usual_piece(extent, report))
    count = names.new(f"{kernel.name}_pieces")
    parts = {names.new(f"{kernel.name}_parts"): buffer for buffer in outputs.values()}
    nest = _Nest(kernel, loop, extent, piece, count, Writer(kernel, loop.origin))
    clearing = clear_outputs(kernel, *outputs.values())
    return InPieces(clearing, nest.adding(), nest.storing(parts), parts, (count, Count(((extent, piece),))))


def added(kernel: ScheduledKernel, parts: Mapping[str, Buffer]) -> ScheduledKernel:
    """A kernel over pieces with each store of a part as an atomic sum."""

    def of(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, loops.Store) or statement.target not in parts:
            return (statement,)
        return (replace(statement, target=parts[statement.target].name, indices=(0, *statement.indices[1:])),)

    outputs = {buffer.name for buffer in parts.values()}
    body = stores_added(edit(kernel.body, of), outputs)
    names = ", ".join(buffer.name for buffer in parts.values())
    buffers = tuple(parts.get(buffer.name, buffer) for buffer in kernel.buffers)
    line = f"add to {names} atomically, a row of a piece at a time"
    return replace(kernel, buffers=buffers, body=body, schedule=(*kernel.schedule, line))


def _usual_piece(extent: str, report: Report) -> int:
    """How many elements a piece usually has, a power of 2: as many as leave enough pieces, the fewest where
    nobody knows."""
    count, piece = report.counts.of(extent) or 0, LONGEST
    while piece > SHORTEST and count // piece < FEWEST_PIECES:
        piece //= 2
    return piece


@dataclass(frozen=True)
class _Nest:
    """The sums of one iteration over `extent` elements, as a nest over `count` pieces of `piece` elements."""

    kernel: loops.Kernel
    loop: loops.For
    extent: str
    piece: int
    count: str
    write: Writer

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """What is summed."""
        return tuple(buffer for buffer in self.kernel.buffers if buffer.kind == "output")

    def adding(self) -> loops.Kernel:
        """The kernel whose iterations add to the outputs, which another has cleared."""
        own = {buffer.name: self._row(buffer) for buffer in self.outputs}
        ends = tuple(s for name, row in own.items() for s in self._ended(row, name, ()))
        return replace(self._over_pieces(own, ends, parallel=False), template=ADDS)

    def storing(self, parts: Mapping[str, Buffer]) -> loops.Kernel:
        """The kernel whose iterations store their parts."""
        own = {buffer.name: self._row(buffer) for buffer in self.outputs}
        variable = self.write.names.new("piece")
        ends = tuple(s for part, buffer in parts.items() for s in self._ended(own[buffer.name], part, (variable,)))
        made = [replace(buffer, name=part, extents=(self.count, *buffer.extents[1:])) for part, buffer in parts.items()]
        return self._over_pieces(own, ends, *made, parallel=True, variable=variable)

    def _over_pieces(
        self,
        own: Mapping[str, loops.Row | loops.Accumulator],
        ends: Body,
        *made: Buffer,
        parallel: bool,
        variable: str = "",
    ) -> loops.Kernel:
        """The kernel whose iterations sum their elements in parts of their `own`, and do with them what `ends` do."""
        write = self.write
        variable = variable or write.names.new("piece")
        begin = write.index("begin", "mul", variable, self.piece)
        past = write.index("past", "add", begin.result, self.piece)
        end = write.index("end", "min", past.result, self.extent)
        sums = tuple(self._sum(statement, own, begin.result, end.result) for statement in self.loop.body)
        first = renamed(sums, cast(Mapping[str, str], {self.loop.variable: 0}))
        declared = tuple(s for row in own.values() for s in self._declared(row))
        body = (begin, past, end, *declared, *first, *ends)
        loop = replace(self.loop, variable=variable, extent=self.count, body=body, parallel=parallel, note="")
        return part(self.kernel, self.kernel.name, loop, *made)

    def _row(self, buffer: Buffer) -> loops.Row | loops.Accumulator:
        """What a piece has of an output's sum."""
        if len(buffer.extents) == 1:
            return loops.Accumulator(name=self.write.names.new("s"), start=0.0, origin=buffer.origin)
        return loops.Row(name=self.write.names.new("y"), extents=buffer.extents[1:], origin=buffer.origin)

    def _sum(
        self, statement: loops.Statement, own: Mapping[str, loops.Row | loops.Accumulator], begin: str, end: str
    ) -> loops.Statement:
        """A loop over all elements as one over those of a piece, which adds to its parts."""
        statement = kept_in(statement, {name: row.name for name, row in own.items()})
        return replace(statement, lower=begin, extent=end) if isinstance(statement, loops.For) else statement

    def _declared(self, row: loops.Row | loops.Accumulator) -> Body:
        """A part, which begins with zeros."""
        if isinstance(row, loops.Accumulator):
            return (row,)
        return row, *self.write.cleared(row.name, row.extents)

    def _ended(self, row: loops.Row | loops.Accumulator, target: str, stored: tuple[str, ...]) -> Body:
        """A part stored in a row of `target`, or added to its only one."""
        write, extents = self.write, row.extents if isinstance(row, loops.Row) else ()
        if stored:
            return write.stored(row.name, extents, "s", target, *stored)
        variables = write.over(extents)
        if not variables:
            return (write.add(target, "sum", row.name, 0),)
        value = write.load("s", row.name, *variables)
        return write.nested(variables, extents, (value, write.add(target, "sum", value.result, 0, *variables)))
