"""Models that were imported from PyTorch: their texts, traced before, beside the modules that they were traced from.

Nothing here runs Python of a model: `examples/trace_all.py` does, and writes what is read here."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from explorer.checkout import CHECKOUT
from explorer.web.examples import Example

FOLDER = "pytorch"
"""Of `examples/`, and of the models' keys."""


@dataclass(frozen=True)
class Imported:
    """A module's `source`, and the text that it became, as an example. `asked` are by line of the text the lines of the
    source that ask for what it computes, from 1 on; `about` says in a sentence what it is."""

    example: Example
    source: str
    asked: tuple[tuple[int, ...], ...]

    @property
    def about(self) -> str:
        """What the source says of itself."""
        return ast.get_docstring(ast.parse(self.source)) or ""

    def links(self) -> Iterator[tuple[int, ...]]:
        """By line of the source, the lines of the text that compute what it asks for."""
        for number in range(1, len(self.source.splitlines()) + 1):
            yield tuple(at for at, asked in enumerate(self.asked, start=1) if number in asked)


@cache
def imported() -> tuple[Imported, ...]:
    """All imported models, by name. Read once, as examples are."""
    folder = CHECKOUT / "examples" / FOLDER
    texts = json.loads((folder / "traced.json").read_text(encoding="utf-8"))
    return tuple(
        Imported(
            Example(name, FOLDER, "".join(f"{line}\n" for line, _ in lines)),
            (folder / f"{name}.py").read_text(encoding="utf-8"),
            tuple(tuple(asked) for _, asked in lines),
        )
        for name, lines in texts.items()
    )
