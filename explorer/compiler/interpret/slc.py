"""What SLC means: the access unit's loops and streams with the execute unit's callbacks, run in program order.

In a vector loop a stream stands for the array of its live lanes: those that the mask leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.compiler.interpret.execute import ExecuteUnit, number
from explorer.compiler.interpret.functions import Number
from explorer.compiler.interpret.loops import Outputs, bind
from explorer.compiler.interpret.python import Environment
from explorer.compiler.ir.access import slc
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node


def run_slc(program: slc.SlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32. The two units see each other's values only through `to_val`."""
    values, outputs = bind(program.sizes, program.buffers, inputs)
    _Run(dict(values), values).items(program.body)
    return {name: np.asarray(values[name]) for name in outputs}


class _Run:
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
