"""Nests that were scheduled before, for the same text or an earlier one: none is scheduled again that would become the
same.

A nest's kernels depend on the nest, on the options and the counts, on what the policy wants of the decisions that were
asked for, and on what the nests before it have left: names that are taken, groupings that are made, parts that repeat.
All of that is written down when it is scheduled, and looked at before it is used again; so a program comes out as if it
were scheduled whole. Another text may have the same nest from other places: that is another one, for its kernels have
the places from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from explorer.compiler.decisions import Decision, Domain, Policy, Value
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.exactly import Exactly, exactly_equal
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.report import Report, Said
from explorer.compiler.schedule.distribute.duplicates import Repeated
from explorer.compiler.schedule.gemm.strategy import Groupings
from explorer.compiler.schedule.strategies import STRATEGY

Kernels = tuple[ScheduledKernel, ...]


@dataclass(frozen=True)
class Listening:
    """A policy, with what it was asked and what it wanted."""

    policy: Policy
    answers: dict[str, tuple[Decision, Domain, Value | None]]

    def wanted(self, key: str, decision: Decision, fitting: Domain) -> Value | None:
        """What the policy wants."""
        answer = self.policy.wanted(key, decision, fitting)
        self.answers[key] = (decision, fitting, answer)
        return answer


class Noted(dict[Any, Any]):
    """A mapping, with what it had `before`, and what of that has been looked at."""

    def __init__(self, before: Mapping[Any, Any], looked_at: dict[Any, Any] | None = None) -> None:
        super().__init__(before)
        self.before = dict(before)
        self.looked_at: dict[Any, Any] = {} if looked_at is None else looked_at

    def _look(self, key: Any) -> None:
        self.looked_at.setdefault(key, self.before.get(key))

    def __contains__(self, key: object) -> bool:
        self._look(key)
        return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        self._look(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """As that of a dict."""
        self._look(key)
        return super().get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As that of a dict."""
        self._look(key)
        return super().setdefault(key, default)

    def copy(self) -> Noted:
        """Another one, for which the same has been looked at."""
        again = Noted(self, self.looked_at)
        again.before = self.before
        return again


@dataclass(frozen=True)
class Left:
    """Of a mapping that nests share: what one looked at, and what it has left there."""

    looked_at: Mapping[Any, Any]
    added: Mapping[Any, Any]

    @classmethod
    def of(cls, noted: Mapping[Any, Any]) -> Left:
        """What has been noted."""
        assert isinstance(noted, Noted)
        return cls(noted.looked_at, {key: value for key, value in noted.items() if key not in noted.before})

    def fits(self, known: Mapping[Any, Any]) -> bool:
        """Whether what was looked at is the same now."""
        return all(exactly_equal(known.get(key), value) for key, value in self.looked_at.items())


@dataclass(frozen=True)
class ScheduledBefore:
    """A nest's kernels, with what they depend on and what scheduling them has left behind."""

    kernels: Kernels
    answers: Mapping[str, tuple[Decision, Domain, Value | None]]
    names: tuple[tuple[str, str], ...]
    said: Said
    groupings: Left
    repeated: Left
    renamed: Left

    def taken_again(self, report: Report, groupings: Groupings, repeated: Repeated) -> bool:
        """Whether the nest would become the same again; if so, everything else is as if it had."""
        policy = report.policy
        if policy is None or report.knows(self.said.kernels):
            return False
        if any(policy.wanted(key, decision, fitting) != was for key, (decision, fitting, was) in self.answers.items()):
            return False
        shared = ((self.groupings, groupings.made), (self.repeated, repeated.made), (self.renamed, repeated.names))
        if not all(left.fits(known) for left, known in shared) or not groupings.names.again(self.names):
            return False
        for left, known in shared:
            known.update(left.added)
        report.say_again(self.said)
        return True


def scheduled_once(
    of: Hashable, report: Report, groupings: Groupings, repeated: Repeated, make: Callable[[], Kernels]
) -> Kernels:
    """The kernels `of` a nest, and of what else they are made, which `make` makes where they have not been kept, or
    something has changed that they depend on."""
    kept, policy = report.kept, report.policy
    if kept is None or policy is None or report.told != len(report.choices):
        return make()
    counts = report.counts
    key = (
        Exactly(of),
        report.options,
        counts.name,
        tuple(counts.rows.items()),
        (*counts.ends, *counts.beside),
        counts.estimated,
        counts.batch,
    )
    before: ScheduledBefore | None = kept.get(key, lambda version: version.taken_again(report, groupings, repeated))
    if before is not None:
        return before.kernels
    kept.made += 1
    asked, place, named = report.asked, report.place, groupings.names.mark()
    groupings.made = Noted(groupings.made)
    repeated.made, repeated.names = Noted(repeated.made), Noted(repeated.names)
    report.policy = listening = Listening(policy, {})
    try:
        kernels = make()
    finally:
        report.policy = policy
    said = report.since(place)
    if not said.kernels & asked:  # else some are numbered, by what other nests have
        left = (Left.of(groupings.made), Left.of(repeated.made), Left.of(repeated.names))
        names = groupings.names.since(named)
        kept.put(key, ScheduledBefore(kernels, listening.answers, names, said, *left))
    return kernels


@dataclass(frozen=True)
class Trial:
    """What a strategy has made of a nest where it was tried, what it said, and what it was answered."""

    nest: loops.Kernel
    kernels: Kernels
    answers: Mapping[str, tuple[Decision, Domain, Value | None]]
    said: Said

    def taken(self, report: Report) -> bool:
        """Whether the strategy would make the same now; if so, it is said as if it had."""
        name, policy = self.nest.name, report.policy
        if policy is None or report.wanted(name, STRATEGY) is not None or not report.may_say(self.said, name):
            return False
        if any(policy.wanted(key, decision, fitting) != was for key, (decision, fitting, was) in self.answers.items()):
            return False
        report.say_again(self.said)
        return True


class Trials:
    """Nests that strategies were tried on, to see whether they fit: what they made there is not made again."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], Trial] = {}

    def make(
        self, strategy: str, nest: loops.Kernel, report: Report, make: Callable[[loops.Kernel, Report], Kernels]
    ) -> Kernels:
        """What a strategy makes of a nest, kept for when it is scheduled by that; `report` is of the trial alone."""
        policy, place = report.policy, report.place
        assert policy is not None
        report.policy = listening = Listening(policy, {})
        try:
            kernels = make(nest, report)
        finally:
            report.policy = policy
        if kernels:
            self._made[strategy, id(nest)] = Trial(nest, kernels, listening.answers, report.since(place))
        return kernels

    def take(self, strategy: str, nest: loops.Kernel, report: Report) -> Kernels | None:
        """What it made of that nest, for once; None where it was not tried, or would make something else now."""
        trial = self._made.pop((strategy, id(nest)), None)
        return trial.kernels if trial is not None and trial.taken(report) else None
