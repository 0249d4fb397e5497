"""What DLC means: an access unit that fills two queues, and an execute unit that empties them.

The queues are unbounded here; the machine bounds them. The access unit runs ahead by one token at a time: both units
are one Python function, in which a case stands where its token is pushed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.loops import Outputs, bind
from explorer.compiler.interpret.python.units import UnitText
from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.access.execute import Counter
from explorer.compiler.ir.node import Atom, Node, walk

Record = tuple[str, tuple[Number, ...]]
"""A token with its operands, word by word."""
Queue = deque[tuple[int, Any]]
"""What has been pushed and not yet popped: operands, each with its words. One of several words is a vector or, pushed
several times, a number."""


def run_dlc(program: dlc.DlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32; raises RuntimeError if a case does not pop what its record holds."""
    environment, outputs = bind(program.sizes, program.buffers, inputs)
    _Text(program).function()(environment)
    return {name: np.asarray(environment[name]) for name in outputs}


def pushed(program: dlc.DlcProgram, inputs: Mapping[str, Number], tokens: int | None = None) -> list[Record]:
    """The first tokens that the access unit pushes, or all, each with its operands: what the queues hold, in order."""
    environment, _ = bind(program.sizes, program.buffers, inputs)
    records: list[Record] = []

    def take(token: str, queue: Queue) -> None:
        records.append((token, tuple(word for words, value in queue for word in _words(words, value))))
        queue.clear()
        if len(records) == tokens:
            raise _Enough

    try:
        if tokens != 0:
            _Text(program, take).function()(environment)
    except _Enough:
        pass
    return records


PIECE = "%"
"""What the first address of a vector is called."""


class _Enough(Exception):
    """As many tokens were pushed as somebody asked for."""


class _Text(UnitText):
    """The program as one function. What the access unit defines is called as no value of the execute unit is: `%e`.

    With `take`, that is called for each token and what the queue holds, and the execute unit does nothing."""

    def __init__(self, program: dlc.DlcProgram, take: Callable[[str, Queue], None] | None = None) -> None:
        nodes = tuple(walk(program))
        self.program, self.take = program, take
        self.cases = {case.token: case.body for case in program.execute}
        self.streams = frozenset(_defined(statement) for statement in program.access)
        self.vector_streams = {s.result: s.vector for s in program.access if isinstance(s, dlc.MemStream)}
        self.longer = frozenset(node.result for node in nodes if isinstance(node, dlc.Pop) and node.vector > 1)
        rows = {node.name: len(node.extents) for node in nodes if isinstance(node, loops.Row)}
        arrays = {buffer.name: len(buffer.extents) for buffer in program.buffers}
        indices = frozenset(buffer.name for buffer in program.buffers if buffer.type == "i32")
        super().__init__((program,), {**arrays, **rows}, indices, dict(program.sizes))

    def result_of(self, node: Node) -> str | None:
        match node:
            case dlc.DlcProgram():
                return PIECE
            case dlc.Traversal() | dlc.MemStream() | dlc.AluStream() | dlc.AccStream():
                return _sent(_defined(node))
            case dlc.Pop():
                return node.result
            case Counter():
                return node.name
        return super().result_of(node)

    def statement(self, statement: Node) -> None:
        if not isinstance(statement, dlc.DlcProgram):
            super().statement(statement)
            return
        self.line(f"queue = {self.constant(deque)}()")
        for counter in statement.counters:
            self.line(f"{self.name(counter.name)} = {counter.start}")
        for root in statement.traversals(None):
            self.traverse(root)
        self.token(dlc.DONE, ())

    def stream(self, atom: Atom) -> str:
        """What the text calls an operand of the access unit."""
        return self.atom(_sent(atom) if atom in self.streams else atom)

    def traverse(self, traversal: dlc.Traversal) -> None:
        own = self.program.streams(traversal.name)
        sums = [stream for stream in own if isinstance(stream, dlc.AccStream)]
        for each in sums:
            self.line(f"{self.stream(each.result)}_next = {self.stream(each.start)}")
        self.event(traversal, "beg")
        position, upper = self.stream(f"{traversal.name}.ite"), self.stream(traversal.upper)
        bounds = f"{self.stream(traversal.lower)}, {upper}, {traversal.stride}"
        with self.inside(f"for {position} in range({bounds}):"):
            if traversal.stride > 1:
                self.line(f"{position}_live = min({traversal.stride}, {upper} - {position})")
            for stream in own:
                self.evaluate(traversal, stream)
            self.event(traversal, "ite")
            for inner in self.program.traversals(traversal.name):
                self.traverse(inner)
        self.event(traversal, "end")

    def evaluate(self, traversal: dlc.Traversal, stream: dlc.Stream) -> None:
        name = self.stream(stream.result)
        match stream:
            case dlc.AccStream():
                self.line(f"{name} = {name}_next")
                self.line(f"{name}_next = {name} + {self.stream(stream.operand)}")
            case dlc.AluStream():
                operands = tuple(_sent(atom) if atom in self.streams else atom for atom in stream.operands)
                self.line(f"{name} = {self.index_value(stream.function, operands)}")
            case dlc.MemStream(vector=1):
                self.line(f"{name} = {self.loaded(stream.buffer, self.flat(stream.index))}")
            case dlc.MemStream():
                live = self.live_of(traversal.name)
                piece = self.piece(stream.buffer, stream.index, live)
                self.line(f"{name} = {self.constant(_whole)}({piece}, {live}, {stream.vector})")

    def piece(self, buffer: str, index: Atom, live: str) -> str:
        """So many elements of a buffer from an address on."""
        self.line(f"{self.name(PIECE)} = {self.stream(index)}")
        self.widths[PIECE] = live
        return self.element(buffer, (PIECE,))

    def flat(self, index: Atom) -> tuple[Atom]:
        """The indices of an access of the access unit: a flat address."""
        return (_sent(index) if index in self.streams else index,)

    def vector_of(self, stream: str) -> int:
        """How many elements a stream has."""
        return self.vector_streams.get(stream, 1)

    def live_of(self, traversal: str) -> str:
        """How many lanes of a vector traversal lie below its bound."""
        return f"{self.stream(f'{traversal}.ite')}_live"

    def event(self, traversal: dlc.Traversal, event: dlc.Event) -> None:
        """What the access unit does at an event."""
        for store in self.program.stores(traversal.name, event):
            self.store(store)
        callback = self.program.callback(traversal.name, event)
        if callback is None or not callback.toggle:
            self.send(traversal, event, callback)
            return
        now = self.stream(callback.toggle)
        last = f"{now}_at{list(self.cases).index(callback.token)}"
        self.head(f"{last} = None")
        with self.inside(f"if {now} != {last}:"):
            self.line(f"{last} = {now}")
            self.send(traversal, event, callback)

    def store(self, store: dlc.StoreStream) -> None:
        value = self.stream(store.stream)
        if store.vector == 1:
            self.line(f"{self.element(store.buffer, self.flat(store.index))} = {value}")
            return
        live = self.live_of(store.traversal)
        piece = self.piece(store.buffer, store.index, live)
        self.line(f"{piece} = {value}[:{live}]" if self.vector_of(store.stream) > 1 else f"{piece} = {value}")

    def send(self, traversal: dlc.Traversal, event: dlc.Event, callback: dlc.Callback | None) -> None:
        """The operands of an event, and its token."""
        for push in self.program.pushes(traversal.name, event):
            words = push.splat * self.vector_of(push.stream)
            self.line(f"queue.append(({words}, {self.stream(push.stream)}))")
        if callback is not None:
            self.token(callback.token, self.cases[callback.token])

    def token(self, token: str, body: tuple[Node, ...]) -> None:
        """What the execute unit does for a token."""
        if self.take is not None:
            self.line(f"{self.constant(self.take)}({self.constant(token)}, queue)")
            return
        self.each(body)
        self.line(f"if queue: {self.constant(_left)}(queue, {self.constant(token)})")

    def receive(self, statement: Node) -> None:
        if not isinstance(statement, dlc.Pop):
            super().receive(statement)
            return
        value = f"{self.constant(_popped)}(queue, {self.constant(statement.result)}, {statement.words})"
        if statement.vector > 1:
            kind = self.constant(np.float32 if statement.type == "f32" else np.int64)
            self.define(statement.result, f"{self.constant(_vector)}({value}, {statement.words}, {kind})", True)
        else:
            first = f"{self.constant(_first)}({value})" if statement.splat > 1 else value
            number = self.constant(np.float32) if statement.type == "f32" else "int"
            self.define(statement.result, f"{number}({first})", False)


def _defined(statement: Node) -> str:
    """The name that a statement of the access unit defines; "" for others."""
    if isinstance(statement, dlc.Traversal):
        return f"{statement.name}.ite"
    return statement.result if isinstance(statement, dlc.Stream) else ""


def _sent(name: Atom) -> str:
    return f"%{name}"


def _whole(piece: Number, live: int, vector: int) -> Number:
    """A vector whose live lanes were loaded, the others 0."""
    if live == vector == len(piece):
        return piece
    lanes = np.zeros(vector, piece.dtype)
    lanes[:live] = piece
    return lanes


def _words(words: int, value: Number) -> Number:
    """An operand word by word."""
    return value if np.ndim(value) else np.repeat(value, words)


def _popped(queue: Queue, name: str, words: int) -> Number:
    if not queue or queue[0][0] != words:
        there = f"the next operand has {queue[0][0]} words" if queue else "nothing is left in the queue"
        raise RuntimeError(f"{name} is popped, {words} word{'s' * (words > 1)} of it, but {there}")
    return queue.popleft()[1]


def _vector(value: Number, words: int, kind: type) -> Number:
    return np.asarray(value, kind) if np.ndim(value) else np.full(words, value, kind)


def _first(value: Number) -> Number:
    return value[0] if np.ndim(value) else value


def _left(queue: Queue, token: str) -> None:
    raise RuntimeError(f"{len(queue)} operands were never popped after {token}")
