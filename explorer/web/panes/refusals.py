"""Which operations a pass's refusals are of: the way from a refusal to the story of its operation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from explorer.compiler.ir.node import Line
from explorer.compiler.story.clauses import NAME, defined
from explorer.compiler.to_json import with_origins
from explorer.web import settings

KERNEL = re.compile(r"(?:kernel|scheduled|slc|dlc) (\w+)")
"""The line that a kernel begins with, in any IR."""


def operations_of(stage: Mapping[str, Any]) -> dict[str, int]:
    """By what a stage's lines define the operation whose own line does; by a kernel's name, and by that of the nest
    that it was made of, the first operation that has a line of its own there."""
    found: dict[str, int] = {}
    kernel = ""
    for line in with_origins(stage, stage["lines"]):
        begins = KERNEL.match(line["text"])
        kernel = begins[1] if begins else kernel
        if line["operations"] and not line["made"]:
            for name in (*defined([Line(line["text"])]), *([kernel] if kernel else ())):
                found.setdefault(name, line["operations"][0])
    for nest in stage.get("nests", ()):
        of = next((found[name] for name in nest["kernels"] if name in found), None)
        if of is not None:
            found.setdefault(nest["name"], of)
            for row in nest["decisions"]:
                found.setdefault(row["kernel"], of)
    return found


def refused_of(refusals: Iterable[str], operations: Mapping[str, int]) -> Sequence[int]:
    """The operation that each refusal names first, each once; none of a refusal that names none."""
    firsts = (
        next((operations[name] for word in NAME.findall(text) if (name := _plain(word)) in operations), None)
        for text in refusals
    )
    return tuple(dict.fromkeys(number for number in firsts if number is not None))


def refused_by_option(compiled: Mapping[str, Any]) -> dict[str, int]:
    """By option that is on, the operation that its pass refused first, where a refusal names one."""
    options = settings.passes_on(compiled)
    found: dict[str, int] = {}
    for stage in compiled["stages"]:
        refusing = [row for row in stage["passes"] if row["name"] in options and row["refusals"] and not row["changed"]]
        names = operations_of(stage) if refusing else {}
        for report in refusing:
            for number in refused_of(report["refusals"], names)[:1]:
                found[options[report["name"]]] = number
    return found


def _plain(name: str) -> str:
    return name if name[1:].isdigit() else name.removeprefix("%")
