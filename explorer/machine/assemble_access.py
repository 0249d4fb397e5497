"""The access unit's dataflow code as instructions: traversals become loops, events become records."""

from __future__ import annotations

from explorer.compiler.ir import dlc
from explorer.compiler.ir.node import Atom
from explorer.machine import opcodes as op
from explorer.machine.assembly import AssemblyError, Code, Registers
from explorer.machine.binding import Binding


class AccessAssembler:
    """Writes the code of one program; read its members once `assemble` has run."""

    def __init__(self, program: dlc.DlcProgram, binding: Binding, tokens: list[str]) -> None:
        self.code = Code()
        self.registers = Registers()
        self.operands: list[int] = []
        self.buffers = [list(place) for place in binding.places.values()]
        self.loads = 0
        self._program = program
        self._binding = binding
        self._tokens = {token: number for number, token in enumerate(tokens)}
        self._buffer_numbers = {name: number for number, name in enumerate(binding.places)}

    def assemble(self) -> None:
        """Writes all traversals, then the token `done`."""
        for traversal in self._program.traversals(None):
            self._traversal(traversal)
        self.code.add(self._program, op.RECORD, self._tokens[dlc.DONE], 0, 0)
        self.code.add(self._program, op.HALT)

    def records(self) -> int | None:
        """How many records a run pushes, `done` included; None if that depends on data."""
        counts = [self._records(traversal) for traversal in self._program.traversals(None)]
        return None if None in counts else 1 + sum(count for count in counts if count is not None)

    def _records(self, traversal: dlc.Traversal) -> int | None:
        lower, upper = self._known(traversal.lower), self._known(traversal.upper)
        inner = [self._records(below) for below in self._program.traversals(traversal.name)]
        if lower is None or upper is None or None in inner:
            return None
        fired = {event: self._program.token(traversal.name, event) is not None for event in dlc.EVENTS}
        iteration = fired["ite"] + sum(count for count in inner if count is not None)
        return fired["beg"] + fired["end"] + len(range(lower, upper, traversal.stride)) * iteration

    def _known(self, atom: Atom) -> int | None:
        if isinstance(atom, int):
            return atom
        return self._binding.sizes.get(atom) if isinstance(atom, str) else None

    def _traversal(self, traversal: dlc.Traversal) -> None:
        if traversal.stride < 1:
            raise AssemblyError(f"{traversal.name} has stride {traversal.stride}, but must go forward")
        name = traversal.name
        position = self.registers.named(f"{name}.ite")
        lower, upper = self._register(traversal.lower), self._register(traversal.upper)
        self._event(name, "beg")
        enter = self.code.add(traversal, op.ENTER, position, lower, upper, -1)
        body = len(self.code.rows)
        for stream in self._program.streams(name):
            self._stream(stream)
        self._event(name, "ite")
        for inner in self._program.traversals(name):
            self._traversal(inner)
        if traversal.parent is None:
            self.code.add(traversal, op.COUNT)
        self.code.add(traversal, op.NEXT, position, upper, traversal.stride, body)
        self.code.rows[enter][4] = len(self.code.rows)
        self._event(name, "end")

    def _stream(self, stream: dlc.MemStream | dlc.AluStream) -> None:
        result = self.registers.named(stream.result)
        if isinstance(stream, dlc.AluStream):
            left, right = (self._register(operand) for operand in stream.operands)
            self.code.add(stream, op.STREAM_FUNCTIONS[stream.function], result, left, right)
            return
        if stream.buffer not in self._buffer_numbers:
            raise AssemblyError(f"the access unit reads {stream.buffer}, which is no read-only buffer")
        number = self._buffer_numbers[stream.buffer]
        self.code.add(stream, op.LOAD, result, self._register(stream.index), number, self.loads)
        self.loads += 1

    def _event(self, traversal: str, event: dlc.Event) -> None:
        token = self._program.token(traversal, event)
        pushes = self._program.pushes(traversal, event)
        if token is None:
            if pushes:
                raise AssemblyError(f"operands are pushed at {event} of {traversal}, which has no callback")
            return
        if token not in self._tokens:
            raise AssemblyError(f"the token {token} has no case")
        first = len(self.operands)
        self.operands += [self._register(push.stream) for push in pushes]
        node = pushes[0] if pushes else self._program
        self.code.add(node, op.RECORD, self._tokens[token], first, len(pushes))

    def _register(self, atom: Atom) -> int:
        """The register of a stream, a size or a whole number."""
        if isinstance(atom, float):
            raise AssemblyError(f"the access unit computes with whole numbers, not with {atom}")
        if isinstance(atom, int):
            return self.registers.constant(atom)
        if atom in self._binding.sizes:
            return self.registers.constant(self._binding.sizes[atom])
        return self.registers.named(atom)
