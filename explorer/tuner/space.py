"""The points of a model's space, enumerated: assignments of the decisions of all kernels and of the model's options.

All decisions together have millions of points and more (`explorer space` counts them), so a space that is measured or
searched varies some of them, and leaves the others to the heuristics, given what is chosen. Nests are scheduled again
and again by themselves, as for the count (`compiler.schedule.space`): a point is valid where they take all its values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from explorer.compiler.compilation import Compilation
from explorer.compiler.decisions import Choice, Value
from explorer.compiler.schedule.space import Nest
from explorer.tuner.points import Gene, Points, Values

Allowed = Mapping[str, tuple[Value, ...]]
"""What is varied: by decision, of one kernel ("SpMM_0.chunk") or of all ("chunk"), the values to choose from beside the
usual one; none for all that are valid."""
Options = Mapping[str, tuple[Value, ...]]
"""What is varied of the model's own options, by name, with the values to choose from."""
Assignment = tuple[tuple[str, Value], ...]

MOST_POINTS = 200_000
"""Of a space that is enumerated: a few seconds."""
INFLUENTIAL = (
    *("strategy", "run", "lanes", "chunk", "columns", "across", "warps", "block_rows", "loads", "sharing", "depth"),
    *("along", "near", "in_flight", "stages", "preload", "block_columns", "tile", "kept", "edges", "rounds", "rows"),
    *("elements", "balance", "popular", "merge", "merge_warps", "unroll", "tile_rows", "tile_columns", "height"),
    *("cache", "states", "joined"),
)
"""Decisions in the order in which `widest` varies them: an assumption, until recorded spaces tell better."""


class TooManyPoints(ValueError):
    """A space of more points than it may have, or than there is time for; the message says so."""


def points_of(compilation: Compilation, allowed: Allowed, options: Options | None = None) -> Points:
    """The points of a model's space where some decisions and options vary. Raises ValueError where the model has no
    kernels for a GPU, and TooManyPoints."""
    return _points(_versions(compilation, options or {}), allowed, options or {}, MOST_POINTS)


def widest(
    compilation: Compilation,
    most: int,
    options: Options | None = None,
    held: Container[str] = (),
    over: Callable[[], bool] = lambda: False,
) -> Points:
    """The points of a space of at most so many, varied in as many of the INFLUENTIAL decisions as that leaves room for,
    the first first, and time: it ends early where it is `over`. Those that are `held` are left to the heuristics."""
    there = {key.rpartition(".")[2] for key in compilation.schedule}
    names = [name for name in INFLUENTIAL if name in there and name not in held]
    versions = _versions(compilation, options or {})
    allowed: dict[str, tuple[Value, ...]] = {}
    found = _points(versions, allowed, options or {}, most)
    for name in names:
        if over():
            break
        try:
            found = _points(versions, {**allowed, name: ()}, options or {}, most, over)
        except TooManyPoints:
            continue
        allowed[name] = ()
    return found


@dataclass(frozen=True)
class _Version:
    """The model with some options chosen, which may be those that it has, and its nests, which remember what they were
    scheduled as."""

    chosen: Mapping[str, Value]
    is_own: bool
    nests: tuple[Nest, ...]


def _versions(compilation: Compilation, options: Options) -> list[_Version]:
    """The model with every combination of options that compiles."""
    found = []
    for chosen in _combinations(options):
        is_own = all(getattr(compilation.options, name) == value for name, value in chosen.items())
        version = compilation if is_own else compilation.with_options(**chosen)
        if version.ok:
            found.append(_Version(chosen, is_own, tuple(version.choosable().values())))
    return found


def _points(
    versions: list[_Version],
    allowed: Allowed,
    options: Options,
    most: int,
    over: Callable[[], bool] = lambda: False,
) -> Points:
    """The points of all versions. Raises TooManyPoints where there are more than so many, or where it is over before
    all are found."""
    found, domains, usual = list[Values](), dict[str, dict[Value, None]](), dict[str, Value]()
    for version in versions:
        parts = [_Enumerated(nest, allowed, most, over) for nest in version.nests]
        found += [{**version.chosen, **own} for own in _products([part.points for part in parts], len(found), most)]
        if version.is_own:
            usual = {**version.chosen, **{key: value for part in parts for key, value in part.usual}}
        for key, values in [*options.items(), *(d for p in parts for d in p.domains())]:
            domains.setdefault(key, {}).update(dict.fromkeys(values))
    return Points.of([Gene(key, _in_order(values)) for key, values in domains.items()], found, usual)


def _combinations(options: Options) -> Iterator[dict[str, Value]]:
    for values in product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _products(parts: list[list[Assignment]], before: int, most: int) -> Iterator[dict[str, Value]]:
    """What can be chosen for all nests, of what can be for each."""
    count = before
    for part in parts:
        count = max(count, 1) * len(part)
    if count > most:
        raise TooManyPoints(f"this space has more than {most:,} points: let fewer decisions vary")
    for chosen in product(*parts):
        yield {key: value for own in chosen for key, value in own}


def _in_order(values: Iterable[Value]) -> tuple[Value, ...]:
    """Numbers from the least to the largest, false before true, words as they are."""
    taken = tuple(values)
    return taken if any(isinstance(value, str) for value in taken) else tuple(sorted(taken))


@dataclass
class _Enumerated:
    """What can be chosen for one nest where some decisions vary."""

    nest: Nest
    allowed: Allowed
    most: int
    over: Callable[[], bool]
    _tails: dict[object, list[Assignment]] = field(default_factory=dict)
    _domains: dict[str, dict[Value, None]] = field(default_factory=dict)

    @property
    def points(self) -> list[Assignment]:
        """All that is valid."""
        return self._from(())

    @property
    def usual(self) -> Assignment:
        """What the heuristics choose of it."""
        return tuple((choice.key, choice.value) for choice in self.nest.traced(()) or () if self._varies(choice))

    def domains(self) -> Iterator[tuple[str, Iterable[Value]]]:
        """By varied decision its whole domain, whose order is that of its values, once `points` are found."""
        yield from self._domains.items()

    def _varies(self, choice: Choice) -> bool:
        return choice.key in self.allowed or choice.decision.name in self.allowed

    def _may_be(self, choice: Choice, value: Value) -> bool:
        values = self.allowed.get(choice.key, self.allowed.get(choice.decision.name, ()))
        return not values or value in values or value == choice.value

    def _from(self, fixed: Assignment) -> list[Assignment]:
        """All that can be chosen behind what is fixed. As for the count, values that change neither which choices are
        left nor what these may be have the same behind them, which is found once."""
        known = dict(fixed)
        traced = self.nest.traced(fixed) or ()
        left = [choice for choice in traced if choice.key not in known and self._varies(choice)]
        if not left:
            return [()]
        if self.over():
            raise TooManyPoints(f"the points of {self.nest.name} take too long: let fewer decisions vary")
        first, found = left[0], list[Assignment]()
        domain = self._domains.setdefault(first.key, dict.fromkeys(first.decision.domain))
        for value, taken in self.nest.valid(first, fixed):
            if not self._may_be(first, value):
                continue
            domain[value] = None  # a heuristic may take what no one can ask for
            others = tuple(self._left(c) for c in taken if c.key not in known and c.key != first.key)
            if others not in self._tails:
                self._tails[others] = self._from((*fixed, (first.key, value)))
            found += [((first.key, value), *tail) for tail in self._tails[others]]
            if len(found) > self.most:
                raise TooManyPoints(f"{self.nest.name} has more than {self.most:,} points: let fewer decisions vary")
        return found

    def _left(self, choice: Choice) -> tuple[object, ...]:
        """What tells a choice that is left from another: also its usual value, which stays among those allowed."""
        fitting = choice.fitting()
        if not self._varies(choice):
            return choice.key, fitting
        return choice.key, tuple(value for value in fitting if self._may_be(choice, value)), choice.value
