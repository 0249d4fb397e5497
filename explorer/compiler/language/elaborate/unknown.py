"""What is said of names that stand for nothing: what was meant, or what to declare or pass, in one step where one does.

A text that was pasted without its declarations is told all of its tables at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Fix, joined_fix, slice_text, suggestion
from explorer.compiler.language.names.builtins import BUILTINS, FORMULAS, INSTEAD, LATER, MISSING
from explorer.compiler.language.names.entities import Index, Table
from explorer.compiler.language.names.prelude import prelude
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

COUNTS = {2: "both", 3: "all three", 4: "all four", 5: "all five"}
DEFAULT_SIZE = "D"


@dataclass(frozen=True)
class _Missing:
    """A table that is indexed and declared nowhere."""

    name: syntax.Name
    sets: tuple[str, ...]


class Unknown:
    """Reports the unknown names of one definition. `definitions` are the scores, layers and ops of the text by name,
    with their kind: they are not called."""

    def __init__(
        self,
        elaborator: Elaborator,
        definition: syntax.Definition,
        helpers: Mapping[str, syntax.Definition],
        definitions: Mapping[str, str],
    ) -> None:
        self._elaborator = elaborator
        self._definition = definition
        self._helpers = helpers
        self._definitions = definitions
        self._missing: list[_Missing] = []
        self._seen: set[Span] = set()

    def name(self, name: syntax.Name, index: syntax.Index | None, calls: list[str]) -> None:
        """About a name that stands for nothing, in `index` where rows of it are taken, in the helpers that are called
        just now."""
        elaborator = self._elaborator
        scope = [other for other, entity in elaborator.scope.items() if entity is not None]
        tables = [other for other in scope if isinstance(elaborator.scope[other], Table)]
        known = tables if index is not None else [*scope, *elaborator.operations.shapes.sizes]
        hint, fixes = suggestion(name.text, name.extent, known, abbreviates=index is not None)
        if not hint and calls and name.text in elaborator.loops.elements.tables:
            self._of_helper(name, calls)
            return
        sets = self._sets(index) if index is not None and not hint and not calls else ()
        if sets and name.extent not in self._seen:
            self._seen.add(name.extent)
            self._missing.append(_Missing(name, sets))
            return
        if name.extent not in self._seen:
            elaborator.collector.report(f"unknown name '{name.text}'{hint}", name.extent, fixes=fixes)

    def _of_helper(self, name: syntax.Name, calls: list[str]) -> None:
        """About a tensor that a helper reads: what it is not given, it does not see."""
        helper = calls[-1]
        message = f"a helper sees its parameters alone: '{name.text}' is declared where it is called"
        detail = f"Pass it: def {helper}(..., {name.text}), and in the call {helper}(..., {name.text})."
        fixes = self._passing(name.text, self._helpers[helper]) if len(calls) == 1 else []
        self._elaborator.collector.report(message, name.extent, detail, fixes)

    def _passing(self, name: str, helper: syntax.Definition) -> list[Fix]:
        """The fix that gives a helper one parameter more, in its header and in all calls of the definition; none where
        that would not be all of it: where others call it, or what stands there last is no argument by its place."""
        if helper.name.text in prelude():  # which may call it too
            return []
        brackets, named = [helper.parameters_extent], any(part.default is not None for part in helper.parameters)
        edits = [behind(helper.parameters_extent, name, bool(helper.parameters))]
        for statement in syntax.walk_statements(self._definition.statements):
            for root in syntax.expressions_of(statement):
                for node in syntax.walk_expression(root):
                    if isinstance(node, syntax.Call) and node.function.text == helper.name.text:
                        brackets.append(node.extent)
                        named = named or any(argument.keyword is not None for argument in node.arguments)
                        edits.append(behind(node.extent, name, bool(node.arguments)))
        text = self._elaborator.text
        others = len(re.findall(rf"\b{helper.name.text}\s*\(", text)) > len(edits)
        if named or others or any(ends_openly(text, span) for span in brackets):
            return []
        return [joined_fix(f"Pass {name} to {helper.name.text}", self._elaborator.text, edits)]

    def _sets(self, node: syntax.Index) -> tuple[str, ...]:
        """The index sets of what a name is indexed by; none where any of it is no index."""
        found = [self._elaborator.expression(index) for index in node.indices]
        sets = tuple(entity.index_set for entity in found if isinstance(entity, Index))
        return sets if len(sets) == len(found) else ()

    def report_tables(self) -> None:
        """About the tables that are declared nowhere, each with what all of them are."""
        declared = {table.tensor.sets for table in self._elaborator.loops.elements.tables.values()}
        ordered = sorted(self._missing, key=lambda missing: missing.name.extent)
        fitting = [missing for missing in ordered if missing.sets not in declared]
        tables: dict[str, tuple[str, ...]] = {}
        for missing in fitting:
            tables.setdefault(missing.name.text, missing.sets)
        for missing in ordered:
            fixes = []
            if missing in fitting:
                fixes += self._declaring({missing.name.text: missing.sets}, "")
                fixes += self._declaring(tables, COUNTS.get(len(tables), "all")) if len(tables) > 1 else []
            name = missing.name
            self._elaborator.collector.report(f"unknown name '{name.text}'", name.extent, fixes=fixes)

    def _declaring(self, tables: Mapping[str, tuple[str, ...]], count: str) -> list[Fix]:
        """The fix that declares tables of rows at the beginning of the definition, and a size where there is none."""
        computed = (syntax.Assignment, syntax.Unpacking, syntax.CallStatement, syntax.Loop, syntax.Return)
        first = next((entry for entry in self._definition.statements if isinstance(entry, computed)), None)
        if first is None or first.extent.line == self._definition.header.end_line:
            return []
        line, column = first.extent.line, first.extent.column
        size = next(iter(self._elaborator.operations.shapes.sizes), "")
        shown = [f"{name}[{', '.join((*sets, size or DEFAULT_SIZE))}]" for name, sets in tables.items()]
        declared = f"param {', '.join(shown)}"
        edits = [(Span(line, column, line, column), f"{declared}\n{' ' * (column - 1)}")]
        header = self._definition.header.line
        edits = edits if size else [(Span(header, 1, header, 1), f"dim {DEFAULT_SIZE} = 64\n"), *edits]
        return [joined_fix(f"Declare {count or declared}", self._elaborator.text, edits)]

    def function(self, node: syntax.Call) -> None:
        """About a call of what is no function."""
        name, word = node.function, node.function.text.lower()
        report = self._elaborator.collector.report
        instead = INSTEAD.get(word) or FORMULAS.get(word)
        if name.text in self._definitions:
            kind = self._definitions[name.text]
            detail = f"What a {kind} and another share is a helper: def {name.text}(...), called in both."
            report(f"'{name.text}' is a {kind}, and only helpers are called", name.extent, detail)
        elif name.text in LATER:
            report(LATER[name.text], name.extent)
        elif name.text in self._elaborator.scope:
            report(f"'{name.text}' is not a function", name.extent, *self._indexed(node))
        elif instead:
            report(f"unknown function '{name.text}'", name.extent, f"Write {instead}.")
        elif word in MISSING:
            report(f"unknown function '{name.text}'", name.extent, f"The language {MISSING[word]}.")
        else:
            hint, fixes = suggestion(name.text, name.extent, self._callable_with(len(node.arguments)))
            report(f"unknown function '{name.text}'{hint}", name.extent, fixes=fixes)

    def _indexed(self, node: syntax.Call) -> tuple[str, list[Fix]]:
        """What to write in place of a call of a tensor, `E(h)`."""
        entity = self._elaborator.scope[node.function.text]
        indices = [self._elaborator.expression(argument.value) for argument in node.arguments]
        shown = ", ".join(slice_text(self._elaborator.text, argument.value.extent) for argument in node.arguments)
        indexed = f"{node.function.text}[{shown}]"
        fits = isinstance(entity, Table) and len(indices) == len(entity.tensor.sets) > 0
        fits = fits and all(isinstance(index, Index) for index in indices)
        return "A tensor is indexed as in E[h].", [Fix(f"Use {indexed}", node.extent, indexed)] if fits else []

    def _callable_with(self, count: int) -> Iterable[str]:
        """The functions that take so many arguments."""
        found = [entry.name for entry in BUILTINS.values() if entry.takes(count)]
        for helper in self._helpers.values():
            least = sum(parameter.default is None for parameter in helper.parameters)
            found += [helper.name.text] if least <= count <= len(helper.parameters) else []
        return found


def ends_openly(text: str, brackets: Span) -> bool:
    """Whether brackets reach over lines, or end with a comma: a name is not put in behind what is there."""
    inside = text.split("\n")[brackets.end_line - 1][: brackets.end_column - 2]
    return brackets.line != brackets.end_line or inside.rstrip().endswith(",")


def behind(brackets: Span, name: str, others: bool) -> tuple[Span, str]:
    """A name put in before a closing bracket, behind the others where there are any."""
    line, column = brackets.end_line, brackets.end_column - 1
    return Span(line, column, line, column), f", {name}" if others else name
