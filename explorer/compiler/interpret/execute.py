"""What the execute unit of a decoupled program does: statements of the loops, vector regions and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.interpret.functions import REDUCTIONS, SCALAR_FUNCTIONS, Number
from explorer.compiler.interpret.guarded import guarded
from explorer.compiler.interpret.python import Environment
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import Increment, Lanes, Reset
from explorer.compiler.ir.index_functions import INDEX_FUNCTIONS
from explorer.compiler.ir.node import Atom, Node

PLAIN = frozenset({loops.Load, loops.Index, loops.Compute, loops.Accumulate, loops.Store})
"""Most statements: neither loops nor what comes through the queue."""


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
        if type(statement) in PLAIN:
            _execute(statement, self.values)
            return
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
            environment[statement.name] = guarded(np.full(shape, np.nan, dtype=np.float32), statement.name)
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
