"""SLC and DLC run one statement after another, each looked at anew: plain and slow, to hold beside it the Python
functions that the compiler makes of them. A vector is the array of its live lanes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.interpret.functions import REDUCTIONS, SCALAR_FUNCTIONS, Number
from explorer.compiler.interpret.loops import Outputs, bind
from explorer.compiler.interpret.python.text import Environment
from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc, slc
from explorer.compiler.ir.access.execute import Increment, Lanes, Reset
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node


def slc_one_by_one(program: slc.SlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name."""
    values, outputs = bind(program.sizes, program.buffers, inputs)
    _SlcRun(dict(values), values).items(program.body)
    return {name: np.asarray(values[name]) for name in outputs}


@dataclass
class Queues:
    """What has been pushed and not yet popped: tokens, and operands, a word each."""

    control: deque[str] = field(default_factory=deque)
    data: deque[Any] = field(default_factory=deque)


def dlc_one_by_one(program: dlc.DlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name."""
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


class ExecuteUnit:
    """Runs statements in an environment that lasts from callback to callback.

    `receive` takes the values that come through the queue, in SLC by `to_val`, in DLC by a pop: it says whether the
    statement was one of these. In a vector region a name stands for the array of its live lanes; `vectors` holds those
    that came before their region, each as long as it travelled."""

    def __init__(self, values: Environment, receive: Callable[[Node, ExecuteUnit], bool]) -> None:
        self.values = values
        self.vectors: dict[str, NDArray[Any]] = {}
        self.live: int | None = None  # the lanes of the region that is run
        self._receive = receive

    def run(self, statement: Node) -> None:
        """One statement, outside of vector regions."""
        match statement:
            case Lanes():
                first = int(self.values[statement.variable])
                self._region(statement.variable, first, statement.width, statement.extent, statement.body)
            case loops.For():
                lower, upper = number(statement.lower, self.values), number(statement.extent, self.values)
                for position in range(lower, upper, statement.step):
                    self._trip(statement, position)
            case Increment():
                self.values[statement.target] += statement.by
            case Reset():
                self.values[statement.target] = statement.value
            case _:
                if not self._receive(statement, self):
                    _execute(statement, self.values)

    def _trip(self, loop: loops.For, position: int) -> None:
        if loop.step > 1:
            self._region(loop.variable, position, loop.step, loop.extent, loop.body)
            return
        self.values[loop.variable] = position
        for inner in loop.body:
            self.run(inner)

    def _region(self, variable: str, first: int, width: int, extent: Atom, body: tuple[Node, ...]) -> None:
        """The statements for the lanes from `first` on that lie below the extent, all at once."""
        lanes = np.arange(first, min(first + width, number(extent, self.values)))
        self.values[variable] = lanes
        self.live = len(lanes)
        for name, vector in self.vectors.items():
            self.values[name] = vector[: len(lanes)]
        for statement in body:
            if not self._receive(statement, self):
                self._vector_statement(statement, len(lanes))
        self.live = None

    def _vector_statement(self, statement: Node, live: int) -> None:
        values = self.values
        match statement:
            case loops.Load():
                array = _array_of(statement.buffer, statement.indices, values)
                values[statement.result] = array[self._at(statement.indices)]
            case loops.Index():
                left, right = (_operand_of(atom, values) for atom in statement.operands)
                values[statement.result] = INDEX_FUNCTIONS[statement.function](left, right)
            case loops.Compute():
                values[statement.result] = _value_of(statement.function, statement.operands, values)
            case loops.Store():
                value = _value_of(statement.function, statement.operands, values)
                _array_of(statement.target, statement.indices, values)[self._at(statement.indices)] = value
            case loops.Accumulate() if statement.indices:
                at, target = self._at(statement.indices), _array_of(statement.target, statement.indices, values)
                value = _value_of(statement.function, statement.operands, values)
                target[at] = REDUCTIONS[statement.reduction](target[at], value)
            case loops.Accumulate():
                combine, value = REDUCTIONS[statement.reduction], values[statement.target]
                lanes = np.broadcast_to(_value_of(statement.function, statement.operands, values), live)
                for lane in lanes:
                    value = combine(value, lane)
                values[statement.target] = value
            case _:
                raise TypeError(f"not a statement of a vector region: {statement!r}")

    def _at(self, indices: tuple[Atom, ...]) -> tuple[Number, ...]:
        return tuple(_operand_of(atom, self.values) for atom in indices)


def number(extent: Atom, environment: Environment) -> int:
    """The number that an extent stands for."""
    return int(environment[extent]) if isinstance(extent, str) else int(extent)


def _execute(statement: Node, environment: Environment) -> None:
    """Does one statement that is no loop."""
    match statement:
        case loops.Load():
            array = _array_of(statement.buffer, statement.indices, environment)
            environment[statement.result] = array[_at(statement.indices, environment)]
        case loops.Index():
            left, right = [int(_operand_of(atom, environment)) for atom in statement.operands]
            environment[statement.result] = INDEX_FUNCTIONS[statement.function](left, right)
        case loops.Compute():
            environment[statement.result] = _value_of(statement.function, statement.operands, environment)
        case loops.Row():
            shape = tuple(number(extent, environment) for extent in statement.extents)
            environment[statement.name] = np.full(shape, np.nan, dtype=np.float32)
        case loops.Accumulator():
            environment[statement.name] = np.float32(statement.start)
        case loops.Accumulate():
            _accumulate(statement, environment)
        case loops.Store():
            value = _value_of(statement.function, statement.operands, environment)
            array = _array_of(statement.target, statement.indices, environment)
            array[_at(statement.indices, environment)] = value
        case _:
            raise TypeError(f"not a statement of loops: {statement!r}")


def _accumulate(statement: loops.Accumulate, environment: Environment) -> None:
    value = _value_of(statement.function, statement.operands, environment)
    combine = REDUCTIONS[statement.reduction]
    if statement.indices:
        row, at = _array_of(statement.target, statement.indices, environment), _at(statement.indices, environment)
        row[at] = combine(row[at], value)
    else:
        environment[statement.target] = combine(environment[statement.target], value)


def _array_of(name: str, indices: tuple[Atom, ...], environment: Environment) -> Number:
    """The array that so many indices reach into: by one index, all of it as one row."""
    array = environment[name]
    return array.reshape(-1) if len(indices) == 1 and np.ndim(array) > 1 else array


def _operand_of(atom: Atom, environment: Environment) -> Number:
    """What an operand stands for."""
    if isinstance(atom, str):
        return environment[atom]
    return np.float32(atom) if isinstance(atom, float) else atom


def _value_of(function: str, operands: tuple[Atom, ...], environment: Environment) -> Number:
    """The value of an expression."""
    return SCALAR_FUNCTIONS[function](*[_operand_of(atom, environment) for atom in operands])


def _at(indices: tuple[Atom, ...], environment: Environment) -> tuple[int, ...]:
    return tuple([int(_operand_of(atom, environment)) for atom in indices])


class _SlcRun:
    def __init__(self, streams: Environment, values: Environment) -> None:
        self.streams = streams
        self.unit = ExecuteUnit(values, self._receive)
        self.lanes = np.arange(0)  # the positions of the innermost loop that is running
        self.toggled: dict[int, Number] = {}  # by callback, what its toggle was when it last fired

    def items(self, items: tuple[slc.Item, ...]) -> None:
        for item in items:
            match item:
                case slc.SlcFor():
                    self._loop(item)
                case slc.Callback():
                    self._callback(item)
                case slc.Push():
                    self.streams[item.buffer].append((self.lanes, self.streams[item.stream]))
                case slc.StoreStream():
                    at = tuple(self._index(atom) for atom in item.indices)
                    self.unit.values[item.buffer][at] = self.streams[item.stream]
                case _:
                    self.streams[item.result] = self._value(item)

    def _loop(self, loop: slc.SlcFor) -> None:
        sums = [item for item in loop.body if isinstance(item, slc.AccStream)]
        before = {item.result: self._index(item.start) for item in sums}
        lower, extent = number(loop.lower, self.streams), number(loop.extent, self.streams)
        if loop.counter:
            self.unit.values.setdefault(loop.counter, lower)
        for position in range(lower, extent, loop.vector):
            self.lanes = np.arange(position, min(position + loop.vector, extent))
            self.streams[loop.stream] = position if loop.vector == 1 else self.lanes
            self.streams |= before
            self.items(loop.body)
            before = {item.result: self.streams[item.result] + self._index(item.operand) for item in sums}

    def _callback(self, callback: slc.Callback) -> None:
        if callback.toggle:
            now, key = self.streams[callback.toggle], id(callback)
            if self.toggled.get(key) == now:
                return
            self.toggled[key] = now
        for statement in callback.body:
            self.unit.run(statement)

    def _receive(self, statement: Node, unit: ExecuteUnit) -> bool:
        if not isinstance(statement, slc.ToVal):
            return False
        value = self.streams[statement.stream]
        if isinstance(value, list):
            value = _buffered(value)
        first = statement.first or (statement.splat > 1 and np.ndim(value) > 0)
        unit.values[statement.result] = value[0] if first else value
        return True

    def _value(self, item: slc.MemStream | slc.AluStream | slc.AccStream | slc.BufStream) -> Number:
        match item:
            case slc.MemStream():
                streams = self.streams
                at = [streams[atom] if isinstance(atom, str) else int(atom) for atom in item.indices]
                return streams[item.buffer][tuple(at)]
            case slc.AluStream():
                left, right = (self._index(atom) for atom in item.operands)
                return INDEX_FUNCTIONS[item.function](left, right)
            case slc.AccStream():
                return self.streams[item.result]  # the loop keeps it
            case slc.BufStream():
                return []

    def _index(self, atom: Atom) -> Number:
        return self.streams[atom] if isinstance(atom, str) else int(atom)


def _buffered(parts: list[tuple[np.ndarray, Number]]) -> np.ndarray:
    """What was pushed into a buffer, at the positions of the loop that pushed it."""
    array = np.zeros(max((int(lanes[-1]) + 1 for lanes, _ in parts), default=0), np.result_type(*(v for _, v in parts)))
    for lanes, value in parts:
        array[lanes] = value
    return array


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
