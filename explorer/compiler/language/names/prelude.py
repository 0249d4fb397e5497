"""The helpers that every definition has: prelude.emb, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from explorer.compiler.language.names.builtins import GRAPH_WORD, MATRIX_WORD
from explorer.compiler.language.parsing import syntax
from explorer.compiler.language.parsing.parse import parse

DIVIDING = "by"
"""The keyword for a set by which a reduction is divided."""


@cache
def prelude_text() -> str:
    """The prelude as it is written."""
    return Path(__file__).with_name("prelude.emb").read_text(encoding="utf-8")


@cache
def _definitions() -> tuple[syntax.Definition, ...]:
    return parse(prelude_text()).definitions


@cache
def prelude() -> Mapping[str, syntax.Definition]:
    """The prelude's helpers by name; of two with one name, which are of different structures, the first."""
    return {definition.name.text: definition for definition in reversed(_definitions())}


@cache
def helpers_for(family: str) -> Mapping[str, syntax.Definition]:
    """Those that a family's definitions may call: some are of a layer's graph, or of an op's matrix."""
    own = {"layer": GRAPH_WORD, "op": MATRIX_WORD}.get(family, "")
    return {
        helper.name.text: helper
        for helper in _definitions()
        if _structure_of(helper) in ("", own) and not any(divides(part) for part in helper.parameters)
    }


def divided_by(helper: syntax.Definition, index_set: str) -> syntax.Definition | None:
    """The prelude's helper of the same name whose reductions are divided by that set, `by=etype`; without the
    parameter that says so."""
    named = (other for other in _definitions() if other.name.text == helper.name.text and is_of_prelude(helper))
    for other in named:
        part = other.parameters[-1]
        if divides(part) and part.annotation is not None and part.annotation.text == index_set:
            return replace(other, parameters=other.parameters[:-1])
    return None


def divides(parameter: syntax.Parameter) -> bool:
    """Whether a parameter is given a set, by which a helper's reductions are divided."""
    return parameter.name.text == DIVIDING


def _structure_of(helper: syntax.Definition) -> str:
    """The graph or the matrix that a helper is of; "" for one of values."""
    words = (part.annotation.text for part in helper.parameters if part.annotation is not None)
    return next((word for word in words if word in (GRAPH_WORD, MATRIX_WORD)), "")


def is_of_prelude(helper: syntax.Definition) -> bool:
    """Whether a helper is the prelude's own, not one of the user's with its name."""
    return any(helper.statements is own.statements for own in _definitions())
