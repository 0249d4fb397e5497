"""The device functions that stand behind the kernels of a CUDA text, each once and declared before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.compiler.ir.node import Line, Origin, serving

WIDTH = 120
"""Characters of a line, at most, that could be two."""
DEFAULT = re.compile(r" = \w+")
"""What a parameter is where nothing is given."""


class Helpers:
    """The device functions that a text calls, each once."""

    def __init__(self) -> None:
        self._origins: dict[tuple[str, tuple[str, ...]], Origin] = {}

    def use(self, name: str, text: tuple[str, ...], origin: Origin) -> None:
        """Notes a function that a line of this origin calls; those of one name may differ in what they take."""
        others = self._origins.get((name, text), ())
        self._origins[name, text] = serving(f"function {name}", "generate_cuda", (others, origin))

    def add(self, others: Helpers) -> None:
        """Notes those that another text calls."""
        for (name, text), origin in others._origins.items():
            self.use(name, text, origin)

    def lines(self) -> list[Line]:
        """The functions by name, each line with the origins of all that call it: for whom it is, if they are of one."""
        bare = ("}", "#pragma unroll")
        return [
            Line(line, () if line.strip() in bare else origin)
            for (_, text), origin in self._ordered()
            for line in _on_one_line(_without_defaults(text))
        ]

    def declarations(self) -> list[Line]:
        """What the functions take, for kernels that stand before them."""
        return [Line(line) for (_, text), _ in self._ordered() for line in _declaration(text)]

    def _ordered(self) -> list[tuple[tuple[str, tuple[str, ...]], Origin]]:
        return sorted(self._origins.items(), key=lambda item: item[0])


def _head(text: Sequence[str]) -> list[str]:
    """The lines of a function up to its brace."""
    brace = next(place for place, line in enumerate(text) if line.endswith("{"))
    return [line.strip() for line in text[: brace + 1]]


def _declaration(text: Sequence[str]) -> Sequence[str]:
    """A function's declaration, its template in the same line where that is not too long."""
    first, *rest = _head(text)
    parameters = " ".join(rest if first.startswith("template") else (first, *rest))
    declared = f"{parameters.removesuffix(' {').replace('( ', '(')};"
    if not first.startswith("template"):
        return (declared,)
    return (f"{first} {declared}",) if len(first) + len(declared) < WIDTH else (first, declared)


def _without_defaults(text: tuple[str, ...]) -> tuple[str, ...]:
    """A function that has been declared: that has said what is taken where nothing is given."""
    size = len(_head(text))
    return (*(DEFAULT.sub("", line) for line in text[:size]), *text[size:])


def _on_one_line(text: tuple[str, ...]) -> tuple[str, ...]:
    """A function with its template in the line of its head, and one that only returns something on one line, where
    those are not too long."""
    head = " ".join(text[:2])
    if text[0].startswith("template") and len(head) <= WIDTH:
        text = (head, *text[2:])
    joined = " ".join(line.strip() for line in text)
    return (joined,) if len(text) == 3 and len(joined) <= WIDTH else text
