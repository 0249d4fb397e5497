"""Splits loops into lookups and compute: from the loops to SLC at opt0 (Ember §6.2).

A loop goes to the access unit when its bounds are known to it, being static or streams, and it loads from at least
one read-only location that no loop around it has read. Other loops work on what is in the execute unit already
(workspace loops) and stay there, inside callbacks. Read-only loads and index arithmetic become streams; the rest, and
what is loaded from where the execute unit writes, is computed in callbacks, which read streams through `to_val`.

Ember takes one loop to offload and one workspace loop a level, since it starts from sparse-dense products. Several
that follow one another are no harder, and a score such as TransR has them; the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Made, Node, Origin, merge, serving, walk
from explorer.compiler.ir.statements import origin_around
from explorer.compiler.report import Report

Location = tuple[str, tuple[Atom, ...]]


@each_program
def decouple(kernel: loops.Kernel, report: Report) -> slc.SlcProgram:
    """The kernel with its lookups decoupled from its compute, one callback for each run of compute statements."""
    decoupling = _Decoupling(kernel, report)
    body = decoupling.items(kernel.body, _Scope())
    for name in dict.fromkeys(n.buffer for n in walk(kernel) if isinstance(n, loops.Load)):
        if name in decoupling.written:
            report.refused(f"{kernel.name}: what is loaded from {name} stays with the execute unit, which writes it")
    return slc.SlcProgram(name=kernel.name, sizes=kernel.sizes, buffers=kernel.buffers, body=body, origin=kernel.origin)


@dataclass
class _Scope:
    """What is known at a place: the streams by the name of their loops' value, those read already, the locations."""

    streams: dict[str, Origin] = field(default_factory=dict)
    converted: set[str] = field(default_factory=set)
    locations: set[Location] = field(default_factory=set)

    def inner(self) -> _Scope:
        return _Scope(dict(self.streams), set(self.converted), set(self.locations))


class _Decoupling:
    def __init__(self, kernel: loops.Kernel, report: Report) -> None:
        self.written = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
        self.read_only = {buffer.name for buffer in kernel.buffers} - self.written
        self.fixed = loops.fixed_names(kernel.sizes, kernel.buffers)
        self.kernel = kernel.name
        self.report = report

    def items(
        self, body: tuple[loops.Statement, ...], scope: _Scope, level: str = "the outermost level"
    ) -> tuple[slc.Item, ...]:
        """The body of an offloaded loop: streams and inner loops, with the compute between them in callbacks."""
        result: list[slc.Item] = []
        compute: list[loops.Statement] = []
        for statement in body:
            if isinstance(statement, loops.For) and self._offloads(statement, scope):
                self._close(compute, scope, result)
                result.append(self._loop(statement, scope))
            elif stream := self._stream(statement, scope):
                result.append(stream)
            else:
                compute.append(statement)
        self._close(compute, scope, result)
        offloaded = [item.stream.removeprefix("%") for item in result if isinstance(item, slc.SlcFor)]
        if len(offloaded) > 1:
            names = ", ".join(offloaded)
            self.report.did(f"{self.kernel}: the loops {names} follow one another in {level}; Ember takes one a level")
        return tuple(result)

    def _offloads(self, loop: loops.For, scope: _Scope) -> bool:
        loads = {(n.buffer, n.indices) for n in walk(loop) if isinstance(n, loops.Load) and n.buffer in self.read_only}
        new = sorted(buffer for buffer, indices in loads - scope.locations)
        where = f"{self.kernel}, loop {loop.variable}"
        unknown = [b for b in (loop.lower, loop.extent) if not self._known(b, scope)]
        if unknown:
            self.report.refused(f"{where} stays with the execute unit, which computes its bound {unknown[0]}")
        elif new:
            bounds = "loaded" if {loop.lower, loop.extent} & scope.streams.keys() else "static"
            self.report.did(f"{where} offloaded: its bounds are {bounds}, it loads {', '.join(dict.fromkeys(new))}")
        elif loads:
            self.report.refused(f"{where} stays with the execute unit: a loop around it has read all that it loads")
        else:
            self.report.refused(f"{where} stays with the execute unit: a workspace loop, it loads nothing new")
        return bool(new) and not unknown

    def _known(self, atom: Atom, scope: _Scope) -> bool:
        """Whether the access unit knows an operand."""
        return not isinstance(atom, str) or atom in scope.streams or atom in self.fixed

    def _loop(self, loop: loops.For, scope: _Scope) -> slc.SlcFor:
        lower, extent = (f"%{bound}" if bound in scope.streams else bound for bound in (loop.lower, loop.extent))
        inner = scope.inner()
        inner.streams[loop.variable] = loop.origin
        body = self.items(loop.body, inner, loop.variable)
        return slc.SlcFor(
            stream="%" + loop.variable, lower=lower, extent=extent, body=body, note=loop.note, origin=loop.origin
        )

    def _stream(self, statement: loops.Statement, scope: _Scope) -> slc.MemStream | slc.AluStream | None:
        """The statement as a stream, where it is a read-only load or index arithmetic on streams."""
        if not isinstance(statement, (loops.Load, loops.Index)):
            return None
        atoms = statement.indices if isinstance(statement, loops.Load) else statement.operands
        if not all(self._known(atom, scope) for atom in atoms):
            return None
        streams = tuple(f"%{a}" if isinstance(a, str) and a in scope.streams else a for a in atoms)
        result = f"%{statement.result}"
        if isinstance(statement, loops.Index):
            scope.streams[statement.result] = statement.origin
            return slc.AluStream(result=result, function=statement.function, operands=streams, origin=statement.origin)
        if statement.buffer not in self.read_only:
            return None
        scope.streams[statement.result] = statement.origin
        scope.locations.add((statement.buffer, statement.indices))
        return slc.MemStream(result=result, buffer=statement.buffer, indices=streams, origin=statement.origin)

    def _close(self, compute: list[loops.Statement], scope: _Scope, result: list[slc.Item]) -> None:
        """Ends a run of compute statements: a callback, with `to_val` for the streams that it is the first to read."""
        if not compute:
            return
        read = [name for s in compute for node in walk(s) for name in loops.reads_of(node)]
        fresh = [n for n in dict.fromkeys(read) if n in scope.streams and n not in scope.converted]
        scope.converted.update(fresh)
        conversions = [
            slc.ToVal(result=name, stream=f"%{name}", origin=_conversion_origin(name, scope.streams[name], compute))
            for name in fresh
        ]
        body: tuple[Node, ...] = (*conversions, *compute)
        result.append(slc.Callback(body=body, origin=origin_around(body, "callback", "decouple")))
        compute.clear()


def _conversion_origin(name: str, stream: Origin, compute: list[loops.Statement]) -> Origin:
    """A conversion belongs to the operation whose value comes, or where that is a position, to those that read it."""
    readers = [node.origin for s in compute for node in walk(s) if name in loops.reads_of(node)]
    if isinstance(stream[0], Made):
        return serving(f"position {name}", "decouple", readers)
    return merge(stream, *readers)
