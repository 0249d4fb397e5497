"""The syntax tree of a model. Every node knows its extent in the text; operations also know their operator's span."""

from __future__ import annotations

from collections.abc import Iterable
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
    """`x[a:b:c]`, each of which may be omitted; `span` is the bracketed part."""

    base: Expression
    start: Expression | None
    stop: Expression | None
    step: Expression | None
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
class InDegree:
    """`q.in_degree(n)`: how many edges of a graph that is named lead to a node."""

    base: Expression
    node: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class Text:
    """`"att"`, the name of data as an argument; `text` is without the quotes."""

    text: str
    extent: Span


@dataclass(frozen=True, slots=True)
class Data:
    """`e["att"]`, or `e[name]` on the left of an assignment; `span` is the bracketed part."""

    base: Expression
    name: Text | Name
    span: Span
    extent: Span


@dataclass(frozen=True, slots=True)
class Iterator:
    """`g.edges()`, `A.row(i)`, or a bag itself, which has no method: what a loop goes over."""

    base: Expression
    method: Name | None
    arguments: tuple[Expression, ...]
    extent: Span

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What it is made of."""
        return (self.base, *self.arguments)


@dataclass(frozen=True, slots=True)
class Numbers:
    """`0..K`, `range(K)` and `range(0, K, 2)`: what a loop goes over that is repeated before the run. The bounds are
    those of Python's range."""

    bounds: tuple[Expression, ...]
    extent: Span

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What it is made of."""
        return self.bounds


@dataclass(frozen=True, slots=True)
class Comprehension:
    """`x[e.src] for e in n.incoming_edges()`, as the argument of a reduction; `for i, w in b` has two variables."""

    element: Expression
    variables: tuple[Name, ...]
    iterator: Iterator | Numbers
    extent: Span


@dataclass(frozen=True, slots=True)
class Listing:
    """`[a, b]`, as the argument of a call: what `concat` and `stack` join."""

    items: tuple[Expression, ...]
    extent: Span


@dataclass(frozen=True, slots=True)
class Parentheses:
    inner: Expression
    extent: Span


Expression = (
    Name
    | Number
    | Unary
    | Binary
    | Call
    | Index
    | Slice
    | Attribute
    | InDegree
    | Parentheses
    | Text
    | Data
    | Comprehension
    | Listing
)


def walk_expression(expression: Expression) -> Iterable[Expression]:
    """An expression and all inside it."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case Unary():
                pending.append(node.operand)
            case Binary():
                pending += (node.left, node.right)
            case Call():
                pending += (argument.value for argument in node.arguments)
            case Index():
                pending += (node.base, *node.indices)
            case Slice():
                pending += (part for part in (node.base, node.start, node.stop, node.step) if part is not None)
            case Attribute() | Data():
                pending.append(node.base)
            case InDegree():
                pending += (node.base, node.node)
            case Listing():
                pending += node.items
            case Parentheses():
                pending.append(node.inner)
            case Comprehension():
                pending += (node.element, *node.iterator.expressions)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One tensor of `param E[entity, D], R[relation, K]: bf16`."""

    kind: str  # "param" or "input"
    name: Name
    extents: tuple[Expression, ...]
    extent: Span
    storage: Name | None = None


@dataclass(frozen=True, slots=True)
class Declarations:
    tensors: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True)
class MapDeclaration:
    """`map rev: edge -> edge`."""

    name: Name
    domain: Name
    codomain: Name
    extent: Span


@dataclass(frozen=True, slots=True)
class Assignment:
    """`x = y`, `e["x"] = y`, and with "+", "-", "*" or "/" as `operator` an update; `span` is `=`, `+=` and so on."""

    target: Name | Data
    operator: str
    span: Span
    value: Expression
    extent: Span


@dataclass(frozen=True, slots=True)
class CallStatement:
    """A call for what it writes: `edge_softmax(g, "att")`."""

    call: Call
    extent: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """`for e in g.edges():` with its block; `header` reaches from `for` to the iterator's end."""

    variables: tuple[Name, ...]
    iterator: Iterator | Numbers
    statements: tuple[Statement, ...]
    header: Span

    @property
    def extent(self) -> Span:
        """The header: a block may be long."""
        return self.header


@dataclass(frozen=True, slots=True)
class Unpacking:
    """`a, b = f(x)`, and `a, b = x, y`."""

    targets: tuple[Name, ...]
    values: tuple[Expression, ...]
    extent: Span


@dataclass(frozen=True, slots=True)
class Return:
    """`return a`, `return a, b`."""

    values: tuple[Expression, ...]
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


Statement = Declarations | MapDeclaration | Assignment | Unpacking | CallStatement | Loop | Return | Docstring | Broken


@dataclass(frozen=True, slots=True)
class Annotation:
    """`entity`, `bag of row` or `csr[I, J]`: a word, and the index sets behind it; `joined` is the "of" or "["."""

    word: Name
    sets: tuple[Name, ...]
    joined: str
    extent: Span

    @property
    def text(self) -> str:
        """The word itself."""
        return self.word.text

    @property
    def index_set(self) -> Name:
        """The set that it is of: the last one behind the word, or the word."""
        return self.sets[-1] if self.sets else self.word


@dataclass(frozen=True, slots=True)
class Parameter:
    name: Name
    annotation: Annotation | None
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A `score`, a `layer`, an `op` or a `def`; `header` reaches from the keyword to the closing parenthesis."""

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


def expressions_of(statement: Statement) -> tuple[Expression, ...]:
    """The expressions of a statement itself, not those of a loop's block."""
    match statement:
        case Assignment(target=target, value=value):
            return (target, value)
        case CallStatement(call=call):
            return (call,)
        case Unpacking(targets=targets, values=values):
            return (*targets, *values)
        case Return(values=values):
            return values
    return ()


def walk_statements(statements: tuple[Statement, ...]) -> Iterable[Statement]:
    """All statements in the order of the text, those of loops behind their header."""
    pending = list(reversed(statements))
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, Loop):
            pending += reversed(statement.statements)
