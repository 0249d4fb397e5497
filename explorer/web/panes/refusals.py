"""Which operations a pass's refusals are of: the way from a refusal to the story of its operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from explorer.compiler.ir.node import Line
from explorer.compiler.story.clauses import NAME, defined


def operations_by_name(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """By what a stage's lines define the operation whose own line does."""
    found: dict[str, int] = {}
    for line in lines:
        if line["operations"] and not line["made"]:
            for name in defined([Line(line["text"])]):
                found.setdefault(name, line["operations"][0])
    return found


def refused_of(refusals: Iterable[str], operations: Mapping[str, int]) -> Sequence[int]:
    """The operation that each refusal names first, each once; none of a refusal that names none."""
    firsts = (
        next((operations[name] for word in NAME.findall(text) if (name := _plain(word)) in operations), None)
        for text in refusals
    )
    return tuple(dict.fromkeys(number for number in firsts if number is not None))


def _plain(name: str) -> str:
    return name if name[1:].isdigit() else name.removeprefix("%")
