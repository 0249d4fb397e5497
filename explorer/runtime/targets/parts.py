"""A program's kernels in two parts: those of the results, and those that wait for their gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Step(Protocol):
    """One kernel's run: the names of the arrays and extents that it is given, and of the arrays that it writes."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All that it is given."""

    @property
    def writes(self) -> frozenset[str]:
        """Those among them that it writes."""


AnyStep = TypeVar("AnyStep", bound=Step)


@dataclass(frozen=True)
class Parts(Generic[AnyStep]):
    """A program's steps in two parts: what makes the results, and what only the gradients need; and the arrays that
    the second reads of the first."""

    forward: tuple[AnyStep, ...]
    backward: tuple[AnyStep, ...]
    crossing: frozenset[str]


def divide(steps: Sequence[AnyStep], results: Collection[str], upstreams: Collection[str]) -> Parts[AnyStep] | None:
    """The steps, which may each be done without the gradients `upstreams` of the results or not; None where a result
    comes of some that need one, or where the second part would change what the first left."""
    later: set[int] = set()
    behind, touched = set(upstreams), set[str]()
    for place_of, step in enumerate(steps):
        if behind.intersection(step.arguments) or step.writes & touched:
            later.add(place_of)
            behind |= step.writes
            touched.update(step.arguments)
    needed, first = set(results), set[int]()
    for place_of in reversed(range(len(steps))):
        step = steps[place_of]
        if place_of not in later and step.writes & needed:
            first.add(place_of)
            needed.update(step.arguments)
    forward = tuple(step for at, step in enumerate(steps) if at in first)
    backward = tuple(step for at, step in enumerate(steps) if at not in first)
    made = frozenset(name for step in forward for name in step.writes)
    if not made.issuperset(results) or any(step.writes & made for step in backward):
        return None
    return Parts(forward, backward, made & {name for step in backward for name in step.arguments})
