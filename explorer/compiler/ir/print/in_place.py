"""Index arithmetic and loads that are read once stand where they are read, as expressions do:

    index first = pass * 32             kept[pass, row] = order[min(begin + (pass * 32 + row), last)]
    index row1 = first + row
    index place = begin + row1
    index place1 = min(place, last)
    b = order[place1]
    kept[pass, row] = b

The statements are still there, right before the one that reads them, with names that nobody need read: `$1`, `$2`, in
the order of the text. What another origin reads keeps its name and its line, as does a load with anything between it
and its reader that may change what it loads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, count, groupby

from explorer.compiler.frozen import replace
from explorer.compiler.ir.kernels import (
    CheckedLoad,
    Copy,
    KeptLoad,
    Loop,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
    reads_of,
    result_of,
)
from explorer.compiler.ir.loops import Accumulate, Buffer, Compute, Index, Load, Store
from explorer.compiler.ir.node import Atom, once, same_operations, walk
from explorer.compiler.ir.print.expressions import IN_PLACE, is_in_place, with_atoms

InPlace = Index | Load
Order = Callable[[Sequence[Statement]], Sequence[Statement]]


@once
def written_in_place(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel with the index arithmetic and the loads in place that one statement beside them reads, of the same
    origin, and that no fact speaks of."""
    uses = Counter([name for node in walk(kernel) for name in reads_of(node)])
    spoken = {name for fact in kernel.facts for name in re.findall(r"\w+", fact.text)}

    def may(read: InPlace, reader: Statement) -> bool:
        return uses[read.result] == 1 and read.result not in spoken and same_operations(read.origin, reader.origin)

    return _Placing(kernel, may, _shared_first).kernel()


def numbered(kernel: ScheduledKernel) -> ScheduledKernel:
    """The kernel, as it was read, with the names of what is in place in order."""
    return _Placing(kernel, lambda read, _: is_in_place(read), tuple).kernel()


class _Placing:
    """Goes through a kernel; `may` says whether something may stand where a statement reads it, `order` in which order
    the statements of a body stand."""

    def __init__(self, kernel: ScheduledKernel, may: Callable[[InPlace, Statement], bool], order: Order) -> None:
        self._kernel, self._may, self._order = kernel, may, order
        self._numbers, self._names = count(1), dict[str, str]()
        arrays: list[Buffer | Tile] = [*kernel.buffers, *(node for node in walk(kernel) if isinstance(node, Tile))]
        self._integers = {array.name for array in arrays if array.type == "i32"}

    def kernel(self) -> ScheduledKernel:
        return replace(self._kernel, body=self._body(self._kernel.body))

    def _body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        body = self._order(body)
        taken = self._taken(body)
        found: list[Statement] = []
        for statement in body:
            if not isinstance(statement, InPlace) or statement.result not in taken:
                self._add(statement, taken, found)
        return tuple(found)

    def _taken(self, body: Sequence[Statement]) -> dict[str, InPlace]:
        """What goes where it is read, by name."""
        defined = {s.result: place for place, s in enumerate(body) if isinstance(s, InPlace)}
        changes = list(accumulate(not isinstance(s, (InPlace, Compute)) for s in body))
        taken: dict[str, InPlace] = {}
        ends: dict[str, int] = {}  # by name: where the statement is that it ends up in
        for place in reversed(range(len(body))) if defined else ():
            reader = body[place]
            end = ends.get(result_of(reader) or "", place)
            values = self._values(reader)
            for atom in (*self._places(reader), *values):
                at = defined.get(atom) if isinstance(atom, str) else None
                if at is None:
                    continue
                read = body[at]
                assert isinstance(read, InPlace)
                fits = _moves(read) if isinstance(read, Load) else atom not in values
                same = isinstance(read, Index) or changes[end - 1] == changes[at]
                if fits and same and self._may(read, reader):
                    taken[read.result], ends[read.result] = read, end
        return taken

    def _add(self, statement: Statement, taken: dict[str, InPlace], found: list[Statement]) -> None:
        """Adds a statement behind what stands in it, in the order of the text."""
        atoms = (*self._places(statement), *self._values(statement)) if taken else ()
        inside = [taken[atom] for atom in atoms if isinstance(atom, str) and atom in taken]
        for read in inside:
            self._add(read, taken, found)
        if isinstance(statement, InPlace) and statement.result in taken:
            self._names[statement.result] = f"{IN_PLACE}{next(self._numbers)}"
            statement = replace(statement, result=self._names[statement.result])
        if inside:
            statement = with_atoms(statement, self._names)
        found.append(
            replace(statement, body=self._body(statement.body)) if isinstance(statement, (Loop, Where)) else statement
        )

    def _places(self, statement: Statement) -> tuple[Atom, ...]:
        """What a statement reads where index arithmetic may stand, in the order of the text."""
        match statement:
            case Loop():
                return statement.lower, *((statement.extent,) if isinstance(statement.extent, str) else ())
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

    def _values(self, statement: Statement) -> tuple[Atom, ...]:
        """The numbers that a statement reads, in the order of the text."""
        match statement:
            case Compute(function=function) if function != "copy":  # that of an element would be a load
                return statement.operands
            case Store() | Accumulate() if statement.target not in self._integers and not isinstance(statement, Copy):
                return statement.operands
        return ()


def _shared_first(body: Sequence[Statement]) -> Sequence[Statement]:
    """The statements, where tiles that are declared one after another begin with the shared ones."""
    if not any(map(_is_tile, body)):
        return body
    return [statement for _, run in groupby(body, _is_tile) for statement in sorted(run, key=_is_register)]


def _is_tile(statement: Statement) -> bool:
    return isinstance(statement, Tile)


def _is_register(statement: Statement) -> bool:
    return isinstance(statement, Tile) and statement.memory == "register"


def _moves(load: Load) -> bool:
    """Whether a load may stand where it is read: it is of an element, and as loads usually are."""
    return type(load) is Load and bool(load.indices)
