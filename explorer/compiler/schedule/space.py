"""The space of a program's schedules: what may be chosen for each of its nests, counted and listed.

A nest is scheduled again and again by itself, each time with some choices fixed, and asked what else there is to
choose: a choice is valid where the strategy takes it as it is, and its kernels are shown to be right. Values that
change neither which other choices there are nor what these may be are counted alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from explorer.compiler.decisions import Choice, Replay, Schedule, Value
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module
from explorer.compiler.report import Report
from explorer.compiler.schedule.program import schedule
from explorer.compiler.unsupported import Unsupported

Fixed = tuple[tuple[str, Value], ...]
"""Choices that are fixed, by key."""


@dataclass(frozen=True)
class Dimension:
    """A decision of a kernel in the schedule that is usual: the value taken, and all that are valid in its place."""

    kernel: str
    name: str
    value: Value
    values: tuple[Value, ...]
    why: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return {**vars(self), "values": list(self.values)}


@dataclass(frozen=True)
class Space:
    """By nest its dimensions and how many points it has: schedules of its own, of all strategies."""

    nests: Mapping[str, tuple[Dimension, ...]]
    points: Mapping[str, int]

    @property
    def count(self) -> int:
        """Schedules of the whole program: nests are chosen for apart from one another."""
        product = 1
        for points in self.points.values():
            product *= points
        return product

    def to_json(self) -> dict[str, Any]:
        """Everything, and the schedule that is usual."""
        dimensions = [dimension for own in self.nests.values() for dimension in own]
        return {
            "points": self.count,
            "nests": [
                {"nest": nest, "points": self.points[nest], "decisions": [each.to_json() for each in own]}
                for nest, own in self.nests.items()
            ],
            "schedule": {f"{each.kernel}.{each.name}": each.value for each in dimensions},
        }


def space(program: loops.Kernel | Module, report: Report) -> Space:
    """The space of a program's schedules, where the report's policy chooses what is usual. Raises Unsupported."""
    nests = nests_of(program, report)
    dimensions = {name: tuple(nest.dimensions()) for name, nest in nests.items()}
    return Space(dimensions, {name: nest.count(()) for name, nest in nests.items()})


def nests_of(program: loops.Kernel | Module, report: Report) -> dict[str, Nest]:
    """By name a program's nests, each of which can be asked what else there is to choose. Raises Unsupported."""
    report.nests = {}
    schedule(program, report)
    return {name: Nest(name, again, report) for name, again in report.nests.items()}


@dataclasses.dataclass
class Nest:
    """One nest, which `again` schedules by itself and for the report that it is given."""

    name: str
    again: Callable[[Report], object]
    report: Report
    counted: dict[object, int] = field(default_factory=dict)
    known: dict[frozenset[tuple[str, Value]], tuple[Choice, ...] | None] = field(default_factory=dict)

    def traced(self, fixed: Fixed) -> tuple[Choice, ...] | None:
        """The choices that a schedule takes where some are fixed; None where those are not valid together."""
        key = frozenset(fixed)
        if key not in self.known:
            self.known[key] = self._traced(fixed)
        return self.known[key]

    def _traced(self, fixed: Fixed) -> tuple[Choice, ...] | None:
        policy = Replay(Schedule(fixed), self.report.policy) if self.report.policy else None
        report = self.report.like(policy)
        try:
            self.again(report)
        except Unsupported:
            return None
        values = {choice.key: choice.value for choice in report.choices}
        return tuple(report.choices) if all(values.get(key) == value for key, value in fixed) else None

    def valid(self, choice: Choice, fixed: Fixed) -> Iterator[tuple[Value, tuple[Choice, ...]]]:
        """The values of a choice that are valid with those that are fixed, each with what is then taken."""
        values = choice.fitting() if choice.value in choice.fitting() else (choice.value, *choice.fitting())
        for value in values:
            if (found := self.traced((*fixed, (choice.key, value)))) is not None:
                yield value, found

    def dimensions(self) -> Iterator[Dimension]:
        """The usual schedule's decisions."""
        for choice in self.traced(()) or ():
            decision = choice.decision
            values = tuple(value for value, _ in self.valid(choice, ()))
            yield Dimension(choice.kernel, decision.name, choice.value, values, decision.why, decision.source)

    def count(self, fixed: Fixed) -> int:
        """How many points there are where some choices are fixed."""
        known = dict(fixed)
        left = [choice for choice in self.traced(fixed) or () if choice.key not in known]
        if not left:
            return 1
        first = left[0]
        points = 0
        for value, found in self.valid(first, fixed):
            others = tuple((c.key, c.fitting()) for c in found if c.key not in known and c.key != first.key)
            if others not in self.counted:
                self.counted[others] = self.count((*fixed, (first.key, value)))
            points += self.counted[others]
        return points
