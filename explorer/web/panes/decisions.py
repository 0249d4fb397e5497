"""The table of decisions beside the kernels: by nest what was chosen, what may be, and what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.compiler.decisions import Value, printed_value
from explorer.web.panes.refusals import operations_of

MOST_LISTED = 16
"""Values that a row lists; of more, which are consecutive numbers, it says from where to where."""


@dataclass(frozen=True)
class Refusal:
    """What was asked for a decision, and why it was not taken."""

    wanted: Value
    reason: str


@dataclass(frozen=True)
class Row:
    """A decision of a kernel. `part` is the kernel where that is not the nest itself."""

    key: str
    part: str
    name: str
    value: Value
    usual: Value
    values: tuple[Value, ...]
    asked: bool
    why: str
    source: str
    refusal: Refusal | None
    operation: int | None
    """That its kernel is of."""

    @property
    def ranged(self) -> bool:
        """Whether its values are all numbers from one to another, too many to list."""
        numbers = [value for value in self.values if type(value) is int]
        if len(numbers) <= MOST_LISTED or len(numbers) < len(self.values):
            return False
        return sorted(numbers) == list(range(min(numbers), max(numbers) + 1))

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Each value as JSON has it, and as it is shown."""
        return tuple((json_value(value), shown(value)) for value in self.values)

    @property
    def about(self) -> str:
        """What it trades, and where its values are from."""
        return f"{self.why}\nUsual: {shown(self.usual)}. {self.source}"


@dataclass(frozen=True)
class Nest:
    """A nest with the kernels that were made of it and its rows."""

    name: str
    kernels: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def changed(self) -> bool:
        """Whether something was chosen by hand."""
        return any(row.asked for row in self.rows)


def shown(value: Value) -> str:
    """A value as a schedule prints it."""
    return printed_value(value)


def json_value(value: Value) -> str:
    """A value as JSON: what a control of the page has."""
    return f'"{value}"' if isinstance(value, str) else printed_value(value)


@dataclass(frozen=True)
class Cost:
    """What a kernel takes of a GPU and asks of its memory, in words; or that this is still to be found out, or why it
    cannot be."""

    resources: str = ""
    bytes: str = ""
    waits: bool = False
    reason: str = ""
    text: str = ""
    counted_on: str = ""


def _stage(compiled: Mapping[str, Any]) -> Mapping[str, Any]:
    """The stage that decisions are of; nothing where there is none."""
    return next((stage for stage in compiled["stages"] if "nests" in stage), {"nests": [], "unasked": {}})


def refusals(compiled: Mapping[str, Any]) -> dict[str, Refusal]:
    """By kernel and decision what was asked for and refused."""
    rows = [row for nest in _stage(compiled)["nests"] for row in nest["decisions"] if row["refused"]]
    return {f"{row['kernel']}.{row['name']}": Refusal(row["asked"], row["refused"]) for row in rows}


def unasked(compiled: Mapping[str, Any]) -> dict[str, str]:
    """What was chosen for kernels or decisions that there are not, as it is shown."""
    return {key: shown(value) for key, value in _stage(compiled)["unasked"].items()}


def table(compiled: Mapping[str, Any], refused: Mapping[str, Refusal]) -> tuple[Nest, ...]:
    """The nests with their rows."""
    stage = _stage(compiled)
    names = operations_of(stage) if refused and "lines" in stage else {}
    return tuple(
        Nest(
            nest["name"],
            tuple(nest["kernels"]),
            tuple(_row(nest["name"], row, refused, names) for row in nest["decisions"]),
        )
        for nest in stage["nests"]
    )


def _row(nest: str, row: Mapping[str, Any], refused: Mapping[str, Refusal], names: Mapping[str, int]) -> Row:
    key = f"{row['kernel']}.{row['name']}"
    part = row["kernel"].removeprefix(nest).lstrip("_") if row["kernel"] != nest else ""
    return Row(
        key=key,
        part=part,
        name=row["name"],
        value=row["value"],
        usual=row["usual"],
        values=tuple(row["values"]),
        asked=row["asked"] is not None,
        why=row["why"],
        source=row["source"],
        refusal=refused.get(key),
        operation=names.get(row["kernel"], names.get(nest)),
    )


def is_of(compiled: Mapping[str, Any], stage: str) -> bool:
    """Whether it is the stage that decisions are of."""
    return _stage(compiled).get("name") == stage


def changed_kernels(compiled: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The kernels of the nests that are not as they were."""
    known = {nest["name"]: nest["digest"] for nest in _stage(before)["nests"]}
    nests = [nest for nest in _stage(compiled)["nests"] if known.get(nest["name"]) != nest["digest"]]
    return [kernel for nest in nests for kernel in nest["kernels"]]


def known_costs(compiled: Mapping[str, Any], changed: Iterable[str]) -> dict[str, Cost]:
    """By kernel what is known without making its machine code by itself: where the best form of all has been made, and
    nothing was changed."""
    stages = [] if compiled.get("first") else compiled["stages"]
    taken = {each["kernel"]: each for stage in stages for each in stage["resources"]}
    kernels = [kernel for nest in _stage(compiled)["nests"] for kernel in nest["kernels"]]
    found = {kernel: resources_cost(taken.get(f"{kernel}_kernel")) for kernel in kernels}
    return found | {kernel: Cost(waits=True) for kernel in changed}


def resources_cost(now: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None) -> Cost:
    """A kernel's resources, beside those that it took before."""
    if now is None:
        return Cost()
    figures = [
        ("registers", "registers"),
        ("shared_bytes", "B shared"),
        ("occupancy_warps", f"of {now['most_warps']} warps"),
    ]
    words = [_both(now[name], before[name] if before else None, unit) for name, unit in figures]
    spilled, then = _spilled(now), _spilled(before) if before else None
    if spilled or then:
        words.append(_both(spilled, then, "B spilled"))
    return Cost(resources=" · ".join(words), text=now["text"])


def _spilled(resources: Mapping[str, Any]) -> int:
    return int(resources["spill_store_bytes"] + resources["spill_load_bytes"])


def _both(now: int, before: int | None, unit: str) -> str:
    changed = f"{before:,} → " if before is not None and before != now else ""
    return f"{changed}{now:,} {unit}"


def costs(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Cost]:
    """By kernel its costs, of the answers of two compilations, beside those of before where they are other ones."""
    found = {}
    for kernel, cost in now.items():
        then = before.get(kernel, {})
        of_gpu = resources_cost(cost.get("resources"), then.get("resources"))
        asked, asked_then = cost.get("bytes"), then.get("bytes")
        moved = "" if asked is None else f"{_both_bytes(asked, asked_then)} asked"
        found[kernel] = replace(of_gpu, bytes=moved, reason=cost.get("reason", ""), counted_on=cost["counted_on"])
    return found


def _both_bytes(now: int, before: int | None) -> str:
    changed = f"{_short(before)} → " if before is not None and before != now else ""
    return f"{changed}{_short(now)}"


def _short(count: int) -> str:
    """Bytes to three figures."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
