"""The syntax tree of a model. Every node knows its extent in the text; operations also know their operator's span."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    extent: Span


@dataclass(frozen=True, slots=True)
class Number:
    """A literal: an int where it is written without a point and an exponent, else a float."""

    value: int | float
    text: str
    extent: Span


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    span: Span
    operand: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    span: Span
    left: Expression
    right: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call, with its keyword where it has one."""

    keyword: Name | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Call:
    function: Name
    arguments: tuple[Argument, ...]
    extent: Span


@dataclass(frozen=True, slots=True)
class Index:
    """`E[h]`, `X[h, r]`; `span` is the bracketed part."""

    base: Expression
    indices: tuple[Expression, ...]
    span: Span
    extent: Span


@dataclass(frozen=True, slots=True)
class Slice:
    """`x[a:b]`, either bound may be omitted; `span` is the bracketed part."""

    base: Expression
    start: Expression | None
    stop: Expression | None
    span: Span
    extent: Span


@dataclass(frozen=True, slots=True)
class Attribute:
    """`x.T`; `span` is the dot with the name."""

    base: Expression
    name: Name
    span: Span
    extent: Span


@dataclass(frozen=True, slots=True)
class Parentheses:
    inner: Expression
    extent: Span


Expression = Name | Number | Unary | Binary | Call | Index | Slice | Attribute | Parentheses


@dataclass(frozen=True, slots=True)
class Declaration:
    """One tensor of `param E[entity, D], R[relation, K]`."""

    kind: str  # "param" or "input"
    name: Name
    extents: tuple[Expression, ...]
    extent: Span


@dataclass(frozen=True, slots=True)
class Declarations:
    tensors: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    target: Name
    value: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Docstring:
    text: str
    extent: Span


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that did not parse (and the block under it): `names` are the words in it, which it may have defined."""

    names: frozenset[str]
    extent: Span


Statement = Declarations | Assignment | Return | Docstring | Broken


@dataclass(frozen=True, slots=True)
class Parameter:
    name: Name
    annotation: Name | None
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A `score` or a `def`; `header` reaches from the keyword to the closing parenthesis."""

    kind: str
    name: Name
    parameters: tuple[Parameter, ...]
    parameters_extent: Span
    statements: tuple[Statement, ...]
    header: Span


@dataclass(frozen=True, slots=True)
class Dim:
    name: Name
    value: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Program:
    """A whole text: its sizes, its definitions, and what did not parse: lines outside of definitions, and errors."""

    dims: tuple[Dim, ...] = ()
    definitions: tuple[Definition, ...] = ()
    broken: tuple[Broken, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
