"""What the execute unit of a decoupled program does as Python: statements of the loops, vector regions and counters.

In a region a name stands for its live lanes. Neighbouring indices, the region's variable and what differs from it by a
number, are the first lane's index, and an access by them is a slice:

    lanes<16> d below D         v0_live = max(0, min(16, v1 - v0))
      at = d + o                v2 = v0 + v3
      out[p, at] += k           v4[v5, v2 : v2 + v0_live] = v4[v5, v2 : v2 + v0_live] + (v6)

Other indices of lanes are arrays, and an access by them gathers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.compiler.interpret.guarded import check
from explorer.compiler.interpret.python.text import Text, folded
from explorer.compiler.ir import loops
from explorer.compiler.ir.access.execute import Increment, Lanes, Reset
from explorer.compiler.ir.node import Atom, Node


class UnitText(Text):
    """The text of a decoupled program. `live` is how many lanes the region has that is being written, "" outside;
    `longer` are the vectors that have a whole vector's elements, also where fewer lanes are live."""

    live = ""
    longer: frozenset[str] = frozenset()

    def receive(self, statement: Node) -> None:
        """Writes what takes a value that the access unit has sent."""
        raise TypeError(f"not a statement of the execute unit: {statement!r}")

    def statement(self, statement: Node) -> None:
        if self.live:
            self.lanes_do(statement)
            return
        match statement:
            case Lanes():
                self.region(statement.variable, statement.width, statement.extent, statement.body)
            case Increment():
                self.line(f"{self.name(statement.target)} += {statement.by}")
            case Reset():
                self.line(f"{self.name(statement.target)} = {statement.value}")
            case loops.Index() if self.wide(statement.operands):  # of a loop whose iterations are side by side
                self.index_of_lanes(statement)
            case _ if isinstance(statement, loops.Statement):
                super().statement(statement)
            case _:
                self.receive(statement)

    def result_of(self, node: Node) -> str | None:
        return node.target if isinstance(node, (Increment, Reset)) else super().result_of(node)

    def trips(self, bounds: str, loop: loops.For | Any) -> None:
        if loop.step == 1:
            super().trips(bounds, loop)
            return
        with self.inside(f"for {self.name(loop.variable)} in range({bounds}, {loop.step}):"):
            self.region(loop.variable, loop.step, loop.extent, loop.body)

    def region(self, variable: str, width: int, extent: Atom, body: tuple[Node, ...]) -> None:
        """Statements for the lanes from the variable on that lie below the extent, all at once."""
        widths, self.live = dict(self.widths), self.lanes(variable, width, extent)
        self.each(body)
        self.widths, self.live = widths, ""

    def lanes(self, variable: str, width: int, extent: Atom) -> str:
        """Lets a variable stand for the lanes from it on; gives the name of how many are live."""
        first = self.name(variable)
        live = f"{first}_live"
        self.line(f"{live} = max(0, min({width}, {self.atom(extent)} - {first}))")
        self.widths[variable] = live
        return live

    def lanes_do(self, statement: Node) -> None:
        """Writes one statement of a region."""
        match statement:
            case loops.Load():
                value = self.loaded(statement.buffer, statement.indices)
                self.define(statement.result, value, self.wide(statement.indices))
            case loops.Index():
                self.index_of_lanes(statement)
            case loops.Compute():
                value = self.value(statement.function, statement.operands)
                self.define(statement.result, value, self.wide(statement.operands))
            case loops.Store():
                value = self.value(statement.function, statement.operands)
                self.line(f"{self.element(statement.target, statement.indices)} = {value}")
            case loops.Accumulate():
                self.accumulate_lanes(statement)
            case loops.For() | loops.Row() | loops.Accumulator() | Lanes() | Increment() | Reset():
                raise TypeError(f"not a statement of a vector region: {statement!r}")
            case _:
                self.receive(statement)

    def define(self, name: str, value: str, wide: bool) -> None:
        """A line that gives a name its value, one a lane or the same in all."""
        self.line(f"{self.name(name)} = {value}")
        self.widths.pop(name, None)
        (self.vectors.add if wide else self.vectors.discard)(name)

    def index_of_lanes(self, statement: loops.Index) -> None:
        left, right = statement.operands
        neighbours, other = (left, right) if left in self.widths else (right, left)
        shifts = statement.function == "add" or (statement.function == "sub" and neighbours is left)
        if shifts and neighbours in self.widths and not self.wide((other,)):
            sign = loops.INFIX_INDEX[statement.function]
            self.define(statement.result, f"{self.atom(left)} {sign} {self.atom(right)}", False)
            self.widths[statement.result] = self.widths[str(neighbours)]
            return
        value = self.index_value(statement.function, statement.operands)
        self.define(statement.result, value, self.wide(statement.operands))

    def accumulate_lanes(self, statement: loops.Accumulate) -> None:
        """Into elements, or of all lanes, one after another, into an accumulator."""
        value = self.value(statement.function, statement.operands)
        if statement.indices:
            target = self.element(statement.target, statement.indices)
            self.line(f"{target} = {self.combined(statement.reduction, target, value)}")
            return
        target, lanes = self.name(statement.target), f"{self.constant(np.broadcast_to)}({value}, {self.live})"
        if statement.target in self.vectors:
            raise TypeError(f"{statement.target} has a value a lane, and is no accumulator")
        self.line(f"{target} = {self.constant(folded)}({self.constant(statement.reduction)}, {target}, {lanes})")

    def operand(self, atom: Atom) -> str:
        text = self.atom(atom)
        if atom in self.widths:
            return f"{self.constant(np.arange)}({text}, {text} + {self.width(atom)})"
        return f"{text}[:{self.live}]" if self.live and atom in self.longer else text

    def gathers(self, indices: tuple[Atom, ...]) -> bool:
        """Whether an access is to elements that need not be neighbours."""
        return not self.vectors.isdisjoint(indices)

    def element(self, name: str, indices: tuple[Atom, ...]) -> str:
        if not self.gathers(indices):
            return super().element(name, indices)
        array, places = self.array(name, indices), f"({''.join(f'{self.operand(index)}, ' for index in indices)})"
        if self.checks:
            self.line(f"{self.constant(check)}({self.constant(name)}, {array}.shape, {places})")
        return f"{array}[{places}]"

    def loaded(self, name: str, indices: tuple[Atom, ...]) -> str:
        if not (self.live and self.wide(indices)):
            return super().loaded(name, indices)
        return f"{self.element(name, indices)}.copy()"
