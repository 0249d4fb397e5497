"""Decisions of a schedule: what may be chosen for a kernel, who chooses it, and the record of what was chosen.

Strategies ask for each number that is a matter of taste, `report.choose(kernel, CHUNK, 256)`, with the value that the
heuristic would take. A policy may want another one. What a target has (`target`) and what an algorithm needs are facts,
and no decisions; nor is a threshold one that a heuristic compares with: what it then takes is.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Protocol

from explorer.compiler.frozen import dataclass
from explorer.compiler.options import DECIDED, Options

Value = int | str | bool
Domain = Callable[[], tuple[Value, ...]]
"""What a nest leaves of a decision's domain, found when somebody asks for it."""


MOST_CHOICES = 10_000
"""Of a schedule: more than any text has that is compiled in a minute."""
LARGEST_VALUE = 2**31 - 1
MOST_PRINTED = 120
"""Characters of a line of a schedule, if one value fits."""


class ScheduleTextError(ValueError):
    """A text that is no schedule; the message is for the user."""


@dataclass(frozen=True)
class Decision:
    """What may be chosen for a kernel: one of a `domain`. `why` says what it trades, `source` where its range or its
    usual value is from."""

    name: str
    domain: tuple[Value, ...]
    why: str
    source: str

    def nearest(self, value: Value) -> Value | None:
        """The value itself, if it is in the domain, or the largest number below it; None where there is none."""
        same = [each for each in self.domain if each == value and type(each) is type(value)]
        below = [each for each in self.domain if type(each) is int and type(value) is int and each < value]
        return same[0] if same else max(below, default=None)


@dataclasses.dataclass
class Choice:
    """That a value was taken for a decision of a kernel, of those `fitting`; `wanted` is what a policy asked for, and
    `refused` why something else was taken."""

    kernel: str
    decision: Decision
    value: Value
    fitting: Domain
    wanted: Value | None = None
    refused: str = ""

    @property
    def key(self) -> str:
        """`SpMM_0.chunk`."""
        return f"{self.kernel}.{self.decision.name}"


Chosen = tuple[tuple[str, tuple[tuple[str, Value], ...]], ...]
"""By kernel, its decisions' names and values, as a kernel of the IR carries them."""


def grouped(choices: Iterable[tuple[str, Value]]) -> Chosen:
    """Keys and values by kernel, in the order in which kernels come first."""
    found: dict[str, list[tuple[str, Value]]] = {}
    for key, value in choices:
        kernel, _, name = key.rpartition(".")
        found.setdefault(kernel, []).append((name, value))
    return tuple((kernel, tuple(own)) for kernel, own in found.items())


def print_chosen(kernel: str, own: Iterable[tuple[str, Value]]) -> str:
    """`SpMM_0: strategy = nonzeros, chunk = 256`."""
    return f"{kernel}: " + ", ".join(f"{name} = {printed_value(value)}" for name, value in own)


def print_chosen_lines(kernel: str, own: Iterable[tuple[str, Value]]) -> list[str]:
    """The same on as many lines as keep each within MOST_PRINTED characters, where one value does."""
    lines: list[list[tuple[str, Value]]] = []
    for choice in own:
        if lines and len(print_chosen(kernel, [*lines[-1], choice])) <= MOST_PRINTED:
            lines[-1].append(choice)
        else:
            lines.append([choice])
    return [print_chosen(kernel, line) for line in lines]


def printed_value(value: Value) -> str:
    """A value as a schedule has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_value(text: str) -> Value:
    """A value as it was printed."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else text


@dataclass(frozen=True)
class Schedule(Mapping[str, Value]):
    """What was chosen, or is to be, by kernel and decision: `"SpMM_0.strategy": "nonzeros", "SpMM_0.chunk": 256`."""

    choices: tuple[tuple[str, Value], ...] = ()
    _found: dict[str, Value] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._found.update(self.choices)

    @classmethod
    def of(cls, choices: Mapping[str, Value]) -> Schedule:
        """Of a mapping such as another one, or what JSON has, also that of a space. Raises ScheduleTextError."""
        if len(choices) > MOST_CHOICES:
            raise ScheduleTextError(f"a schedule has at most {MOST_CHOICES:,} values, and this has {len(choices):,}")
        for key, value in choices.items():
            if not all(key.rpartition(".")[::2]) or not isinstance(value, Value):
                raise ScheduleTextError(f"a schedule has values by KERNEL.DECISION, not {key!r:.80}: {value!r:.80}")
            if type(value) is int and abs(value) > LARGEST_VALUE:
                raise ScheduleTextError(f"{key:.80} is at most {LARGEST_VALUE:,}, and no number beyond that is chosen")
        return cls(tuple(choices.items()))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule of a text: JSON, or lines as they are printed (`SpMM_0: strategy = nonzeros, chunk = 256`), also
        out of a `kernels` stage (`chosen SpMM_0: ...`). Raises ScheduleTextError."""
        if text.lstrip().startswith("{"):
            try:
                found = json.loads(text)
            except ValueError as error:
                raise ScheduleTextError(f"a schedule that is JSON cannot be read: {error}") from None
            found = found.get("schedule", found)
            if not isinstance(found, dict):
                raise ScheduleTextError(f"a schedule has values by KERNEL.DECISION, and this is {found!r:.80}")
            return cls.of(found)
        lines = [line.strip() for line in text.splitlines()]
        printed = [line.removeprefix("chosen ") for line in lines if line.startswith("chosen ")]
        return cls.of(dict(_read_lines(printed or [line for line in lines if line and not line.startswith("#")])))

    def __getitem__(self, key: str) -> Value:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __hash__(self) -> int:
        return hash(self.choices)

    def __str__(self) -> str:
        return "".join(f"{print_chosen(kernel, own)}\n" for kernel, own in grouped(self.choices))

    def to_json(self) -> dict[str, Value]:
        """By kernel and decision."""
        return dict(self.choices)


def _read_lines(lines: Iterable[str]) -> Iterator[tuple[str, Value]]:
    for line in lines:
        kernel, _, rest = line.partition(": ")
        for part in rest.split(", "):
            name, equals, value = part.partition(" = ")
            if not (kernel and equals and name and value):
                raise ScheduleTextError(f"a line of a schedule is 'KERNEL: DECISION = VALUE, ...', not '{line[:80]}'")
            yield f"{kernel}.{name}", read_value(value)


class Policy(Protocol):
    """Who chooses."""

    def wanted(self, key: str, decision: Decision, fitting: Domain) -> Value | None:
        """What to take for a kernel's decision; None leaves it to the heuristic."""
        ...


@dataclass(frozen=True)
class Pinned:
    """The options' values for all kernels, where a user chose them; the rest is left to the heuristics."""

    options: Options

    def wanted(self, key: str, decision: Decision, fitting: Domain) -> Value | None:
        """The value of the option of the decision's name, if it is not as usual."""
        if decision.name not in DECIDED:
            return None
        value: Value = getattr(self.options, decision.name)
        return value if value != DECIDED[decision.name] else None


@dataclass(frozen=True)
class Replay:
    """A schedule's values, and what it does not have from another policy."""

    schedule: Schedule
    otherwise: Policy

    def wanted(self, key: str, decision: Decision, fitting: Domain) -> Value | None:
        """What the schedule says."""
        if key in self.schedule:
            return self.schedule[key]
        return self.otherwise.wanted(key, decision, fitting)


class Random(Protocol):
    """What `random.Random` has."""

    def choice(self, seq: tuple[Value, ...], /) -> Value: ...


@dataclass(frozen=True)
class Sample:
    """Any value of each domain, each as likely."""

    random: Random

    def wanted(self, key: str, decision: Decision, fitting: Domain) -> Value | None:
        """One of the domain."""
        return self.random.choice(fitting())
