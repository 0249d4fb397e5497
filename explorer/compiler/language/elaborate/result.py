"""What checking a text gives: the graph, or what is wrong, and the operations of the text."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Diagnostic


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
