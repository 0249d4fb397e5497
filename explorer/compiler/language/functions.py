"""What a text can call, and what each function says of itself: the built-in ones and the prelude's helpers."""

from __future__ import annotations

from typing import NamedTuple

from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.language.names.builtins import ALIASES, BUILTINS
from explorer.compiler.language.names.prelude import prelude
from explorer.compiler.language.parsing import syntax


class Described(NamedTuple):
    """`call` is how it is written, `domain` the operands that have a value where not all do, `corner` its slope where
    the slope has two sides, and `aliases` its other spellings."""

    name: str
    call: str
    about: str
    domain: str = ""
    corner: str = ""
    aliases: tuple[str, ...] = ()


def callables() -> list[Described]:
    """All of them by name."""
    found = []
    for name, builtin in BUILTINS.items():
        known = FUNCTIONS.get(name)
        aliases = tuple(alias for alias, of in ALIASES.items() if of == name)
        domain, corner = (known.domain, known.corner) if known else ("", "")
        found.append(Described(name, builtin.call, builtin.about, domain, corner, aliases))
    for name, helper in prelude().items():
        call = f"{name}({', '.join(parameter.name.text for parameter in helper.parameters)})"
        found.append(Described(name, call, _docstring(helper)))
    return sorted(found)


def _docstring(helper: syntax.Definition) -> str:
    return next((each.text.strip('"') for each in helper.statements if isinstance(each, syntax.Docstring)), "")
