"""Index arithmetic that is read once stands where it is read, as an expression does:

    index first = pass * 32             b = order[min(begin + (pass * 32 + row), last)]
    index row1 = first + row
    index place = begin + row1
    index place1 = min(place, last)
    b = order[place1]

The statements are still there, right before the one that reads them, with names that nobody need read: `$1`, `$2`, in
the order of the text. What another origin reads, or other statements in between need, keeps its name and its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from explorer.compiler.ir.kernels import (
    IN_PLACE,
    CheckedLoad,
    Copy,
    KeptLoad,
    Loop,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    is_in_place,
    reads_of,
    with_atoms,
)
from explorer.compiler.ir.loops import Accumulate, Index, Load, Store
from explorer.compiler.ir.node import Atom, walk


def written_in_place(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel with the index arithmetic in place that one statement beside it reads, of the same origin, and that no
    fact speaks of."""
    uses = Counter(name for node in walk(kernel) for name in reads_of(node))
    spoken = {name for fact in kernel.facts for name in re.findall(r"\w+", fact.text)}

    def may(index: Index, reader: Statement) -> bool:
        return uses[index.result] == 1 and index.result not in spoken and index.origin == reader.origin

    return _Placing(kernel, may).kernel()


def numbered(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel, as it was read, with the names of what is in place in order."""
    return _Placing(kernel, lambda index, _: is_in_place(index)).kernel()


class _Placing:
    """Goes through a kernel; `may` says whether arithmetic may stand where a statement reads it."""

    def __init__(self, kernel: ScheduledKernel, may: Callable[[Index, Statement], bool]) -> None:
        self._kernel, self._may = kernel, may
        self._numbers, self._names = count(1), dict[str, str]()
        arrays = [*kernel.buffers, *(node for node in walk(kernel) if isinstance(node, Tile))]
        self._integers = {array.name for array in arrays if array.type == "i32"}

    def kernel(self) -> ScheduledKernel:
        return replace(self._kernel, body=self._body(self._kernel.body))

    def _body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        arithmetic = {statement.result: statement for statement in body if isinstance(statement, Index)}
        taken = {
            atom: arithmetic[atom]
            for reader in (body if arithmetic else ())
            for atom in self._places(reader)
            if isinstance(atom, str) and atom in arithmetic and self._may(arithmetic[atom], reader)
        }
        found: list[Statement] = []
        for statement in body:
            if not isinstance(statement, Index) or statement.result not in taken:
                found += self._statement(statement, taken)
        return tuple(found)

    def _statement(self, statement: Statement, taken: dict[str, Index]) -> Iterator[Statement]:
        """A statement behind the arithmetic in it, in the order of the text."""
        for atom in self._places(statement) if taken else ():
            if isinstance(atom, str) and atom in taken:
                yield from self._statement(taken[atom], taken)
        if isinstance(statement, Index) and statement.result in taken:
            self._names[statement.result] = f"{IN_PLACE}{next(self._numbers)}"
            statement = replace(statement, result=self._names[statement.result])
        changed = with_atoms(statement, self._names)
        yield replace(changed, body=self._body(changed.body)) if isinstance(changed, Loop | Where) else changed

    def _places(self, statement: Statement) -> tuple[Atom, ...]:
        """What a statement reads where index arithmetic may stand, in the order of the text."""
        match statement:
            case Where():
                return statement.left, statement.right
            case Search():
                return statement.lower, statement.upper, statement.value
            case Copy():
                return *statement.indices, *statement.buffer_indices
            case KeptLoad():
                return *statement.indices, statement.kept
            case CheckedLoad():  # those that it looks at are named twice
                return tuple(index for index in statement.indices if index not in statement.checked)
            case Load():
                return statement.indices
            case Index():
                return statement.operands
            case Accumulate() | Store() if statement.target in self._integers:
                return *statement.indices, *statement.operands
            case Store() | Accumulate():
                return statement.indices
        return ()
