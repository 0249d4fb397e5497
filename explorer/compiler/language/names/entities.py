"""What an expression stands for while a definition is elaborated, and the errors that end an elaboration."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.graph import Shape, Tensor
from explorer.compiler.ir.index_functions import Steps
from explorer.compiler.ir.node import Span
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.structures import Structure
from explorer.compiler.language.parsing import syntax


@dataclass(frozen=True, slots=True)
class Row:
    """A value of the graph. `lines` are the declarations that its shape comes from; `table` is set for `E[h]`."""

    name: str
    shape: Shape
    depends: frozenset[Dependency]
    lines: tuple[int, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A number known now; it enters the graph where it meets a value. `dim` is set where it is a size by name."""

    value: int | float
    span: Span
    label: str
    dim: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """An element of an index set for each row: a score's `h`, a layer's `e`, `e.src`, `n.ntype`.

    `name` is the path of maps that leads there (`src.ntype`), or the set's own name, and `domain` the set that it
    leads from; `shown` is how the text says it. `member` marks the variable of a loop over entries or nonzeros, which
    picks a row or column and stands for the entry itself as well.
    """

    name: str
    index_set: str
    domain: str
    shown: str = ""
    member: bool = False
    bag: str = ""
    """Of an op's parameters that are bags the one that it is: what a loop goes over."""
    further: tuple[str, ...] = ()
    """The paths of other ids that it is computed of as well, `i + j`."""
    computed: Steps = ()
    """What is computed of its number, `i // 100`: it then leads to a set that what it indexes says, and its own is
    "" here."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All that it is computed of."""
        return (self.name, *self.further)

    @property
    def text(self) -> str:
        """What messages call it."""
        return self.shown or self.name

    @property
    def dependency(self) -> Dependency:
        """What a row picked by the index depends on."""
        return Dependency(self.name.split(".")[0], self.domain)

    @property
    def identity(self) -> bool:
        """Whether it is the element itself, not one that a map leads to."""
        return self.name == self.domain == self.index_set


@dataclass(frozen=True, slots=True)
class Members:
    """A set that belongs to each element, which reductions go over: a score's `n: negatives of entity`. `name` is the
    map that leads from `members`, the set of all of them, to `index_set`."""

    name: str
    index_set: str
    members: str


@dataclass(frozen=True, slots=True)
class StructureArgument:
    """The `g` of a layer, the `A` of an op."""

    name: str
    structure: Structure


@dataclass(frozen=True, slots=True)
class Given:
    """A number that the structure brings for each member, under the name that a loop gives it: a weight, a value."""

    name: str
    index: Index


@dataclass(frozen=True, slots=True)
class DataName:
    """A name of data given to a helper: the "att" of `edge_softmax(g, "att")`."""

    text: str


@dataclass(frozen=True, slots=True)
class Function:
    """A helper or a built-in function, which a helper is given to call: what its parameter is called there."""

    name: str


@dataclass(frozen=True, slots=True)
class Table:
    """A declared tensor; what is read of it is a row, or all of it where it has no index sets."""

    tensor: Tensor
    declaration: syntax.Declaration


@dataclass(frozen=True, slots=True)
class Several:
    """What `return a, b` gives: of each its expression and what it stands for."""

    nodes: tuple[syntax.Expression, ...]
    entities: tuple[Entity | None, ...]


Entity = Row | Constant | Index | Members | Table | StructureArgument | Given | DataName | Function
"""What a name or an expression stands for. `None` in its place is an error that is reported already."""


class Stopped(Exception):
    """The elaboration cannot go on: a limit is exceeded, and reported."""
