"""A stage's passes in a list: each with its effect in a line, the rest behind it; and what a pass is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from explorer.compiler.pipeline import STAGES
from explorer.compiler.to_json import with_origins
from explorer.web.panes.refusals import refused_of

MOST_FIGURES = 3
"""Figures of a pass's line; its disclosure has the others."""
UNITS = {"FLOP": "FLOP", "bytes in memory": "B in memory"}
"""Figures that are said with a prefix of their unit: `5.45 MFLOP`."""
PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
SENTENCES = 200
"""Of one pass that are shown at most."""


class Point(BaseModel):
    """A point of the pipeline: a stage after one of its passes, -1 for what the first was given, None for its end."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    stage: str = Field(max_length=40)
    at: int | None = Field(default=None, ge=-1, le=1_000)


@dataclass(frozen=True)
class Figure:
    """A figure after a pass, in words, and by how much of itself it changed: `5.33 GFLOP`, `−49 %`. `full` says both
    numbers."""

    text: str
    change: str
    is_less: bool
    full: str


@dataclass(frozen=True)
class KernelRow:
    """A kernel that a pass changed: of each of the columns its number before and after, and by how much it changed."""

    name: str
    cells: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True)
class KernelTable:
    """The kernels that a pass changed, with what is counted of any of them."""

    columns: tuple[str, ...]
    rows: tuple[KernelRow, ...]


@dataclass(frozen=True)
class PassRow:
    """One row of a pass list; `refused_of` are the operations that its refusals name, each with its label, and `more`
    the sentences beyond those that are shown. A refusal has the number of the operation that it is of, if it names
    one."""

    name: str
    state: str  # "changed", "refused" or "unchanged"
    ms: float
    effect: tuple[Figure, ...]
    said: tuple[str, ...]
    more: int
    refusals: tuple[tuple[str, int | None], ...]
    refused_of: tuple[tuple[int, str], ...] = ()
    kernels: KernelTable | None = None

    @property
    def in_short(self) -> tuple[Figure, ...]:
        """The figures that fit in a line."""
        return self.effect[:MOST_FIGURES]


def pass_row(report: Mapping[str, Any], names: Mapping[str, int], labels: Mapping[int, str]) -> PassRow:
    """A pass's row, from its report, which has figures where a list of passes is open."""
    state = "changed" if report["changed"] else "refused" if report["refusals"] else "unchanged"
    refused = tuple((number, labels[number]) for number in refused_of(report["refusals"], names))
    said = report["said"] or ([report["summary"]] if report["summary"] else [])
    shown = tuple(said[:SENTENCES])
    effect = tuple(_figure(entry) for entry in report.get("effect", ()))
    return PassRow(
        *(report["name"], state, report["ms"], effect, shown, len(said) - len(shown)),
        tuple((text, next(iter(refused_of([text], names)), None)) for text in report["refusals"]),
        *(refused, _kernel_table(report.get("by_kernel", ()))),
    )


def _kernel_table(kernels: Sequence[Mapping[str, Any]]) -> KernelTable | None:
    columns = tuple(dict.fromkeys(figure["what"] for kernel in kernels for figure in kernel["figures"]))
    rows = []
    for kernel in kernels:
        found = {figure["what"]: figure for figure in kernel["figures"]}
        rows.append(KernelRow(kernel["kernel"], tuple(_cell(found.get(what)) for what in columns)))
    return KernelTable(columns, tuple(rows)) if rows else None


def _cell(figure: Mapping[str, Any] | None) -> tuple[str, str, bool]:
    """`64 → 16`, `−75 %` and whether it is less; one number of what stayed, was not there before, or is gone."""
    if figure is None:
        return "", "", False
    before, after = figure["before"], figure["after"]
    if after is None:
        return f"{before:,}", "gone", True
    if before is None:
        return f"{after:,}", "new", False
    if before == after:
        return f"{after:,}", "", False
    return f"{before:,} → {after:,}", _change(before, after), after < before


def _figure(entry: Mapping[str, Any]) -> Figure:
    what, before, after = entry["what"], entry["before"], entry["after"]
    text = f"{_short(after)}{UNITS[what]}" if what in UNITS else f"{after:,} {_counted(what, after)}"
    if before is None:
        return Figure(text, "", False, f"{after:,} {_counted(what, after)}")
    return Figure(text, _change(before, after), after < before, f"{before:,} → {after:,} {_counted(what, after)}")


def _counted(what: str, number: int) -> str:
    """`1 kernel`, of what counts `kernels`; `1 token a row`."""
    noun, space, rest = what.partition(" ")
    singular = noun.removesuffix("s") if number == 1 and what not in UNITS else noun
    return f"{singular}{space}{rest}"


def _change(before: int, after: int) -> str:
    """In percent; what would round to none, or to more than tenfold, otherwise."""
    if not before or after > 10 * before:
        return "new" if not before else f"×{after / before:.0f}"
    percent = round(100 * (after - before) / before)
    return f"{percent:+} %".replace("-", "−") if percent else ("under −1 %" if after < before else "under +1 %")


def _short(number: int) -> str:
    """Three digits, with the prefix of the unit that follows."""
    for limit, letter in PREFIXES:
        if number >= limit:
            return f"{number / limit:.3g} {letter}"
    return f"{number} "


@dataclass(frozen=True)
class Points:
    """The points that a stage's passes can be compared with, of one stage: each `at`, and what it is called."""

    stage: str
    points: tuple[tuple[str, str], ...]


def points_beside(stage: str) -> tuple[Points, ...]:
    """The points of all stages in the IR of one: `slc` and its levels are of one, as their names say."""
    own = stage.partition(".")[0]
    alike = [spec for spec in STAGES if spec.name.partition(".")[0] == own]
    return tuple(
        Points(
            spec.name,
            (
                *(() if spec.name != alike[0].name else (("-1", f"what {spec.passes[0].__name__} was given"),)),
                *((str(number), f"after {step.__name__}") for number, step in enumerate(spec.passes)),
            ),
        )
        for spec in alike
    )


def lines_at(stages: Mapping[str, Mapping[str, Any]], point: Point) -> tuple[str, Sequence[Mapping[str, Any]]] | None:
    """What a point is called, and its lines; None where the compilation has no such point."""
    stage = stages.get(point.stage)
    if stage is None or not stage["available"] or not stage["passes"]:
        return None
    last = len(stage["passes"]) - 1
    at = last if point.at is None else min(point.at, last)
    if at < 0:
        report = stage["passes"][0]
        return f"before {report['name']}", with_origins(stage, report["before"])
    report = stage["passes"][at]
    lines = stage["lines"] if at == last else report["after"]
    return f"after {report['name']}, {point.stage}", with_origins(stage, lines)
