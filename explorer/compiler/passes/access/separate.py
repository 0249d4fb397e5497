"""Takes SLC apart into access code and execute code: from SLC to DLC (Ember §6.3).

Loops become traversals, streams become streams with flat addresses, callbacks become cases of the execute unit's
`while` loop, and each `to_val` becomes a push on one side and a pop on the other, in the same order. What a loop
pushes into a buffer goes into the data queue at its iterations, and is popped where the callback reads the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc, slc
from explorer.compiler.ir.access.execute import Counter
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Names, Node, Origin, serving
from explorer.compiler.report import Report


@each_program
def separate(program: slc.SlcProgram, report: Report) -> dlc.DlcProgram:
    """The program as two, joined by the queues."""
    separation = _Separation(program)
    roots = separation.roots(program.body)
    access = tuple(statement for root in roots for statement in root.statements())
    pushes = sum(isinstance(statement, dlc.PushOp) for statement in access)
    report.did(f"{len(separation.cases)} tokens, {pushes} operands pushed and popped")
    return dlc.DlcProgram(
        name=program.name,
        sizes=program.sizes,
        buffers=program.buffers,
        access=access,
        counters=tuple(separation.counters),
        execute=tuple(separation.cases),
        origin=program.origin,
    )


@dataclass
class _Traversal:
    """A traversal while it is put together: its streams, what happens at its events, and those inside it."""

    head: dlc.Traversal
    depth: int
    """How many traversals are around this one."""
    streams: list[dlc.AccessStatement] = field(default_factory=list)
    at_begin: list[dlc.AccessStatement] = field(default_factory=list)
    at_iteration: list[dlc.AccessStatement] = field(default_factory=list)
    at_end: list[dlc.AccessStatement] = field(default_factory=list)
    inner: list[_Traversal] = field(default_factory=list)

    def statements(self) -> list[dlc.AccessStatement]:
        """The access code in the order in which it is printed."""
        inside = [statement for child in self.inner for statement in child.statements()]
        return [self.head, *self.at_begin, *self.streams, *self.at_iteration, *inside, *self.at_end]

    def at(self, event: dlc.Event) -> list[dlc.AccessStatement]:
        """What happens at an event, in order."""
        return {"beg": self.at_begin, "ite": self.at_iteration, "end": self.at_end}[event]


class _Separation:
    def __init__(self, program: slc.SlcProgram) -> None:
        self.program = program
        self.sizes = loops.fixed_names(program.sizes, program.buffers)
        self.names = Names(self.sizes | {buffer.name for buffer in program.buffers})
        self.streams: dict[str, tuple[str, _Traversal]] = {}  # by SLC name: the DLC name and who evaluates it
        self.types: dict[str, str] = {}
        self.addresses: dict[tuple[str, tuple[Atom, Atom]], str] = {}
        self.buffers: dict[str, slc.Push] = {}  # by the name of the array that a callback makes of it
        self.counters: list[Counter] = []
        self.cases: list[dlc.Case] = []
        self.outermost: _Traversal
        """The one around all that is put together now."""

    def roots(self, items: tuple[slc.Item, ...]) -> list[_Traversal]:
        """The outermost loops; where anything stands in no loop, one around all that runs once."""
        found = [item for item in items if isinstance(item, slc.SlcFor)]
        if len(found) < len(items):
            origin = serving("run once", "separate", [item.origin for item in items])
            found = [slc.SlcFor(stream="%once", extent=1, body=items, origin=origin)]
        return [self.traversal(loop, None) for loop in found]

    def traversal(self, loop: slc.SlcFor, parent: _Traversal | None) -> _Traversal:
        """The loop with everything in it."""
        variable = loop.stream.removeprefix("%")
        head = dlc.Traversal(
            name=self.names.new(variable + "_tr"),
            parent=parent.head.name if parent else None,
            lower=self._atom(loop.lower),
            upper=self._atom(loop.extent),
            stride=loop.vector,
            origin=loop.origin,
        )
        if loop.counter:
            assert isinstance(loop.lower, int)
            self.counters.append(Counter(name=loop.counter, start=loop.lower, origin=loop.origin))
        current = _Traversal(head, parent.depth + 1 if parent else 0)
        if parent is None:
            self.outermost = current
        self.streams[loop.stream] = (f"{head.name}.ite", current)
        self.types[loop.stream] = "i32"
        for item in loop.body:
            self._item(item, current)
        return current

    def _item(self, item: slc.Item, current: _Traversal) -> None:
        match item:
            case slc.SlcFor():
                current.inner.append(self.traversal(item, current))
            case slc.MemStream():
                self._load(item, current)
            case slc.AluStream():
                operands = (self._atom(item.operands[0]), self._atom(item.operands[1]))
                name = self._arithmetic(item.function, operands, current, item.origin)
                self._name_stream(item.result, name, self.streams[name][1], "i32")
            case slc.AccStream():
                self._sum(item, current)
            case slc.Push():
                self.buffers[item.buffer] = item
                self._push(item.stream, current, "ite", 1, item.origin)
            case slc.StoreStream():
                self._store(item, current)
            case slc.Callback() if current.inner:
                self._callback(item, current.inner[-1], "end")
            case slc.Callback():
                self._callback(item, current, "ite")

    def _name_stream(self, stream: str, name: str, traversal: _Traversal, type_: str) -> None:
        self.streams[stream] = (name, traversal)
        self.types[stream] = type_

    def _atom(self, atom: Atom) -> Atom:
        return self.streams[atom][0] if isinstance(atom, str) and atom in self.streams else atom

    def _load(self, item: slc.MemStream, current: _Traversal) -> None:
        buffer = self.program.buffer(item.buffer)
        address = self._address(buffer, item.indices, current, item.origin)
        name = self.names.new(item.result.removeprefix("%"))
        current.streams.append(
            dlc.MemStream(
                result=name,
                traversal=current.head.name,
                buffer=item.buffer,
                index=address,
                vector=item.vector,
                level=item.level,
                temporal=item.temporal,
                origin=item.origin,
            )
        )
        self._name_stream(item.result, name, current, buffer.type)

    def _address(self, buffer: loops.Buffer, indices: tuple[Atom, ...], current: _Traversal, origin: Origin) -> Atom:
        """The flat address of an element."""
        address: Atom = 0
        for position, index in enumerate(indices):
            if address != 0:
                address = self._arithmetic("mul", (address, buffer.extents[position]), current, origin)
                address = self._arithmetic("add", (address, self._atom(index)), current, origin)
            else:
                address = self._atom(index)
        return address

    def _sum(self, item: slc.AccStream, current: _Traversal) -> None:
        name = self.names.new(item.result.removeprefix("%"))
        current.streams.append(
            dlc.AccStream(
                result=name,
                traversal=current.head.name,
                operand=self._atom(item.operand),
                start=self._atom(item.start),
                origin=item.origin,
            )
        )
        self._name_stream(item.result, name, current, "i32")

    def _store(self, item: slc.StoreStream, current: _Traversal) -> None:
        address = self._address(self.program.buffer(item.buffer), item.indices, current, item.origin)
        current.at_iteration.append(
            dlc.StoreStream(
                buffer=item.buffer,
                index=address,
                stream=self.streams[item.stream][0],
                traversal=current.head.name,
                event="ite",
                vector=item.vector,
                origin=item.origin,
            )
        )

    def _arithmetic(self, function: str, operands: tuple[Atom, Atom], current: _Traversal, origin: Origin) -> str:
        """The stream of an integer operation, evaluated by the outermost traversal that can, and only once."""
        key = (function, operands)
        if key not in self.addresses:
            owner = self._owner(operands)
            name = self.names.new("a")
            owner.streams.append(
                dlc.AluStream(
                    result=name, traversal=owner.head.name, function=function, operands=operands, origin=origin
                )
            )
            self.addresses[key] = name
            self.streams[name] = (name, owner)
        return self.addresses[key]

    def _owner(self, operands: tuple[Atom, ...]) -> _Traversal:
        """The innermost traversal that an operand comes from; the outermost of all for numbers and sizes."""
        owners = [owner for name, owner in self.streams.values() if name in operands]
        return max(owners, key=lambda owner: owner.depth, default=self.outermost)

    def _push(self, stream: str, at: _Traversal, event: dlc.Event, splat: int, origin: Origin) -> None:
        name = self.streams[stream][0]
        at.at(event).append(dlc.PushOp(stream=name, traversal=at.head.name, event=event, splat=splat, origin=origin))

    def _callback(self, item: slc.Callback, at: _Traversal, event: dlc.Event) -> None:
        """A token and its case. What comes with a buffer is pushed before the loop that fills the buffer."""
        token = self.names.new(at.head.name.removesuffix("_tr") + "_" + event)
        received = [s for s in item.body if isinstance(s, slc.ToVal)]
        buffers = {s.result: self.buffers[s.stream] for s in received if s.stream in self.buffers}
        pops: list[Node] = []
        for statement in received:
            if statement.result in buffers:
                continue
            self._push(statement.stream, at, "beg" if buffers else event, statement.splat, statement.origin)
            pops.append(
                dlc.Pop(
                    result=statement.result,
                    type=self.types[statement.stream],
                    vector=statement.vector,
                    splat=statement.splat,
                    origin=statement.origin,
                )
            )
        body = [self._popping(s, buffers, 1) for s in item.body if not isinstance(s, slc.ToVal)]
        toggle = str(self._atom(item.toggle)) if item.toggle else ""
        at.at(event).append(
            dlc.Callback(traversal=at.head.name, event=event, token=token, toggle=toggle, origin=item.origin)
        )
        self.cases.append(dlc.Case(token=token, body=(*pops, *body), origin=item.origin))

    def _popping(self, statement: Node, buffers: dict[str, slc.Push], width: int) -> Node:
        """A statement that pops what it read of a buffer."""
        if isinstance(statement, loops.Load) and statement.buffer in buffers:
            type_ = self.types[buffers[statement.buffer].stream]
            return dlc.Pop(result=statement.result, type=type_, vector=width, origin=statement.origin)
        if not isinstance(statement, loops.For):
            return statement
        body = tuple(self._popping(inner, buffers, statement.step) for inner in statement.body)
        return replace(statement, body=cast("tuple[loops.Statement, ...]", body))
