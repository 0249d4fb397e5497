"""Builds the syntax tree from the parser's reductions: one method a rule or alias of grammar.lark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer

from explorer.compiler.ir.node import Span
from explorer.compiler.language.parsing import syntax


def span_of(token: Token) -> Span:
    """Where a token stands."""
    assert token.line is not None
    assert token.column is not None
    assert token.end_line is not None
    assert token.end_column is not None
    return Span(token.line, token.column, token.end_line, token.end_column)


def join(first: Span, last: Span) -> Span:
    """From the start of one span to the end of another."""
    return Span(first.line, first.column, last.end_line, last.end_column)


MOST_OF_RANGE = 3
"""Arguments of `range`: the first number, where it ends, and the step."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """A list as left recursion builds it: never changed, and as long as it is, no copy for each item."""

    before: _Chain | None
    item: Any

    def items(self) -> tuple[Any, ...]:
        """The items in the order of the text."""
        found = []
        link: _Chain | None = self
        while link is not None:
            found.append(link.item)
            link = link.before
        return tuple(reversed(found))


def _name(token: Token) -> syntax.Name:
    return syntax.Name(str(token), span_of(token))


def _text(token: Token) -> syntax.Text:
    return syntax.Text(token.strip('"'), span_of(token))


class TreeBuilder(Transformer[Token, Any]):
    """Called by the parser with each rule's children as it reduces them."""

    def program(self, children: list[Any]) -> syntax.Program:
        items = children[0].items() if children[0] else ()
        dims = tuple(dim for item in items if isinstance(item, tuple) for dim in item)
        definitions = tuple(item for item in items if isinstance(item, syntax.Definition))
        return syntax.Program(dims, definitions, tuple(i for i in items if isinstance(i, syntax.Broken)))

    def one(self, children: list[Any]) -> _Chain:
        return _Chain(None, children[0])

    def two(self, children: list[Any]) -> _Chain:
        return _Chain(_Chain(None, children[0]), children[1])

    def more(self, children: list[Any]) -> _Chain:
        return _Chain(children[0], children[1])

    def listed(self, children: list[Any]) -> tuple[Any, ...]:
        items: tuple[Any, ...] = children[0].items()
        return items

    def inner(self, children: list[Any]) -> Any:
        return children[0]

    def omitted(self, children: list[Any]) -> None:
        return None

    def broken(self, children: list[Any]) -> syntax.Broken:
        token = children[0]
        return syntax.Broken(frozenset(token.split()), span_of(token))

    broken_block = broken

    def dims(self, children: list[Any]) -> tuple[syntax.Dim, ...]:
        dims: tuple[syntax.Dim, ...] = children[1].items()
        return dims

    def dim(self, children: list[Any]) -> syntax.Dim:
        name, _, value = children
        return syntax.Dim(_name(name), value, join(span_of(name), value.extent))

    def definition(self, children: list[Any]) -> syntax.Definition:
        keyword, name, opening, parameters, closing, statements = children
        return syntax.Definition(
            str(keyword),
            _name(name),
            parameters or (),
            join(span_of(opening), span_of(closing)),
            statements,
            join(span_of(keyword), span_of(closing)),
        )

    def parameter(self, children: list[Any]) -> syntax.Parameter:
        name, annotation, default = children
        return syntax.Parameter(_name(name), annotation, default)

    def annotation(self, children: list[Any]) -> syntax.Annotation:
        word = _name(children[0])
        return syntax.Annotation(word, (), "", word.extent)

    def annotation_of(self, children: list[Any]) -> syntax.Annotation:
        word, joint, index_set = children
        extent = join(span_of(word), span_of(index_set))
        return syntax.Annotation(_name(word), (_name(index_set),), str(joint), extent)

    def annotation_of_two(self, children: list[Any]) -> syntax.Annotation:
        word, opening, sets, closing = children
        extent = join(span_of(word), span_of(closing))
        return syntax.Annotation(_name(word), tuple(map(_name, sets.items())), str(opening), extent)

    def after_equal(self, children: list[Any]) -> Any:
        return children[1]

    def single(self, children: list[Any]) -> tuple[syntax.Statement, ...]:
        return (children[0],)

    def docstring(self, children: list[Any]) -> syntax.Docstring:
        return syntax.Docstring(str(children[0]), span_of(children[0]))

    def declarations(self, children: list[Any]) -> syntax.Declarations:
        kind = str(children[0])
        return syntax.Declarations(tuple(syntax.Declaration(kind, *parts) for parts in children[1].items()))

    def map_declaration(self, children: list[Any]) -> syntax.MapDeclaration:
        word, name, domain, _, codomain = children
        extent = join(span_of(word), span_of(codomain))
        return syntax.MapDeclaration(_name(name), _name(domain), _name(codomain), extent)

    def tensor(self, children: list[Any]) -> tuple[syntax.Name, tuple[syntax.Expression, ...], Span]:
        name, _, extents, closing = children
        return _name(name), extents, join(span_of(name), span_of(closing))

    def stored(self, children: list[Any]) -> tuple[Any, ...]:
        (name, extents, extent), word = children
        return name, extents, join(extent, span_of(word)), _name(word)

    def scalar(self, children: list[Any]) -> tuple[syntax.Name, tuple[syntax.Expression, ...], Span]:
        return _name(children[0]), (), span_of(children[0])

    def assignment(self, children: list[Any]) -> syntax.Assignment:
        target, operator, value = children
        target = _name(target) if isinstance(target, Token) else target
        update = str(operator).removesuffix("=")
        return syntax.Assignment(target, update, span_of(operator), value, join(target.extent, value.extent))

    def call_statement(self, children: list[Any]) -> syntax.CallStatement:
        call = self.call(children)
        return syntax.CallStatement(call, call.extent)

    def loop(self, children: list[Any]) -> syntax.Loop:
        keyword, variables, _, iterator, statements = children
        names = tuple(map(_name, variables.items()))
        return syntax.Loop(names, iterator, statements, join(span_of(keyword), iterator.extent))

    def whole(self, children: list[Any]) -> syntax.Iterator:
        return syntax.Iterator(children[0], None, (), children[0].extent)

    def method(self, children: list[Any]) -> syntax.Iterator | syntax.Numbers:
        path, _, arguments, closing = children
        extent = join(path.extent, span_of(closing))
        if isinstance(path, syntax.Attribute):
            return syntax.Iterator(path.base, path.name, arguments or (), extent)
        if path.text == "range" and arguments and len(arguments) <= MOST_OF_RANGE:
            return syntax.Numbers(arguments, extent)
        return syntax.Iterator(path, path, arguments or (), extent)

    def numbers(self, children: list[Any]) -> syntax.Numbers:
        first, _, stop = children
        return syntax.Numbers((first, stop), join(first.extent, stop.extent))

    def data(self, children: list[Any]) -> syntax.Data:
        base, opening, name, closing = children
        span = join(span_of(opening), span_of(closing))
        inner = _text(name) if name.type == "STRING" else _name(name)
        return syntax.Data(base, inner, span, join(base.extent, span))

    def unpacking(self, children: list[Any]) -> syntax.Unpacking:
        first, names, _, values = children
        targets = (_name(first), *map(_name, names.items()))
        return syntax.Unpacking(targets, values.items(), join(targets[0].extent, values.item.extent))

    def returned(self, children: list[Any]) -> syntax.Return:
        keyword, value = children
        values = value.items() if isinstance(value, _Chain) else (value,)
        return syntax.Return(values, join(span_of(keyword), values[-1].extent))

    def returned_together(self, children: list[Any]) -> syntax.Return:
        keyword, _, values, closing = children
        return syntax.Return(values.items(), join(span_of(keyword), span_of(closing)))

    def binary(self, children: list[Any]) -> syntax.Binary:
        left, operator, right = children
        extent = join(left.extent, right.extent)
        return syntax.Binary(str(operator), span_of(operator), left, right, extent)

    def unary(self, children: list[Any]) -> syntax.Unary:
        operator, operand = children
        span = span_of(operator)
        return syntax.Unary(str(operator), span, operand, join(span, operand.extent))

    def index(self, children: list[Any]) -> syntax.Index:
        base, opening, indices, closing = children
        span = join(span_of(opening), span_of(closing))
        return syntax.Index(base, indices, span, join(base.extent, span))

    def slice(self, children: list[Any]) -> syntax.Slice:
        base, opening, start, stop, step, closing = children
        span = join(span_of(opening), span_of(closing))
        return syntax.Slice(base, start, stop, step, span, join(base.extent, span))

    def attribute(self, children: list[Any]) -> syntax.Attribute:
        base, dot, name = children
        span = join(span_of(dot), span_of(name))
        return syntax.Attribute(base, _name(name), span, join(base.extent, span))

    def in_degree(self, children: list[Any]) -> syntax.InDegree:
        base, _, _, _, node, closing = children
        return syntax.InDegree(base, node, join(base.extent, span_of(closing)))

    def name(self, children: list[Any]) -> syntax.Name:
        return _name(children[0])

    def number(self, children: list[Any]) -> syntax.Number:
        text = str(children[0])
        whole = text.isdecimal()
        return syntax.Number(int(text) if whole else float(text), text, span_of(children[0]))

    def call(self, children: list[Any]) -> syntax.Call:
        name, _, arguments, closing = children
        return syntax.Call(_name(name), arguments or (), join(span_of(name), span_of(closing)))

    def parentheses(self, children: list[Any]) -> syntax.Parentheses:
        opening, inner, closing = children
        return syntax.Parentheses(inner, join(span_of(opening), span_of(closing)))

    def positional(self, children: list[Any]) -> syntax.Argument:
        return syntax.Argument(None, children[0])

    def keyword(self, children: list[Any]) -> syntax.Argument:
        name, _, value = children
        return syntax.Argument(_name(name), value)

    def comprehension(self, children: list[Any]) -> syntax.Argument:
        element, _, variables, _, iterator = children
        names = tuple(map(_name, variables.items()))
        extent = join(element.extent, iterator.extent)
        return syntax.Argument(None, syntax.Comprehension(element, names, iterator, extent))

    def bracketed(self, children: list[Any]) -> syntax.Argument:
        return self.comprehension(children[1:-1])

    def listing(self, children: list[Any]) -> syntax.Argument:
        opening, items, closing = children
        return syntax.Argument(None, syntax.Listing(items, join(span_of(opening), span_of(closing))))

    def string(self, children: list[Any]) -> syntax.Argument:
        return syntax.Argument(None, _text(children[0]))
