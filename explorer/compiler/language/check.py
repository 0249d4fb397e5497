"""Syntax tree to graph, and the operations of the text that the graph's values come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Diagnostic
from explorer.compiler.options import Negatives

if TYPE_CHECKING:
    from explorer.compiler.language import syntax


@dataclass(frozen=True, slots=True)
class OperationSite:
    """An operation where it stands: `span` is its operator, `extent` its whole expression, `label` its short text."""

    label: str
    span: Span
    extent: Span


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The graph of the definition that runs and its operations in the order of the text, or what is wrong."""

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    operations: tuple[OperationSite, ...]


def check(
    program: syntax.Program,
    text: str,
    sizes: Mapping[str, int],
    negatives: Negatives | None,
    name: str | None,
) -> CheckResult:
    """Checks a whole text. `sizes` override the declared ones; `name` picks a definition, else the last one runs.

    Where lines did not parse, their errors are reported together with those of the other lines.
    """
    # The checker is loaded with the first text, as the parser is, so that importing the compiler stays cheap.
    from explorer.compiler.language.program import check_program

    return check_program(program, text, sizes, negatives, name)
