"""Comprehensions over elements: `sum(x[e.src] for e in n.incoming_edges())`, `mean(x[n] for n in g.nodes())`.

A reduction goes along a map: from the members to their group, or from all elements of a set to the one of `unit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import plural
from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.headers.missing import report_missing
from explorer.compiler.language.elaborate.iterators import Entered, enter
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.builtins import ALIASES
from explorer.compiler.language.names.entities import Constant, Index, Row
from explorer.compiler.language.names.structures import NEGATIVE, Structure
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

SEGMENT_FUNCTIONS = ("sum", "mean", "max", "min")
REDUCING = (*SEGMENT_FUNCTIONS, "prod", "logsumexp")
EMPTY = "default"
"""The keyword for what a reduction of nothing gives, where that is not 0."""


class Reductions:
    """Elaborates the comprehensions over elements of one definition."""

    def __init__(self, elaborator: Elaborator, structure: Structure) -> None:
        self._elaborator = elaborator
        self._structure = structure
        self._report = elaborator.collector.report

    def comprehension(self, node: syntax.Call, element: syntax.Comprehension) -> Row | None:
        """The reduction of what the comprehension has for each element; of none it is 0, or what `default` says."""
        name = ALIASES.get(node.function.text, node.function.text)
        others = [argument for argument in node.arguments if argument.value is not element]
        if name not in REDUCING or any(other.keyword is None or other.keyword.text != EMPTY for other in others):
            known = ", ".join(REDUCING)
            detail = f"Beside it stands {EMPTY}=, what it is of nothing: max((x[e.src] for e in ...), {EMPTY}=-1)."
            self._report(f"what takes a 'for' is one of {known}, with nothing else", node.extent, detail)
            return None
        site = OperationSite(node.function.text, node.function.extent, node.extent)
        found = self._reduced(site, name, element)
        if found is None:
            return None
        row, entered = found
        total = self._unless_empty(site, name, others[0].value, row, entered) if others else row
        return None if total is None else self._there(site, total, entered)

    def _reduced(self, site: OperationSite, name: str, element: syntax.Comprehension) -> tuple[Row, Entered] | None:
        """The reduction, and the loop that it goes through."""
        elaborator = self._elaborator
        if self._structure.kind == "facts" and report_missing(elaborator, elaborator.definition, element):
            return None
        entered = enter(elaborator, element.iterator, element.variables)
        if entered is None or not all(elaborator.loops.is_free(variable) for variable in element.variables):
            return None
        inner = elaborator.loops.inside(
            entered,
            "'{}' is the variable of a reduction, which has ended",
            lambda: elaborator.value(element.element, elaborator.expression(element.element)),
        )
        if not isinstance(inner, (Row, Constant)):
            return None
        row = elaborator.operations.builder.row(inner)
        level = entered.level
        if not level.end and elaborator.operations.builder.index_set(row.depends) != level.index_set:
            message = f"this is the same for every {level.index_set}: a reduction of all of them is of what they have"
            variable = element.variables[0].text
            over = slice_text(elaborator.text, element.iterator.extent)
            each = f"x[{variable}] == x[{variable}]"
            detail = f"How many there are is sum({each} for {variable} in {over}), with any number x of each: it is 1."
            self._report(message, element.element.extent, detail)
            return None
        if name == "logsumexp":
            return self._logsumexp(site, row, entered), entered
        return self._segment(site, "product" if name == "prod" else name, row, entered), entered

    def _there(self, site: OperationSite, row: Row, entered: Entered) -> Row:
        """A reduction over the members of a group, where it is read: a node's at an edge's other end."""
        return row if entered.at is None else self._elaborator.operations.gather_value(site, row, entered.at)

    def _segment(self, site: OperationSite, function: str, row: Row, entered: Entered) -> Row:
        """A reduction along the map from the loop's elements."""
        operations = self._elaborator.operations
        if entered.level.index_set == NEGATIVE:
            row = self._of_each(site, row, entered)
        if entered.level.end:
            return operations.segment(site, function, row, entered.level.end, entered.level.group)
        along = whole_map(entered.level.index_set)
        if function != "mean":
            return operations.segment(site, function, row, along, "")
        # How many elements a set has is a sum like any other, so that every target has it.
        total, count = (operations.segment(site, "sum", each, along, "") for each in (row, self._number(site, 1)))
        return operations.apply(site, "div_or_zero", total, count)

    def _of_each(self, site: OperationSite, row: Row, entered: Entered) -> Row:
        """What a reduction over negatives is of, one of each: also what a fact has, and they share."""
        operations = self._elaborator.operations
        if operations.builder.index_set(row.depends) == NEGATIVE:
            return row
        (index,) = (each for each in entered.variables.values() if isinstance(each, Index))
        return operations.spread(site, row, index.dependency)

    def _number(self, site: OperationSite, value: int) -> Row:
        return self._elaborator.operations.builder.row(Constant(value, site.span, str(value)))

    def _logsumexp(self, site: OperationSite, row: Row, entered: Entered) -> Row:
        """m + log(sum(exp(x - m))) with the largest x as m; a sum of nothing is 0, where log(0 + 1) is taken."""
        operations = self._elaborator.operations
        top = self._segment(site, "max", row, entered)
        back = top
        if entered.level.end and entered.level.index_set != NEGATIVE:  # which read their fact's as it is
            index = Index(entered.level.end, entered.level.group, entered.level.index_set)
            back = operations.gather_value(site, top, index)
        total = self._segment(
            site, "sum", operations.apply(site, "exp", operations.apply(site, "sub", row, back)), entered
        )
        nothing = operations.apply(site, "equal", total, self._number(site, 0))
        total = operations.apply(site, "add", total, nothing)
        return operations.apply(site, "add", top, operations.apply(site, "log", total))

    def _unless_empty(
        self, site: OperationSite, name: str, node: syntax.Expression, result: Row, entered: Entered
    ) -> Row | None:
        """The result, or where there was no element, a number."""
        elaborator, operations = self._elaborator, self._elaborator.operations
        number = elaborator.value(node, elaborator.expression(node))
        if not isinstance(number, Constant):
            if number is not None:
                self._report(f"what a reduction of nothing is, {EMPTY}=, is a number known before the run", node.extent)
            return None
        count = self._segment(site, "sum", self._number(site, 1), entered)
        nothing = operations.apply(site, "equal", count, self._number(site, 0))
        if name == "prod":  # the other reductions of nothing are 0, to which the number is added
            result = operations.apply(site, "masked", count, result)
        other = operations.apply(site, "masked", nothing, operations.builder.row(number))
        return operations.apply(site, "add", result, other)


def whole_map(index_set: str) -> str:
    """The map that takes all elements of a set to one place."""
    return f"all_{plural(index_set)}"
