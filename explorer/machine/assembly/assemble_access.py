"""The access unit's dataflow code as instructions: traversals become loops, events become stores and records."""

from __future__ import annotations

from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.node import Atom
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import AssemblyError, Code, Registers
from explorer.machine.assembly.binding import Binding
from explorer.machine.assembly.costs import FREE, parts
from explorer.machine.memory.memory import LEVELS

KINDS = {"i32": 0, "f32": 1}


class AccessAssembler:
    """Writes the code of one program; read its members once `assemble` has run.

    The cost of an instruction is what the core would do for it without an access unit."""

    def __init__(self, program: dlc.DlcProgram, binding: Binding, tokens: list[str], arrays: dict[str, int]) -> None:
        self.code = Code()
        self.registers = Registers()
        self.loads: list[list[int]] = []
        self.pushes: list[list[int]] = []
        self.push_nodes: list[dlc.PushOp] = []
        self.stores: list[list[int]] = []
        self.inner: list[bool] = []
        self.buffers = [list(place) for place in binding.places.values()]
        self.slices: dict[int, list[int]] = {}
        self._program = program
        self._binding = binding
        self._arrays = arrays
        self._tokens = {token: number for number, token in enumerate(tokens)}
        self._buffer_numbers = {name: number for number, name in enumerate(binding.places)}
        self._streams: dict[str, tuple[int, int]] = {}
        """Of each stream: its lanes, and 0 for an index, 1 for a float."""

    def assemble(self, slices: dict[str, list[tuple[int, int]]]) -> None:
        """Writes all traversals, then the token `done`. `slices` gives each core's bounds of outermost traversals."""
        for traversal in self._program.traversals(None):
            lower, upper = (self.registers.named(f"{bound} of {traversal.name}") for bound in ("lower", "upper"))
            bounds = slices[traversal.name]
            self.slices[lower], self.slices[upper] = [low for low, _ in bounds], [high for _, high in bounds]
            self._traversal(traversal, lower, upper)
        self.code.add(self._program, op.TOKEN, self._tokens[dlc.DONE], 0)
        self.code.add(self._program, op.HALT)

    def records(self) -> int | None:
        """How many tokens a run on one core pushes, `done` included; None if that depends on data."""
        counts = [self._records(traversal) for traversal in self._program.traversals(None)]
        return None if None in counts else 1 + sum(count for count in counts if count is not None)

    def _records(self, traversal: dlc.Traversal) -> int | None:
        lower, upper = self.known(traversal.lower), self.known(traversal.upper)
        inner = [self._records(below) for below in self._program.traversals(traversal.name)]
        callbacks = {event: self._program.callback(traversal.name, event) for event in dlc.EVENTS}
        toggled = any(callback.toggle for callback in callbacks.values() if callback)
        if lower is None or upper is None or None in inner or toggled:
            return None
        iteration = bool(callbacks["ite"]) + sum(count for count in inner if count is not None)
        ends = bool(callbacks["beg"]) + bool(callbacks["end"])
        return ends + len(range(lower, upper, traversal.stride)) * iteration

    def known(self, atom: Atom) -> int | None:
        """The number that a bound is, if that is known before the run."""
        if isinstance(atom, int):
            return atom
        return self._binding.sizes.get(atom) if isinstance(atom, str) else None

    def _traversal(self, traversal: dlc.Traversal, lower: int, upper: int) -> None:
        if traversal.stride < 1:
            raise AssemblyError(f"{traversal.name} has stride {traversal.stride}, but must go forward")
        name, number, children = traversal.name, len(self.inner), self._program.traversals(traversal.name)
        self.inner.append(not children)
        position = self.registers.named(f"{name}.ite")
        self._streams[f"{name}.ite"] = (1, KINDS["i32"])
        self._event(traversal, "beg", position, upper)
        starts = {stream.result: stream.start for stream in self._streams_of(name) if isinstance(stream, dlc.AccStream)}
        for result, start in starts.items():
            total = self.registers.named(f"sum of {result}")
            self.code.add(traversal, op.STREAM_ADD, total, self._register(start), self.registers.constant(0))
        # A loop whose bounds were loaded ends unforeseen on a core.
        surprise = ("traversal", 1.0) if self.known(traversal.upper) is None else (FREE, 0.0)
        enter = self.code.add(traversal, op.ENTER, position, lower, upper, -1, number, cost=surprise)
        body = len(self.code.rows)
        for stream in self._streams_of(name):
            self._stream(stream, traversal, number, position, upper)
        self._event(traversal, "ite", position, upper)
        for child in children:
            self._traversal(child, self._register(child.lower), self._register(child.upper))
        if traversal.parent is None:
            self.code.add(traversal, op.COUNT)
        step = ("scalar" if traversal.stride == 1 else "vector", 1.0)
        self.code.add(traversal, op.NEXT, position, upper, traversal.stride, body, cost=step)
        self.code.rows[enter][4] = len(self.code.rows)
        if not children:
            self.code.add(traversal, op.LEAVE, number)
        self._event(traversal, "end", position, upper)

    def _streams_of(self, name: str) -> tuple[dlc.Stream, ...]:
        return self._program.streams(name)

    def _stream(self, stream: dlc.Stream, traversal: dlc.Traversal, number: int, position: int, upper: int) -> None:
        add, result = self.code.add, self.registers.named(stream.result, getattr(stream, "vector", 1))
        inside = (FREE, 0.0) if self.inner[number] else ("scalar", 1.0)  # innermost addresses step with the loop
        match stream:
            case dlc.AluStream():
                left, right = (self._register(operand) for operand in stream.operands)
                add(stream, op.STREAM_FUNCTIONS[stream.function], result, left, right, cost=inside)
                self._streams[stream.result] = (1, KINDS["i32"])
            case dlc.AccStream():
                total = self.registers.named(f"sum of {stream.result}")
                add(stream, op.STREAM_ADD, result, total, self.registers.constant(0))
                add(stream, op.STREAM_ADD, total, total, self._register(stream.operand), cost=("scalar", 1.0))
                self._streams[stream.result] = (1, KINDS["i32"])
            case dlc.MemStream():
                if stream.buffer not in self._buffer_numbers:
                    raise AssemblyError(f"the access unit reads {stream.buffer}, which is no read-only buffer")
                buffer, index = self._buffer_numbers[stream.buffer], self._register(stream.index)
                cost = ("scalar", 1.0) if stream.vector == 1 else ("vector", float(parts(stream.vector)))
                add(stream, op.LOAD, result, index, len(self.loads), cost=cost)
                hints = [LEVELS[stream.level], int(stream.temporal)]
                self.loads.append([buffer, stream.vector, position, upper, number, *hints])
                self._streams[stream.result] = (stream.vector, KINDS[self._kind(stream.buffer)])

    def _kind(self, buffer: str) -> str:
        return next(entry.type for entry in self._program.buffers if entry.name == buffer)

    def _event(self, traversal: dlc.Traversal, event: dlc.Event, position: int, upper: int) -> None:
        name = traversal.name
        for store in self._program.stores(name, event):
            self._store(store, position, upper)
        pushes, callback = self._program.pushes(name, event), self._program.callback(name, event)
        toggle = -1
        if callback and callback.toggle:
            stream = self._register(callback.toggle)
            last, known = (self.registers.named(f"{word} of {callback.token}") for word in ("last", "known"))
            toggle = self.code.add(callback, op.TOGGLE, stream, last, known, -1)
        if pushes:
            first = len(self.pushes)
            self.pushes += [self._push(push) for push in pushes]
            self.push_nodes += pushes
            self.code.add(pushes[0], op.PUSH, first, len(pushes))
        if callback:
            if callback.token not in self._tokens:
                raise AssemblyError(f"the token {callback.token} has no case")
            turns = 0 if not self._program.traversals(name) else 1
            self.code.add(callback, op.TOKEN, self._tokens[callback.token], turns)
        if toggle >= 0:
            self.code.rows[toggle][4] = len(self.code.rows)

    def _push(self, push: dlc.PushOp) -> list[int]:
        register = self._register(push.stream)
        lanes, kind = self._streams.get(push.stream, (1, KINDS["i32"]))
        if push.splat > 1 and lanes > 1:
            raise AssemblyError(f"the vector {push.stream} is no scalar to be repeated")
        return [register, lanes * push.splat, int(push.splat == 1), kind]

    def _store(self, store: dlc.StoreStream, position: int, upper: int) -> None:
        if store.buffer not in self._arrays:
            raise AssemblyError(f"the access unit writes {store.buffer}, which is no output")
        array, index, register = self._arrays[store.buffer], self._register(store.index), self._register(store.stream)
        cost = ("scalar", 1.0) if store.vector == 1 else ("vector", float(parts(store.vector)))
        self.code.add(store, op.STORE, len(self.stores), cost=cost)
        self.stores.append([array, index, register, store.vector, position, upper, -1])

    def _register(self, atom: Atom) -> int:
        """The register of a stream, a size or a whole number."""
        if isinstance(atom, float):
            raise AssemblyError(f"the access unit computes with whole numbers, not with {atom}")
        if isinstance(atom, int):
            return self.registers.constant(atom)
        if atom in self._binding.sizes:
            return self.registers.constant(self._binding.sizes[atom])
        return self.registers.named(atom)
