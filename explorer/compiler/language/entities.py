"""What an expression stands for while a definition is elaborated, and the errors that end an elaboration."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.graph import Shape, Tensor
from explorer.compiler.ir.node import Span
from explorer.compiler.language import syntax


@dataclass(frozen=True, slots=True)
class Row:
    """A value of the graph. `lines` are the declarations that its shape comes from; `table` is set for `E[h]`."""

    name: str
    shape: Shape
    depends: frozenset[str]
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

    `name` is the path of maps that leads there (`src.ntype`), or the set's own name; `shown` how the text says it.
    """

    name: str
    index_set: str
    shown: str = ""

    @property
    def text(self) -> str:
        """What messages call it."""
        return self.shown or self.name


@dataclass(frozen=True, slots=True)
class GraphArgument:
    """The `g` of a layer."""

    name: str


@dataclass(frozen=True, slots=True)
class DataName:
    """A name of data given to a helper: the "att" of `edge_softmax(g, "att")`."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A declared tensor; what is read of it is a row, or all of it where it has no index sets."""

    tensor: Tensor
    declaration: syntax.Declaration


Entity = Row | Constant | Index | Table | GraphArgument | DataName
"""What a name or an expression stands for. `None` in its place is an error that is reported already."""


class Stopped(Exception):
    """The elaboration cannot go on: a limit is exceeded, and reported."""
