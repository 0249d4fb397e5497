"""The sizes that a text declares, `dim D = 64, K = 2 * D`: their values, with those that a run overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add, floordiv, mod, mul, sub

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, suggestion
from explorer.compiler.language.names.builtins import INDEX_SETS, builtin
from explorer.compiler.language.parsing import syntax

LARGEST_SIZE = 65_536
LARGEST_NUMBER = 10**12
"""On the way to a size."""
DEEPEST = 50
"""Operations within operations of a size."""
OPERATORS: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}


def check_sizes(program: syntax.Program, text: str, sizes: Mapping[str, int], collector: Collector) -> dict[str, int]:
    """The final value of every declared size; one with an error counts as 1, which is reported already.

    A size may be computed of those before it; what a run sets is taken in place of what the text says."""
    known: dict[str, int] = {}
    for dim in program.dims:
        name = dim.name.text
        if name in known:
            collector.report(f"the size '{name}' is declared twice", dim.name.extent)
            continue
        if builtin(name) or name in INDEX_SETS:
            report_reserved(name, dim.name.extent, collector)
        value = sizes[name] if name in sizes else _Computed(dim, text, known, collector).value()
        if value is not None and not 1 <= value <= LARGEST_SIZE:
            given = f"{value:,}" if abs(value) < 10**20 else slice_text(text, dim.value.extent)
            message = f"the size '{name}' is from 1 to {LARGEST_SIZE:,}, not {given}"
            collector.report(message, dim.name.extent if name in sizes else dim.value.extent)
        known[name] = value if value is not None and 1 <= value <= LARGEST_SIZE else 1
    if not program.errors:
        for name in sizes:
            if name not in known:
                other, _ = suggestion(name, Span(1, 1, 1, 1), known)
                declared = ", ".join(known) or "none"
                collector.report(f"the text declares no size '{name}'{other}", None, f"Declared: {declared}.")
    return known


def report_reserved(name: str, span: Span, collector: Collector) -> None:
    """About a size or a definition that is called as something that the language has."""
    kind = "an index set" if name in INDEX_SETS else "a built-in function"
    collector.report(f"'{name}' is {kind}: choose another name", span)


class _Computed:
    """A size as the text writes it: of whole numbers and of the sizes before it."""

    def __init__(self, dim: syntax.Dim, text: str, known: Mapping[str, int], collector: Collector) -> None:
        self._dim = dim
        self._text = text
        self._known = known
        self._collector = collector

    def value(self) -> int | None:
        """The number; None where there is none, which is reported."""
        return self._number(self._dim.value, 0)

    def _number(self, node: syntax.Expression, depth: int) -> int | None:
        if depth > DEEPEST:
            self._collector.report("this size nests too deeply", self._dim.value.extent)
            return None
        spine: list[syntax.Binary] = []  # a long sum nests to the left as deep as it is long
        while isinstance(node, syntax.Binary):
            spine.append(node)
            node = node.left
        found = self._atom(node, depth)
        for parent in reversed(spine):
            right = self._number(parent.right, depth + 1) if found is not None else None
            found = None if found is None or right is None else self._pair(parent, found, right)
        return found

    def _atom(self, node: syntax.Expression, depth: int) -> int | None:
        match node:
            case syntax.Number(value=int() as value):
                return value
            case syntax.Name(text=name) if name in self._known:
                return self._known[name]
            case syntax.Name():
                hint, fixes = suggestion(node.text, node.extent, self._known)
                detail = "A size is computed of whole numbers and of the sizes that are declared before it."
                self._collector.report(f"unknown size '{node.text}'{hint}", node.extent, detail, fixes)
                return None
            case syntax.Unary() | syntax.Parentheses():
                inner = node.operand if isinstance(node, syntax.Unary) else node.inner
                found = self._number(inner, depth + 1)
                return (
                    -found if found is not None and isinstance(node, syntax.Unary) and node.operator == "-" else found
                )
        message = f"the size '{self._dim.name.text}' is a whole number from 1 to {LARGEST_SIZE:,}"
        self._collector.report(message, self._dim.value.extent)
        return None

    def _pair(self, node: syntax.Binary, left: int, right: int) -> int | None:
        """Two numbers as one; a quotient is rounded down."""
        function = OPERATORS.get(node.operator)
        if function is None:
            fixes = [Fix("Use //", node.span, "//")] if node.operator == "/" else []
            self._collector.report("a size is computed with +, -, *, // and %", node.span, fixes=fixes)
            return None
        if node.operator in ("//", "%") and right == 0:
            self._collector.report("division by zero", node.span)
            return None
        found = function(left, right)
        if abs(found) > LARGEST_NUMBER:
            shown = slice_text(self._text, node.extent)
            self._collector.report(f"a size is at most {LARGEST_SIZE:,}, and {shown} is far more", node.extent)
            return None
        return found
