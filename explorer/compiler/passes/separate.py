"""Takes SLC apart into access code and execute code: from SLC to DLC (Ember §6.3).

Loops become traversals, streams become streams with flat addresses, callbacks become cases of the execute unit's
`while` loop, and each `to_val` becomes a push on one side and a pop on the other, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.ir import dlc, loops, slc
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Names, Node, Origin
from explorer.compiler.passes.report import Report


@each_program
def separate(program: slc.SlcProgram, report: Report) -> dlc.DlcProgram:
    """The program as two, joined by the queues."""
    separation = _Separation(program)
    roots = [separation.traversal(item, None) for item in program.body if isinstance(item, slc.SlcFor)]
    access = tuple(statement for root in roots for statement in root.statements())
    pushes = sum(isinstance(statement, dlc.PushOp) for statement in access)
    report.did(f"{len(separation.cases)} tokens, {pushes} operands pushed and popped")
    return dlc.DlcProgram(
        name=program.name,
        sizes=program.sizes,
        buffers=program.buffers,
        access=access,
        execute=tuple(separation.cases),
        origin=program.origin,
    )


@dataclass
class _Traversal:
    """A traversal while it is put together: its streams, what happens at its events, and those inside it."""

    head: dlc.Traversal
    parent: _Traversal | None
    streams: list[dlc.AccessStatement] = field(default_factory=list)
    at_iteration: list[dlc.AccessStatement] = field(default_factory=list)
    at_end: list[dlc.AccessStatement] = field(default_factory=list)
    inner: list[_Traversal] = field(default_factory=list)

    def statements(self) -> list[dlc.AccessStatement]:
        """The access code in the order in which it is printed."""
        inside = [statement for child in self.inner for statement in child.statements()]
        return [self.head, *self.streams, *self.at_iteration, *inside, *self.at_end]

    def depth(self) -> int:
        """How many traversals are around this one."""
        return self.parent.depth() + 1 if self.parent else 0

    def root(self) -> _Traversal:
        """The outermost traversal around this one."""
        return self.parent.root() if self.parent else self


class _Separation:
    def __init__(self, program: slc.SlcProgram) -> None:
        self.program = program
        self.sizes = loops.fixed_names(program.sizes, program.buffers)
        self.names = Names(self.sizes | {buffer.name for buffer in program.buffers})
        self.streams: dict[str, tuple[str, _Traversal]] = {}  # by SLC name: the DLC name and who evaluates it
        self.types: dict[str, str] = {}
        self.addresses: dict[tuple[str, tuple[Atom, Atom]], str] = {}
        self.cases: list[dlc.Case] = []

    def traversal(self, loop: slc.SlcFor, parent: _Traversal | None) -> _Traversal:
        """The loop with everything in it."""
        variable = loop.stream.removeprefix("%")
        head = dlc.Traversal(
            name=self.names.new(variable + "_tr"),
            parent=parent.head.name if parent else None,
            lower=self._atom(loop.lower),
            upper=self._atom(loop.extent),
            origin=loop.origin,
        )
        current = _Traversal(head, parent)
        self.streams[loop.stream] = (f"{head.name}.ite", current)
        self.types[loop.stream] = "i32"
        for item in loop.body:
            match item:
                case slc.SlcFor():
                    current.inner.append(self.traversal(item, current))
                case slc.MemStream():
                    self._load(item, current)
                case slc.AluStream():
                    operands = (self._atom(item.operands[0]), self._atom(item.operands[1]))
                    name = self._arithmetic(item.function, operands, current, item.origin)
                    self._name_stream(item.result, name, current, "i32")
                case slc.Callback() if current.inner:
                    last = current.inner[-1]
                    self._callback(item, last, "end", last.at_end)
                case slc.Callback():
                    self._callback(item, current, "ite", current.at_iteration)
        return current

    def _name_stream(self, stream: str, name: str, traversal: _Traversal, type_: str) -> None:
        self.streams[stream] = (name, traversal)
        self.types[stream] = type_

    def _atom(self, atom: Atom) -> Atom:
        return self.streams[atom][0] if isinstance(atom, str) and atom in self.streams else atom

    def _load(self, item: slc.MemStream, current: _Traversal) -> None:
        buffer = self.program.buffer(item.buffer)
        address: Atom = 0
        for position, index in enumerate(item.indices):
            if address != 0:
                address = self._arithmetic("mul", (address, buffer.extents[position]), current, item.origin)
                address = self._arithmetic("add", (address, self._atom(index)), current, item.origin)
            else:
                address = self._atom(index)
        name = self.names.new(item.result.removeprefix("%"))
        current.streams.append(
            dlc.MemStream(
                result=name, traversal=current.head.name, buffer=item.buffer, index=address, origin=item.origin
            )
        )
        self._name_stream(item.result, name, current, buffer.type)

    def _arithmetic(self, function: str, operands: tuple[Atom, Atom], current: _Traversal, origin: Origin) -> str:
        """The stream of an integer operation, evaluated by the outermost traversal that can, and only once."""
        key = (function, operands)
        if key not in self.addresses:
            owner = self._owner(operands, current)
            name = self.names.new("a")
            owner.streams.append(
                dlc.AluStream(
                    result=name, traversal=owner.head.name, function=function, operands=operands, origin=origin
                )
            )
            self.addresses[key] = name
            self.streams[name] = (name, owner)
        return self.addresses[key]

    def _owner(self, operands: tuple[Atom, ...], current: _Traversal) -> _Traversal:
        """The innermost traversal that an operand comes from; the outermost of all for numbers and sizes."""
        owners = [owner for name, owner in self.streams.values() if name in operands]
        return max(owners, key=_Traversal.depth, default=current.root())

    def _callback(
        self, item: slc.Callback, traversal: _Traversal, event: dlc.Event, into: list[dlc.AccessStatement]
    ) -> None:
        token = self.names.new(traversal.head.name.removesuffix("_tr") + "_" + event)
        body: list[Node] = []
        for statement in item.body:
            if isinstance(statement, slc.ToVal):
                name = self.streams[statement.stream][0]
                into.append(
                    dlc.PushOp(stream=name, traversal=traversal.head.name, event=event, origin=statement.origin)
                )
                type_ = self.types[statement.stream]
                body.append(dlc.Pop(result=statement.result, type=type_, origin=statement.origin))
            else:
                body.append(statement)
        into.append(dlc.Callback(traversal=traversal.head.name, event=event, token=token, origin=item.origin))
        self.cases.append(dlc.Case(token=token, body=tuple(body), origin=item.origin))
