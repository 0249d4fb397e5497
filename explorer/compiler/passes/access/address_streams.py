"""Addresses are sent in place of indices (Ember §7.3): the access unit says where in an output a result goes.

Where the execute unit takes indices only to reach an element of an output, `out[b, e]`, the access unit computes their
part of the flat address, `b * D`, and sends that: one operand instead of one an index, and nothing to count, so that no
token need tell of a segment's end. The execute unit adds the indices of its own loops, and reaches `out[at]`. Like any
index an address is sent in 32 bits; the machine reports one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.access.execute import Lanes, body_of, reads_of
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Extent, Names, Node, Origin, walk
from explorer.compiler.report import Report

Access = loops.Load | loops.Store | loops.Accumulate
Part = tuple[str, ...]
"""The indices of an access to an output that are sent together, by dimension; "" for those that are not sent."""


@each_program
def address_streams(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with an address for each set of indices that serve to find an output's element, if the option asks
    for it."""
    if not report.options.address_streams:
        return program
    addressing = _Addressing(program, report)
    return replace(program, body=tuple(addressing.items(program.body)))


class _Addressing:
    def __init__(self, program: slc.SlcProgram, report: Report) -> None:
        self.report = report
        self.kernel = program.name
        self.extents = {buffer.name: buffer.extents for buffer in program.buffers if buffer.kind == "output"}
        nodes = list(walk(program))
        taken = {name for node in nodes if (name := getattr(node, "result", None) or loops.result_of(node))}
        taken = {name.removeprefix("%") for name in taken} | {buffer.name for buffer in program.buffers}
        self.names = Names(taken | loops.fixed_names(program.sizes, program.buffers))
        self.callbacks = [set(_received(node)) for node in nodes if isinstance(node, slc.Callback)]
        before = len(report.refusals)
        self.parts = self._parts(nodes)
        self.addresses = {part: self.names.new("at") for part in dict.fromkeys(self.parts.values())}
        if not self.parts and len(report.refusals) == before:
            report.refused(f"{self.kernel}: no index that is sent serves only to find an output's element")

    def _parts(self, nodes: list[Node]) -> dict[str, tuple[str, Part]]:
        """By index that is sent: the output that it serves to address, and the indices that go with it."""
        accesses = [node for node in nodes if isinstance(node, Access) and _memory(node) in self.extents]
        sent = {name for received in self.callbacks for name in received}
        sent = {name for name in sent if any(name in access.indices for access in accesses)}
        sent -= {name for name in sorted(sent) if self._computes_with(name, nodes)}
        shapes: dict[str, set[tuple[str, Part]]] = {name: set() for name in sent}
        for access in accesses:
            part = tuple(str(index) if index in sent else "" for index in access.indices)
            for name in sent & set(part):
                shapes[name].add((_memory(access), part))
        parts = {name: next(iter(shapes[name])) for name in sorted(sent) if not self._stays(name, shapes[name])}
        return {name: part for name, part in parts.items() if all(other in parts for other in part[1] if other)}

    def _computes_with(self, name: str, nodes: list[Node]) -> bool:
        """Whether the execute unit does anything else with an index."""
        for node in nodes:
            places = isinstance(node, Access) and _memory(node) in self.extents
            if name in reads_of(node) and (not places or name in getattr(node, "operands", ())):
                self.report.refused(f"{self.kernel}: {name} stays, since the core needs the index itself")
                return True
        return False

    def _stays(self, name: str, shapes: set[tuple[str, Part]]) -> bool:
        """Whether an index goes on being sent, or counted, as it is."""
        (target, part), *others = shapes
        together = {other for other in part if other}
        reason = ""
        if others:
            reason = "it is a part of several addresses"
        elif len(part) == 1:
            reason = f"{target} has one dimension, so that its index is its address"
        elif any(0 < len(together & received) < len(together) for received in self.callbacks):
            reason = f"it is not sent together with {', '.join(sorted(together - {name}))}"
        if reason:
            self.report.refused(f"{self.kernel}: {name} stays, since {reason}")
        return bool(reason)

    def items(self, items: tuple[slc.Item, ...]) -> Iterator[slc.Item]:
        """The items of a loop, each callback behind the streams of the addresses that it takes."""
        for item in items:
            match item:
                case slc.SlcFor():
                    yield replace(item, body=tuple(self.items(item.body)))
                case slc.Callback():
                    yield from self._callback(item)
                case _:
                    yield item

    def _callback(self, callback: slc.Callback) -> Iterator[slc.Item]:
        received = _received(callback)
        firsts: dict[str, slc.ToVal] = {}  # what is sent in place of the first index of each address
        for name, conversion in received.items():
            target, part = self.parts.get(name, ("", ()))
            together = [other for other in part if other]
            if not together or together[0] != name:
                continue
            streams: list[slc.AluStream] = []
            indices = tuple(received[other].stream if other else 0 for other in part)
            address = _flat(indices, self.extents[target], partial(self._arithmetic, streams, conversion.origin))
            yield from streams
            firsts[name] = slc.ToVal(result=self.addresses[target, part], stream=str(address), origin=conversion.origin)
            self.report.did(f"{self.kernel}: an address in {target} is sent in place of {', '.join(together)}")
        body: list[Node] = []
        for statement in callback.body:
            if not isinstance(statement, slc.ToVal):
                body += self._statement(statement)
            elif statement.result in firsts:
                body.append(firsts[statement.result])
            elif statement.result not in self.parts:
                body.append(statement)
        yield replace(callback, body=tuple(body))

    def _arithmetic(self, streams: list[slc.AluStream], origin: Origin, function: str, left: Atom, right: Atom) -> Atom:
        """A step of the access unit towards an address."""
        result = f"%{self.names.new('a')}"
        streams.append(slc.AluStream(result=result, function=function, operands=(left, right), origin=origin))
        return result

    def _statement(self, statement: Node) -> Iterator[Node]:
        """A statement of the execute unit, behind what is left for it to compute of an address."""
        if isinstance(statement, (loops.For, Lanes)):
            body = tuple(inner for each in body_of(statement) for inner in self._statement(each))
            yield replace(statement, body=cast("tuple[loops.Statement, ...]", body))
            return
        sent = {index for index in getattr(statement, "indices", ()) if index in self.parts}
        if not isinstance(statement, Access) or not sent:
            yield statement
            return
        key = self.parts[str(min(sent))]
        steps: list[loops.Index] = []
        step = partial(self._index, steps, statement.origin)
        own = tuple(0 if index in sent else index for index in statement.indices)
        place, address = _flat(own, self.extents[key[0]], step), self.addresses[key]
        at = address if place == 0 else step("add", address, place)
        yield from steps
        yield replace(statement, indices=(at,))

    def _index(self, steps: list[loops.Index], origin: Origin, function: str, left: Atom, right: Atom) -> Atom:
        """A step of the execute unit towards an address."""
        result = self.names.new("a")
        steps.append(loops.Index(result=result, function=function, operands=(left, right), origin=origin))
        return result


def _flat(indices: tuple[Atom, ...], extents: tuple[Extent, ...], step: Callable[[str, Atom, Atom], Atom]) -> Atom:
    """The flat address of an element, each step of the arithmetic done by `step`."""
    address: Atom = 0
    for index, extent in zip(indices, extents, strict=True):
        if address != 0:
            address = step("mul", address, extent)
        if index != 0:
            address = index if address == 0 else step("add", address, index)
    return address


def _received(callback: slc.Callback) -> dict[str, slc.ToVal]:
    """The scalars that a callback takes whole, by name."""
    return {
        statement.result: statement
        for statement in callback.body
        if isinstance(statement, slc.ToVal) and statement.vector == 1 and not statement.first
    }


def _memory(access: Access) -> str:
    return access.buffer if isinstance(access, loops.Load) else access.target
