"""Where the statements of a nest are written: bodies of loops while they grow, some of which are positions."""

from __future__ import annotations

import dataclasses
from dataclasses import field

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import graph as g
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.statements import alive, loop_origin


def position_name(index_set: str) -> str:
    """What the variable of a loop over a set is called."""
    return {"entry": "p", "nonzero": "z"}.get(index_set, index_set[0])


@dataclasses.dataclass(eq=False)
class Scope:
    """The body of a loop while it grows; `known` are the elements that it has computed already.

    A position has an index set, its coordinates in arrays over the set, and the map that its loop went along, with
    the position that it left from."""

    parent: Scope | None
    variable: str
    index_set: str = ""
    position: tuple[Atom, ...] = ()
    along: str = ""
    start: Scope | None = None
    body: list[loops.Statement] = field(default_factory=list)
    known: dict[tuple[str, tuple[Atom, ...]], Atom] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    bounds: dict[str, tuple[Extent, Extent]] = field(default_factory=dict)  # of segments, by the map

    def chain(self) -> list[Scope]:
        """The scopes from the outermost to this one."""
        return [*(self.parent.chain() if self.parent else []), self]

    def add(self, statement: loops.Statement) -> None:
        """Appends a statement and remembers the name that it defines."""
        self.body.append(statement)
        name = loops.result_of(statement)
        if name is not None:
            self.defined.add(name)

    def close(self, extent: Extent, lower: Extent = 0, *, rows: bool = False) -> loops.For:
        """The loop, finished, added to the scope around it; that over a kernel's `rows` has none around it. Indices
        that turned out not to be needed are left out."""
        body = alive(self.body)
        origin = loop_origin(body, extent, rows=rows)
        loop = loops.For(variable=self.variable, lower=lower, extent=extent, body=body, origin=origin)
        if self.parent is not None:
            self.parent.add(loop)
        return loop

    def also(self, index_set: str, position: tuple[Atom, ...]) -> Scope:
        """A second position of the same loop."""
        return Scope(self, self.variable, index_set, position, body=self.body, defined=self.defined, bounds=self.bounds)


@dataclass(frozen=True)
class Target:
    """A row, or the part of a buffer that belongs to a position: what an element's indices are appended to."""

    name: str
    prefix: tuple[Atom, ...] = ()


def close_all(scopes: list[Scope], shape: g.Shape) -> None:
    """Finishes the loops over a shape, the innermost first; the first entry is the scope around them."""
    for scope, extent in zip(reversed(scopes[1:]), reversed(shape), strict=True):
        scope.close(extent)
