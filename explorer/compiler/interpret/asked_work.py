"""The work that loops do, counted by operation: how often each statement runs on given arrays of indices.

Every load, computation and store counts as one. Loops are followed as their bounds come out; all iterations of a loop
are gone through at once, and one by one only where a bound inside of it depends on which it is.

    for n in 0..nodes                       n1 - n0 iterations of the inner loop in all, over all n
      for p in n0..n1                       s += ... runs so often, and is a load, a computation and a store
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.compiler.interpret.functions import INDEX_ARRAY_FUNCTIONS
from explorer.compiler.ir.loops import Accumulate, Compute, For, Index, Kernel, Load, Statement, Store
from explorer.compiler.ir.node import Atom, Extent, Made, Span, walk

Whose = Span | Made | None
Integers = npt.NDArray[np.int64]

MOST_AT_ONCE = 20_000_000
"""Iterations that are gone through one by one."""


class UncountableError(Exception):
    """There are too many iterations that differ, or what they are depends on numbers."""


def asked_work(kernel: Kernel, arrays: Mapping[str, Any], extents: Mapping[Extent, int]) -> Counter[Whose]:
    """By operation the loads, computations and stores of its statements. Raises UncountableError."""
    counting = _Counting(kernel, arrays)
    names = {name: np.int64(size) for name, size in extents.items() if isinstance(name, str)}
    counting.block(kernel.body, names, np.ones((), np.int64))
    return counting.found


class _Counting:
    """A walk over a nest: `names` are numbers, or an array [n] of what they are in each of n iterations, of which each
    stands for `times` [n] of them."""

    def __init__(self, kernel: Kernel, arrays: Mapping[str, Any]) -> None:
        self.found: Counter[Whose] = Counter()
        self.arrays = arrays
        self.indices = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"}
        self.needed = _deciding(kernel)

    def block(self, body: Sequence[Statement], names: Mapping[str, Any], times: Integers) -> None:
        names, total = dict(names), int(times.sum())
        for statement in body:
            if isinstance(statement, For):
                self.loop(statement, names, times)
            elif steps := _steps(statement):
                self.found[statement.origin[0] if statement.origin else None] += steps * total
            if isinstance(statement, (Load, Index)) and statement.result in self.needed:
                names[statement.result] = self.value(statement, names)

    def value(self, statement: Load | Index, names: Mapping[str, Any]) -> Any:
        if isinstance(statement, Index):
            left, right = (_known(operand, names) for operand in statement.operands)
            return INDEX_ARRAY_FUNCTIONS[statement.function](left, right)
        if statement.buffer not in self.indices:
            raise UncountableError(f"numbers of {statement.buffer} decide how often something is done")
        places = tuple(_known(index, names) for index in statement.indices)
        return np.asarray(self.arrays[statement.buffer])[places].astype(np.int64)

    def loop(self, loop: For, names: Mapping[str, Any], times: Integers) -> None:
        """Its iterations: all together, or those of each iteration around it one by one."""
        lower, upper = _known(loop.lower, names), _known(loop.extent, names)
        trips = np.maximum(0, -((lower - upper) // loop.step))
        if loop.variable not in self.needed:
            self.block(loop.body, names, times * trips)
            return
        lower, trips, times = (np.atleast_1d(each) for each in np.broadcast_arrays(lower, trips, times))
        total = int(trips.sum())
        if total > MOST_AT_ONCE:
            raise UncountableError(f"{total:,} iterations differ")
        around = np.repeat(np.arange(len(trips)), trips)
        within = np.arange(total) - (np.cumsum(trips) - trips)[around]
        inside = {name: value[around] if np.ndim(value) else value for name, value in names.items()}
        inside[loop.variable] = lower[around] + loop.step * within
        self.block(loop.body, inside, times[around])


def _known(atom: Atom, names: Mapping[str, Any]) -> Any:
    if not isinstance(atom, str):
        return np.int64(atom)
    if atom not in names:
        raise UncountableError(f"nothing tells {atom}")
    return names[atom]


def _steps(statement: Statement) -> int:
    """The loads, computations and stores that a statement is; none of what only names, or computes an index."""
    match statement:
        case Load():
            return 1
        case Compute(function=function):
            return int(function != "copy")
        case Store(function=function) | Accumulate(function=function):
            return int(function != "copy") + 1 + isinstance(statement, Accumulate)
    return 0


def _deciding(kernel: Kernel) -> set[str]:
    """The names on which a bound of a loop depends."""
    nodes = list(walk(kernel))
    found = {bound for node in nodes if isinstance(node, For) for bound in (node.lower, node.extent)}
    made = {node.result: node for node in nodes if isinstance(node, (Load, Index))}
    waiting = [name for name in found if isinstance(name, str)]
    names = set(waiting)
    while waiting:
        more = set(_operands(made[name])) - names if (name := waiting.pop()) in made else set()
        names |= more
        waiting += more
    return names


def _operands(node: Load | Index) -> Iterator[str]:
    atoms = node.indices if isinstance(node, Load) else node.operands
    yield from (atom for atom in atoms if isinstance(atom, str))
