"""A reduction of a score over ids that its header does not have: `sum(E[k] for k in negatives)`, `for x in entity`.

What is offered is the header with such a set, and where the variable is one of the header's ids, as in `s = f(t)` and
`logsumexp(s for t in negatives)`, what was computed of that id written anew of the set's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix, joined_fix, slice_text
from explorer.compiler.language.elaborate.headers.facts import NEGATIVES_WORD
from explorer.compiler.language.names.entities import Index, Table
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

MOST_WRITTEN = 2_000
"""The letters of an expression beyond which none is offered in the place of names."""


def report_missing(elaborator: Elaborator, definition: syntax.Definition, node: syntax.Comprehension) -> bool:
    """Reports a reduction over a name that the header does not have, and says whether it is one."""
    iterator = node.iterator
    if not isinstance(iterator, syntax.Iterator) or not isinstance(iterator.base, syntax.Name):
        return False
    named = iterator.base.text
    index_set = named if named in elaborator.sets else _set_meant(elaborator, node)
    if named in elaborator.scope or elaborator.is_broken(named) or iterator.method is not None or not index_set:
        return False
    message = f"the header has no set of ids '{named}' for a reduction to go over"
    detail = f"Of each fact it has several where it says so: n: {NEGATIVES_WORD} of {index_set}."
    if named in elaborator.sets:
        message = f"'{named}' is an index set, and a score's reduction goes over ids that each fact is given"
        detail += " Where these are all that there are, it is the reduction over the set."
    fix = _with_set(elaborator, definition, node, index_set)
    elaborator.collector.report(message, iterator.extent, detail, [fix] if fix else [])
    return True


def _set_meant(elaborator: Elaborator, node: syntax.Comprehension) -> str:
    """The set of the variable: that of the id which it hides, or of the tensors that it indexes."""
    variable = node.variables[0].text
    known = elaborator.scope.get(variable)
    if isinstance(known, Index):
        return known.index_set
    for part in syntax.walk_expression(node.element):
        if isinstance(part, syntax.Index) and isinstance(part.base, syntax.Name):
            table = elaborator.scope.get(part.base.text)
            for index, index_set in zip(
                part.indices, table.tensor.sets if isinstance(table, Table) else (), strict=False
            ):
                if isinstance(index, syntax.Name) and index.text == variable:
                    return index_set
    return ""


def _with_set(
    elaborator: Elaborator, definition: syntax.Definition, node: syntax.Comprehension, index_set: str
) -> Fix | None:
    """The header with the set, and the reduction over it; None where that cannot be written in one step."""
    taken = set(_names(definition)) | elaborator.scope.keys()
    name, letter = (next((word for word in words if word not in taken), "") for words in ("nmuv", "kjxy"))
    variable = node.variables[0]
    brackets = definition.parameters_extent
    if not name or not letter or len(node.variables) > 1 or brackets.line != brackets.end_line:
        return None
    edits = [
        (_end(Span(0, 0, brackets.end_line, brackets.end_column - 1)), f", {name}: {NEGATIVES_WORD} of {index_set}")
    ]
    edits.append((node.iterator.extent, name))
    if variable.text in elaborator.scope:
        written = _Rewriting(elaborator.text, definition, {variable.text: letter}).of(node.element)
        if len(written) > MOST_WRITTEN:
            return None
        edits += [(node.element.extent, written), (variable.extent, letter)]
    return joined_fix(f"Take {name}: {NEGATIVES_WORD} of {index_set}", elaborator.text, edits)


def _assigned(definition: syntax.Definition) -> dict[str, syntax.Expression]:
    """The names that are assigned once, with what they stand for."""
    found: dict[str, list[syntax.Expression]] = {}
    for statement in syntax.walk_statements(definition.statements):
        if isinstance(statement, syntax.Assignment) and isinstance(statement.target, syntax.Name):
            found.setdefault(statement.target.text, []).append(statement.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


class _Rewriting:
    """Expressions with a name in the place of another, also in the values that they name."""

    def __init__(self, text: str, definition: syntax.Definition, renamed: Mapping[str, str]) -> None:
        self.text = text
        self.assigned = _assigned(definition)
        self.known = dict(renamed)  # what is written in the place of each name

    def of(self, node: syntax.Expression) -> str:
        """An expression written anew: what a name stands for alone, else each in brackets."""
        if isinstance(node, syntax.Name) and node.text in self.assigned:
            return self.of(self.assigned[node.text])
        edits = [(_start(node.extent), ""), (_end(node.extent), "")]
        for part in syntax.walk_expression(node):
            if isinstance(part, syntax.Name) and self._named(part.text) != part.text:
                edits.append((part.extent, self._named(part.text)))
            if sum(len(written) for _, written in edits) > MOST_WRITTEN:
                break
        return joined_fix("", self.text, edits).replacement

    def _named(self, name: str) -> str:
        if name not in self.known:
            self.known[name] = name  # also of one that stands for itself, which is an error elsewhere
            if name in self.assigned:
                inner = self.of(self.assigned[name])
                same = inner == slice_text(self.text, self.assigned[name].extent)
                self.known[name] = name if same else f"({inner})"
        return self.known[name]


def _names(definition: syntax.Definition) -> Iterator[str]:
    """All names that a definition's expressions and loops have."""
    for statement in syntax.walk_statements(definition.statements):
        for root in syntax.expressions_of(statement):
            for part in syntax.walk_expression(root):
                if isinstance(part, syntax.Name):
                    yield part.text
                elif isinstance(part, syntax.Comprehension):
                    yield from (variable.text for variable in part.variables)


def _start(extent: Span) -> Span:
    return Span(extent.line, extent.column, extent.line, extent.column)


def _end(extent: Span) -> Span:
    return Span(extent.end_line, extent.end_column, extent.end_line, extent.end_column)
