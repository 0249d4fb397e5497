"""Syntax tree to graph, and the operations of the text that the graph's values come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.compiler.language.elaborate.result import CheckResult
from explorer.compiler.options import Negatives

if TYPE_CHECKING:
    from explorer.compiler.language.parsing import syntax


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
    from explorer.compiler.language.elaborate.program import check_program

    return check_program(program, text, sizes, negatives, name)
