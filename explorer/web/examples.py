"""The example models of the checkout's `examples/` folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from explorer.checkout import CHECKOUT


@dataclass(frozen=True)
class Example:
    """A model's text, by the name of its file and the folder it lies in (`kge`)."""

    name: str
    folder: str
    text: str


@cache
def examples() -> tuple[Example, ...]:
    """All examples, by folder and name. Read once: the files do not change while a server runs."""
    paths = sorted((CHECKOUT / "examples").glob("*/*.emb"))
    return tuple(Example(path.stem, path.parent.name, path.read_text(encoding="utf-8")) for path in paths)
