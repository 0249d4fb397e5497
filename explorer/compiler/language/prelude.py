"""The helpers that every layer has: prelude.emb, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from explorer.compiler.language import syntax
from explorer.compiler.language.parse import parse


@cache
def prelude_text() -> str:
    """The prelude as it is written."""
    return Path(__file__).with_name("prelude.emb").read_text(encoding="utf-8")


@cache
def prelude() -> Mapping[str, syntax.Definition]:
    """The prelude's helpers by name."""
    return {definition.name.text: definition for definition in parse(prelude_text()).definitions}


def is_of_prelude(helper: syntax.Definition) -> bool:
    """Whether a helper is the prelude's own, not one of the user's with its name."""
    return prelude().get(helper.name.text) is helper
