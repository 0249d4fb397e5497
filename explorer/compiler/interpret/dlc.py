"""What DLC means: an access unit that fills two queues, and an execute unit that empties them.

The queues are unbounded here; the machine bounds them. The access unit runs ahead by one token at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from explorer.compiler.interpret.execute import ExecuteUnit, number
from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.loops import Outputs, bind
from explorer.compiler.interpret.python import Environment
from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node

Record = tuple[str, tuple[Number, ...]]
"""A token with its operands, word by word."""


@dataclass
class Queues:
    """What has been pushed and not yet popped: tokens, and operands, a word each."""

    control: deque[str] = field(default_factory=deque)
    data: deque[Any] = field(default_factory=deque)


def run_dlc(program: dlc.DlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32; raises RuntimeError if a case does not pop what its record holds."""
    values, outputs = bind(program.sizes, program.buffers, inputs)
    access = _Access(program, dict(values))
    unit = ExecuteUnit(values, access.queues_receive)
    values |= {counter.name: counter.start for counter in program.counters}
    cases = {case.token: case for case in program.execute}
    for _ in access.run():
        token = access.queues.control.popleft()
        for statement in cases[token].body if token != dlc.DONE else ():
            unit.run(statement)
        if access.queues.data:
            raise RuntimeError(f"{len(access.queues.data)} operands were never popped after {token}")
    return {name: np.asarray(values[name]) for name in outputs}


def pushed(program: dlc.DlcProgram, inputs: Mapping[str, Number], tokens: int | None = None) -> list[Record]:
    """The first tokens that the access unit pushes, or all, each with its operands: what the queues hold, in order."""
    values, _ = bind(program.sizes, program.buffers, inputs)
    access = _Access(program, values)
    records = []
    for _ in islice(access.run(), tokens):
        records.append((access.queues.control.popleft(), tuple(access.queues.data)))
        access.queues.data.clear()
    return records


class _Access:
    """The access unit: `run` stops after each token that it pushes."""

    def __init__(self, program: dlc.DlcProgram, streams: Environment) -> None:
        self.program = program
        self.streams = streams
        self.queues = Queues()
        self.live: dict[str, int] = {}  # by traversal, the lanes below its bound
        self.toggled: dict[str, Number] = {}  # by token, what its toggle was when it last fired

    def run(self) -> Iterator[None]:
        for root in self.program.traversals(None):
            yield from self._traverse(root)
        self.queues.control.append(dlc.DONE)
        yield

    def _traverse(self, traversal: dlc.Traversal) -> Iterator[None]:
        own, inner = self.program.streams(traversal.name), self.program.traversals(traversal.name)
        sums = {s.result: self._index(s.start) for s in own if isinstance(s, dlc.AccStream)}
        yield from self._fire(traversal.name, "beg")
        upper = number(traversal.upper, self.streams)
        for position in range(self._index(traversal.lower), upper, traversal.stride):
            self.streams[f"{traversal.name}.ite"] = position
            self.live[traversal.name] = min(traversal.stride, upper - position)
            for stream in own:
                if isinstance(stream, dlc.AccStream):
                    self.streams[stream.result] = sums[stream.result]
                    sums[stream.result] += self._index(stream.operand)
                else:
                    self.streams[stream.result] = self._evaluate(stream)
            yield from self._fire(traversal.name, "ite")
            for child in inner:
                yield from self._traverse(child)
        yield from self._fire(traversal.name, "end")

    def _evaluate(self, stream: dlc.MemStream | dlc.AluStream) -> Number:
        if isinstance(stream, dlc.AluStream):
            left, right = (self._index(atom) for atom in stream.operands)
            return INDEX_FUNCTIONS[stream.function](left, right)
        flat, at = self.streams[stream.buffer].reshape(-1), self._index(stream.index)
        if stream.vector == 1:
            return flat[at]
        lanes = np.zeros(stream.vector, flat.dtype)
        live = self.live[stream.traversal]
        lanes[:live] = flat[at : at + live]
        return lanes

    def _fire(self, traversal: str, event: dlc.Event) -> Iterator[None]:
        for store in self.program.stores(traversal, event):
            at, live = self._index(store.index), self.live[traversal] if store.vector > 1 else 1
            self.streams[store.buffer].reshape(-1)[at : at + live] = np.atleast_1d(self.streams[store.stream])[:live]
        callback = self.program.callback(traversal, event)
        if callback and callback.toggle:
            now = self.streams[callback.toggle]
            if self.toggled.get(callback.token) == now:
                return
            self.toggled[callback.token] = now
        for push in self.program.pushes(traversal, event):
            self.queues.data.extend(np.repeat(self.streams[push.stream], push.splat))
        if callback:
            self.queues.control.append(callback.token)
            yield

    def queues_receive(self, statement: Node, unit: ExecuteUnit) -> bool:
        """Pops what the statement takes from the data queue, if it is a pop."""
        if not isinstance(statement, dlc.Pop):
            return False
        if len(self.queues.data) < statement.words:
            raise RuntimeError(f"{statement.result} is popped, but only {len(self.queues.data)} words were pushed")
        words = [self.queues.data.popleft() for _ in range(statement.words)]
        if statement.vector == 1:
            unit.values[statement.result] = np.float32(words[0]) if statement.type == "f32" else int(words[0])
            return True
        vector = np.array(words, np.float32 if statement.type == "f32" else np.int64)
        unit.vectors[statement.result] = vector
        unit.values[statement.result] = vector[: unit.live]
        return True

    def _index(self, atom: Atom) -> int:
        return int(self.streams[atom]) if isinstance(atom, str) else int(atom)
