"""Whether the iterations of a loop may run at once, as the lanes of a vector: the test of Ember §7.1.

A loop is vectorised only if everything in it is. Arithmetic always is; a load or store must touch neighbouring
elements, since what gathers, scatters or strides gains nothing; and no lane may see what another one wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import print_head
from explorer.compiler.ir.node import Atom, Node


@dataclass
class LaneTest:
    """Reads a loop's statements in order and keeps the first reason why its lanes may not run at once.

    `indices` are the names that go up by one from lane to lane; `varying` all names that differ between lanes."""

    variable: str
    reason: str = ""
    indices: set[str] = field(default_factory=set)
    varying: set[str] = field(default_factory=set)
    _reads: list[tuple[str, tuple[Atom, ...]]] = field(default_factory=list)
    _writes: list[tuple[str, tuple[Atom, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.indices.add(self.variable)
        self.varying.add(self.variable)

    def statements(self, body: tuple[Node, ...]) -> str:
        """The reason against running these statements at once, or nothing."""
        for statement in body:
            self._statement(statement)
        self._dependences()
        return self.reason

    def index(self, result: str, function: str, operands: tuple[Atom, ...]) -> None:
        """Integer arithmetic: it may shift the lanes, but not spread them."""
        lanes = [operand for operand in operands if operand in self.varying]
        if not lanes:
            return
        self.varying.add(result)
        shifts = function == "add" or (function == "sub" and operands[0] == lanes[0])
        if len(lanes) == 1 and lanes[0] in self.indices and shifts:
            self.indices.add(result)
        elif lanes[0] in self.indices:
            self._refuse(f"{result} does not go up by one from lane to lane")

    def load(self, result: str, buffer: str, indices: tuple[Atom, ...]) -> None:
        """A load: of neighbouring elements, or of one for all lanes."""
        if self.place(buffer, indices):
            self.varying.add(result)
        self._reads.append((buffer, indices))

    def store(self, target: str, indices: tuple[Atom, ...]) -> None:
        """A store, which must be to neighbouring elements."""
        if not self.place(target, indices):
            self._refuse(f"all lanes store to {loops.element(target, indices)}")
        self._writes.append((target, indices))

    def place(self, buffer: str, indices: tuple[Atom, ...]) -> bool:
        """Whether these are neighbouring elements; one element for all lanes is none. Refuses all else."""
        differing = [index for index in indices if index in self.varying]
        if not differing:
            return False
        element = loops.element(buffer, indices)
        if [index for index in differing if index not in self.indices]:
            self._refuse(f"{element} is a gather: its index was itself loaded by the lanes")
        elif len(differing) > 1:
            self._refuse(f"{element} goes along a diagonal")
        elif indices[-1] != differing[0]:
            self._refuse(f"{element} strides: {self.variable} is not its last index")
        return True

    def _refuse(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _statement(self, statement: Node) -> None:
        match statement:
            case loops.Load():
                self.load(statement.result, statement.buffer, statement.indices)
            case loops.Index():
                self.index(statement.result, statement.function, statement.operands)
            case loops.Compute():
                self._values(statement.operands)
                if self.varying.intersection(map(str, statement.operands)):
                    self.varying.add(statement.result)
            case loops.Accumulate():
                self._values(statement.operands)
                if statement.indices and not self.place(statement.target, statement.indices):
                    self._refuse(
                        f"all lanes add to the one element {loops.element(statement.target, statement.indices)}"
                    )
                self._writes.append((statement.target, statement.indices))
            case loops.Store():
                self._values(statement.operands)
                self.store(statement.target, statement.indices)
            case _:
                self._refuse(f"it holds `{print_head(statement)}`")

    def _values(self, operands: tuple[Atom, ...]) -> None:
        for operand in operands:
            if operand in self.indices:
                self._refuse(f"it computes with {operand}, an index")
            self._reads.append((str(operand), ()))

    def _dependences(self) -> None:
        """No lane may read what another one wrote: what is written is touched in one place a lane only."""
        for target, indices in self._writes:
            places = {place for name, place in (*self._reads, *self._writes) if name == target}
            if len(places) > 1:
                self._refuse(f"{target} is read and written in different places")
            if not indices and any(name == target for name, _ in self._reads):
                self._refuse(f"{target} is read while it is summed up")
