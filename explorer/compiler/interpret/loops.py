"""What loops mean: one statement after another, in float32, on NumPy arrays. Slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import INDEX_FUNCTIONS, REDUCTIONS, SCALAR_FUNCTIONS, Number
from explorer.compiler.ir import loops
from explorer.compiler.ir.lengths import with_lengths
from explorer.compiler.ir.node import Atom, Node

Outputs = dict[str, Any]
"""The arrays that a program writes, by name."""

Environment = dict[str, Any]
"""Names and what they stand for: numbers, indices, rows and buffers."""


def run_kernel(kernel: loops.Kernel, inputs: Mapping[str, Number]) -> Outputs:
    """The kernel's outputs by name, float32."""
    environment, outputs = bind(kernel.sizes, kernel.buffers, inputs)
    for statement in kernel.body:
        execute(statement, environment)
    return {name: environment[name] for name in outputs}


def bind(
    sizes: tuple[tuple[str, int], ...], buffers: tuple[loops.Buffer, ...], inputs: Mapping[str, Number]
) -> tuple[Environment, list[str]]:
    """The names that a program starts with, and the names of its outputs, which start as zeros.

    Extents are learnt from the arrays; a layer's `inputs` name the sizes of its sets too."""
    inputs = with_lengths([buffer.name for buffer in buffers], inputs)
    environment: Environment = {name: int(n) for name, n in inputs.items() if np.ndim(n) == 0} | dict(sizes)
    outputs = [buffer for buffer in buffers if buffer.kind == "output"]
    for buffer in buffers:
        if buffer in outputs:
            continue
        array = np.asarray(inputs[buffer.name], dtype=np.int64 if buffer.kind == "index" else np.float32)
        environment[buffer.name] = array
        environment |= {e: n for e, n in zip(buffer.extents, array.shape, strict=True) if isinstance(e, str)}
    for buffer in outputs:
        shape = tuple(environment[e] if isinstance(e, str) else e for e in buffer.extents)
        environment[buffer.name] = np.zeros(shape, dtype=np.float32)
    return environment, [buffer.name for buffer in outputs]


def number(extent: Atom, environment: Environment) -> int:
    """The number that an extent stands for."""
    return int(environment[extent]) if isinstance(extent, str) else int(extent)


def execute(statement: Node, environment: Environment) -> None:
    """Runs one statement in the environment."""
    match statement:
        case loops.For():
            for position in range(number(statement.lower, environment), number(statement.extent, environment)):
                environment[statement.variable] = position
                for inner in statement.body:
                    execute(inner, environment)
        case loops.Load():
            array = array_of(statement.buffer, statement.indices, environment)
            environment[statement.result] = array[_at(statement.indices, environment)]
        case loops.Index():
            left, right = [int(operand_of(atom, environment)) for atom in statement.operands]
            environment[statement.result] = INDEX_FUNCTIONS[statement.function](left, right)
        case loops.Compute():
            environment[statement.result] = value_of(statement.function, statement.operands, environment)
        case loops.Row():
            shape = tuple(number(extent, environment) for extent in statement.extents)
            environment[statement.name] = np.full(shape, np.nan, dtype=np.float32)
        case loops.Accumulator():
            environment[statement.name] = np.float32(statement.start)
        case loops.Accumulate():
            _accumulate(statement, environment)
        case loops.Store():
            value = value_of(statement.function, statement.operands, environment)
            array = array_of(statement.target, statement.indices, environment)
            array[_at(statement.indices, environment)] = value
        case _:
            raise TypeError(f"not a statement of loops: {statement!r}")


def _accumulate(statement: loops.Accumulate, environment: Environment) -> None:
    value = value_of(statement.function, statement.operands, environment)
    combine = REDUCTIONS[statement.reduction]
    if statement.indices:
        row, at = array_of(statement.target, statement.indices, environment), _at(statement.indices, environment)
        row[at] = combine(row[at], value)
    else:
        environment[statement.target] = combine(environment[statement.target], value)


def array_of(name: str, indices: tuple[Atom, ...], environment: Environment) -> Number:
    """The array that so many indices reach into: by one index, all of it as one row."""
    array = environment[name]
    return array.reshape(-1) if len(indices) == 1 and np.ndim(array) > 1 else array


def operand_of(atom: Atom, environment: Environment) -> Number:
    """What an operand stands for."""
    if isinstance(atom, str):
        return environment[atom]
    return np.float32(atom) if isinstance(atom, float) else atom


def value_of(function: str, operands: tuple[Atom, ...], environment: Environment) -> Number:
    """The value of an expression."""
    return SCALAR_FUNCTIONS[function](*[operand_of(atom, environment) for atom in operands])


def _at(indices: tuple[Atom, ...], environment: Environment) -> tuple[int, ...]:
    return tuple([int(operand_of(atom, environment)) for atom in indices])
