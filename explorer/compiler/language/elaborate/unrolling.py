"""Loops over numbers that are known before the run, `for k in 0..K`: their lines are elaborated once for each number.

What that may produce is limited before it is: the loop's expressions, times its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.values.calls import call_builtin
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.names.builtins import ALIASES, BUILTINS
from explorer.compiler.language.names.entities import Constant, Row
from explorer.compiler.language.names.shapes import LARGEST_EXTENT
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator

LARGEST_UNROLLED = 100_000
"""Expressions of the text that loops over numbers repeat, all together: a definition of 1,000 operations has fewer."""
FOLDS = {"sum": "add", "mean": "add", "prod": "mul", "min": "min", "max": "max"}
"""How what a comprehension over numbers has is brought together, two at a time."""
SIGNS = {"add": "+", "mul": "*"}
JOINING = ("stack", "concat")


class Unrolling:
    """The loops over numbers of one definition."""

    def __init__(self, elaborator: Elaborator) -> None:
        self._elaborator = elaborator
        self._repeated = 0
        self.depth = 0

    def run(self, loop: syntax.Loop) -> bool:
        """The loop's statements for each number; False where its header is wrong, which is reported."""

        def work() -> None:
            for statement in loop.statements:
                self._elaborator.statement(statement)

        nodes = sum(
            1
            for statement in syntax.walk_statements(loop.statements)
            for root in syntax.expressions_of(statement)
            for _ in syntax.walk_expression(root)
        )
        return self._each(loop.variables, loop.iterator, nodes, work)

    def comprehension(self, node: syntax.Call, element: syntax.Comprehension) -> Row | Constant | None:
        """`sum(x[k] for k in 0..K)`, `stack(W[k] @ x for k in 0..K)`."""
        name = ALIASES.get(node.function.text, node.function.text)
        elaborator = self._elaborator
        if (name not in FOLDS and name not in JOINING) or len(node.arguments) > 1:
            known = ", ".join((*FOLDS, *JOINING))
            message = f"what takes a 'for' over numbers is one of {known}, with nothing else"
            elaborator.collector.report(message, node.extent)
            return None
        found: list[Row | Constant | None] = []

        def work() -> None:
            found.append(elaborator.value(element.element, elaborator.expression(element.element)))

        nodes = sum(1 for _ in syntax.walk_expression(element.element))
        if not self._each(element.variables, element.iterator, nodes, work):
            return None
        known_values = [value for value in found if value is not None]
        if len(known_values) < len(found):
            return None
        if not found and name != "sum":
            elaborator.collector.report(f"'{name}' of nothing: this loop has no numbers", element.iterator.extent)
            return None
        return self._together(name, node, element, known_values)

    def _together(
        self, name: str, node: syntax.Call, element: syntax.Comprehension, values: Sequence[Row | Constant]
    ) -> Row | Constant | None:
        """The values for all numbers as one."""
        operations: Operations = self._elaborator.operations
        if name in JOINING:
            nodes = [element.element] * len(values)
            return call_builtin(operations, node, BUILTINS[name], nodes, list(values))
        if not values:
            return Constant(0, node.extent, name)
        total: Row | Constant | None = values[0]
        for value in values[1:]:
            if total is None:
                return None
            total = self._pair(FOLDS[name], node, element, total, value)
        if name != "mean" or total is None:
            return total
        count = Constant(len(values), node.function.extent, str(len(values)))
        return operations.binary(self._binary("/", node, element), total, count)

    def _pair(
        self,
        function: str,
        node: syntax.Call,
        element: syntax.Comprehension,
        left: Row | Constant,
        right: Row | Constant,
    ) -> Row | Constant | None:
        operations = self._elaborator.operations
        if function in SIGNS:
            return operations.binary(self._binary(SIGNS[function], node, element), left, right)
        return call_builtin(operations, node, BUILTINS[function], [element.element] * 2, [left, right])

    def _binary(self, sign: str, node: syntax.Call, element: syntax.Comprehension) -> syntax.Binary:
        """An operation of two of the values, which stands where the function does."""
        return syntax.Binary(sign, node.function.extent, element.element, element.element, node.extent)

    def _each(
        self,
        variables: tuple[syntax.Name, ...],
        iterator: syntax.Iterator | syntax.Numbers,
        nodes: int,
        work: Callable[[], None],
    ) -> bool:
        """Does something for each number; stops at the first that something is wrong with."""
        assert isinstance(iterator, syntax.Numbers)
        elaborator = self._elaborator
        numbers = self._numbers(iterator)
        variable = variables[0]
        if len(variables) > 1:
            elaborator.collector.report("a loop over numbers has one variable", variables[1].extent)
            return False
        if numbers is None or not elaborator.loops.is_free(variable):
            return False
        # One more than there are numbers: what is in a loop is counted also where there are none.
        self._repeated += (len(numbers) + 1) * (nodes + 1)
        if self._repeated > LARGEST_UNROLLED:
            shown = slice_text(elaborator.text, iterator.extent)
            message = f"the loop over {shown} would repeat too much: {len(numbers):,} times {nodes:,} expressions"
            detail = f"Loops over numbers repeat at most {LARGEST_UNROLLED:,} expressions of a definition together."
            elaborator.collector.report(message, iterator.extent, detail)
            return False
        self.depth += 1
        before = len(elaborator.collector.diagnostics)
        for number in numbers:
            elaborator.operations.builder.count_operation(iterator.extent)
            elaborator.scope[variable.text] = Constant(number, variable.extent, str(number))
            work()
            if len(elaborator.collector.diagnostics) > before:
                break
        self.depth -= 1
        elaborator.scope.pop(variable.text, None)
        line = iterator.extent.line
        ended = f"'{variable.text}' is the variable of the loop in line {line}, which has ended"
        elaborator.loops.ended[variable.text] = ended
        return True

    def _numbers(self, iterator: syntax.Numbers) -> range | None:
        """What the loop goes through; None where a bound is wrong, which is reported."""
        elaborator = self._elaborator
        bounds = [elaborator.whole(bound, "a bound of a loop over numbers") for bound in iterator.bounds]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            return None
        if any(abs(bound) > LARGEST_EXTENT for bound in known):
            message = f"a bound of a loop over numbers is at most {LARGEST_EXTENT:,}"
            elaborator.collector.report(message, iterator.extent)
            return None
        if len(known) == 3 and known[2] == 0:
            elaborator.collector.report("the step of a loop over numbers is not 0", iterator.bounds[2].extent)
            return None
        return range(*known)
