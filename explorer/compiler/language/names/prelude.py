"""The helpers that every definition has: prelude.emb, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from explorer.compiler.language.names.builtins import GRAPH_WORD
from explorer.compiler.language.parsing import syntax
from explorer.compiler.language.parsing.parse import parse


@cache
def prelude_text() -> str:
    """The prelude as it is written."""
    return Path(__file__).with_name("prelude.emb").read_text(encoding="utf-8")


@cache
def prelude() -> Mapping[str, syntax.Definition]:
    """The prelude's helpers by name."""
    return {definition.name.text: definition for definition in parse(prelude_text()).definitions}


@cache
def helpers_for(family: str) -> Mapping[str, syntax.Definition]:
    """Those that a family's definitions may call: a score has no graph, which some are of."""
    return {name: helper for name, helper in prelude().items() if family != "score" or not _is_of_graph(helper)}


def _is_of_graph(helper: syntax.Definition) -> bool:
    return any(part.annotation is not None and part.annotation.text == GRAPH_WORD for part in helper.parameters)


def is_of_prelude(helper: syntax.Definition) -> bool:
    """Whether a helper is the prelude's own, not one of the user's with its name."""
    return prelude().get(helper.name.text) is helper
