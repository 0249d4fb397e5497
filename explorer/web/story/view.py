"""What the template shows of a story: a stage's lines coloured, a pass's savings in words, both compared sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from markupsafe import Markup

from explorer.compiler.pipeline import STAGES
from explorer.web.panes.amounts import cost, short
from explorer.web.panes.code import CodeLine, rows_of
from explorer.web.panes.highlight import highlight, highlight_words
from explorer.web.panes.views import build_rail

UNITS = {"rows": "rows", "FLOP": "FLOP", "bytes in memory": "B in memory"}
"""What stands behind a number of each figure."""


@dataclass(frozen=True)
class Saving:
    """A figure before and after a pass, and by how much of itself it changed."""

    text: str
    change: str
    is_less: bool


@dataclass(frozen=True)
class Hop:
    """A pass on the way to a stage's lines."""

    stage: str
    number: int
    name: str
    touched: bool
    said: tuple[str, ...]
    more: int
    refused: tuple[str, ...]
    saved: tuple[Saving, ...]
    meaning: str
    source: str


@dataclass(frozen=True)
class Part:
    """A class of machine instructions, and how much of all it is, in percent."""

    name: str
    count: int
    share: int


@dataclass(frozen=True)
class Side:
    """One side's lines of a stage; `total` counts those that are left out too. They are an operation's own, or where it
    has none, those that it contributes to."""

    rows: Markup
    total: int
    left_out: int
    is_own: bool
    hops: tuple[Hop, ...]
    reason: str
    kernels: tuple[str, ...]
    all_kernels: int
    mix: tuple[Part, ...]


@dataclass(frozen=True)
class Scene:
    """A stage of a story, of both sides where two are compared."""

    name: str
    title: str
    sides: tuple[Side, ...]
    alike: bool
    waits: bool = False


@dataclass(frozen=True)
class Told:
    """A story as the page shows it: the text, what all targets share, and what each goes on with."""

    id: int
    label: str
    op: str
    counted: str
    predicted: str
    device: str
    text: Markup
    trunk: tuple[Scene, ...]
    branches: tuple[tuple[str, tuple[Scene, ...]], ...]


def told(story: Mapping[str, Any], other: Mapping[str, Any] | None, with_machine_code: bool) -> Told:
    """A story, beside that of side A where there is one. What is made on demand waits, unless it was asked for."""
    stages = {stage["name"]: stage for stage in story["stages"]}
    others = {stage["name"]: stage for stage in (other or {}).get("stages", ())}
    rail = build_rail({"operations": [], "stages": []}, (), {})

    def scenes(names: Sequence[Any]) -> tuple[Scene, ...]:
        found = (_scene(each.name, each.title, stages, others, with_machine_code) for each in names)
        return tuple(scene for scene in found if scene is not None)

    branches = tuple(
        (target, made)
        for target, names in rail.branches.items()
        if (made := scenes(names)) or not names  # the CPU takes what all share: only what it cost there is to tell
    )
    coloured = zip(story["text"], _coloured(story["text"]), strict=True)
    lines = [CodeLine(line["number"], html) for line, html in coloured]
    return Told(
        story["id"],
        story["label"],
        story["op"],
        story["counted"],
        cost(story["predicted"]) if story["predicted"] else "",
        story["predicted"]["device"] if story["predicted"] else "",
        rows_of(lines, False),
        scenes(rail.trunk),
        branches,
    )


def _coloured(lines: Sequence[Mapping[str, Any]]) -> Sequence[Markup]:
    words = {place: line["words"] for place, line in enumerate(lines) if line["words"]}
    return highlight_words("model", "\n".join(line["text"] for line in lines), words)


def _scene(
    name: str,
    title: str,
    stages: Mapping[str, Mapping[str, Any]],
    others: Mapping[str, Mapping[str, Any]],
    with_machine_code: bool,
) -> Scene | None:
    stage, before = stages.get(name), others.get(name)
    if stage is None:
        late = next(spec for spec in STAGES if spec.name == name).on_demand
        return Scene(name, title, (), False, waits=True) if late and not with_machine_code else None
    both = (_side(before), _side(stage)) if before else (_side(stage),)
    alike = len(both) == 2 and both[0] == both[1]
    return Scene(name, title, both[1:] if alike else both, alike)


def _side(stage: Mapping[str, Any]) -> Side:
    lines, units = stage["lines"], any(line["unit"] for line in stage["lines"])
    text = dedent("\n".join(line["text"] for line in lines))
    coloured = highlight(stage["name"], text) if lines else ()
    rows = [CodeLine(line["number"], html, (), line["unit"]) for line, html in zip(lines, coloured, strict=True)]
    return Side(
        rows_of(rows, units),
        stage["total"],
        stage["total"] - len(lines),
        stage["is_own"],
        tuple(_hop(stage["name"], hop) for hop in stage["hops"]),
        stage["reason"],
        tuple(stage["kernels"]),
        stage["all_kernels"],
        _mix(stage["mix"]),
    )


def _mix(mix: Mapping[str, int]) -> tuple[Part, ...]:
    total = sum(mix.values())
    return tuple(Part(name, count, round(100 * count / total)) for name, count in mix.items())


def _hop(stage: str, hop: Mapping[str, Any]) -> Hop:
    return Hop(
        stage,
        hop["number"],
        hop["pass"],
        hop["touched"],
        tuple(hop["said"]),
        hop["more"],
        tuple(hop["refused"]),
        tuple(_saving(entry) for entry in hop["saved"]),
        hop["meaning"],
        hop["source"],
    )


def _saving(entry: Mapping[str, Any]) -> Saving:
    """`620 k rows → 161 k rows` and `−74 %`."""
    before, after, unit = entry["before"], entry["after"], UNITS[entry["what"]]
    percent = round(100 * (after - before) / before) if before else None
    change = "new" if percent is None else "none left" if not after else f"{percent:+} %".replace("-", "−")
    return Saving(f"{short(before)} → {short(after)}{unit}", change, after < before)
