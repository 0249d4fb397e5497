"""What a pass says of itself while it works, and whom it asks what to choose."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from explorer.compiler.counts import ASSUMED, Counts
from explorer.compiler.decisions import Choice, Decision, Domain, Pinned, Policy, Value, printed_value
from explorer.compiler.frozen import dataclass
from explorer.compiler.kept import Kept
from explorer.compiler.options import OF_SUMS, Options
from explorer.compiler.target import TARGETS, GpuTarget

Mark = tuple[int, int, int, int]
Place = tuple[int, int, int, int, int]
"""Where a report stands: what has been done, refused, chosen, told and asked of options so far."""
SPLIT = ("row_pieces", "nonzeros", "rows")
"""The strategies that share a sum over segments out, which is what the option `split` speaks of."""


@dataclass(frozen=True)
class Said:
    """What a report was told and asked from one place on, to be said again of the same nest."""

    done: tuple[str, ...]
    refusals: tuple[str, ...]
    choices: tuple[Choice, ...]
    told: int
    options: tuple[str, ...]

    @property
    def kernels(self) -> frozenset[str]:
        """The kernels that something was chosen for, as they are called without a number behind."""
        return frozenset(choice.kernel.partition("#")[0] for choice in self.choices)


@dataclass(frozen=True)
class ScheduledNest:
    """What has become of a nest: its kernels by name, and what was chosen for them."""

    name: str
    kernels: tuple[str, ...]
    choices: tuple[Choice, ...]


@dataclasses.dataclass
class Report:
    """Handed to every pass: the options and sizes that it heeds, the policy that chooses, and where it says what it did
    or refused. `choices` are those that were asked for, in order, of which the first `told` are in a kernel already.
    Where `nests` is no None, it gets what schedules each of a program's nests again, by itself. `kept` are nests that
    were scheduled for the same text before, `scheduled` what became of each nest now. Machine code is to be made in its
    `first` form, or the best (`codegen.binary.nvrtc`)."""

    options: Options
    counts: Counts = ASSUMED
    policy: Policy | None = None
    done: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    told: int = 0
    nests: dict[str, Callable[[Report], object]] | None = None
    kept: Kept[Any] | None = None
    scheduled: list[ScheduledNest] = field(default_factory=list)
    first: bool = False
    _options: list[str] = field(default_factory=list)
    _known: dict[str, Choice] = field(default_factory=dict)
    _kernels: dict[str, str] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.policy = self.policy or Pinned(self.options)

    @property
    def target(self) -> GpuTarget:
        """The GPU that kernels are scheduled for."""
        return TARGETS[self.options.arch]

    @classmethod
    def silent(cls) -> Report:
        """A report that nobody reads."""
        return cls(Options())

    def like(self, policy: Policy | None) -> Report:
        """A new report of the same, with another policy, for what is done again of what is named in this one."""
        return Report(self.options, self.counts, policy, kept=self.kept, first=self.first)

    def did(self, sentence: str) -> None:
        """Notes a change, for the pass list."""
        self.done.append(sentence)

    def refused(self, sentence: str) -> None:
        """Notes a change that was not made, with the reason."""
        self.refusals.append(sentence)

    def enter(self, kernel: str) -> None:
        """What is asked of a kernel of this name from here on is of another one than what was asked before: what is
        left of a nest has the nest's name."""
        named, times = kernel, 2
        while self._asked.get(named):
            named, times = f"{kernel}#{times}", times + 1
        self._kernels[kernel] = named

    def choose(self, kernel: str, decision: Decision, usual: Value, fitting: Domain | None = None) -> Value:
        """What to take for a kernel's decision: what the policy wants, or the `usual` value. `fitting` gives what the
        nest leaves of the decision's domain; whoever asks takes the nearest of these for another (`settle`)."""
        named = self._kernels.get(kernel, kernel)
        key = f"{named}.{decision.name}"
        if key in self._known:
            return self._known[key].value
        assert self.policy is not None
        fitting = fitting or (lambda: decision.domain)
        wanted = self.policy.wanted(key, decision, fitting)
        near, why = None if wanted is None else decision.nearest(wanted), ""
        if wanted is not None and near != wanted:
            others = ", ".join(map(printed_value, decision.domain))
            taken, why = "nothing" if near is None else printed_value(near), f"it takes {others}"
            self.refused(f"{named}: {decision.name}={printed_value(wanted)}: {taken}, for {why}")
        self._known[key] = choice = Choice(named, decision, usual if near is None else near, fitting, near, why)
        self.choices.append(choice)
        self._asked[named] += 1
        return choice.value

    def option(self, name: str) -> Value:
        """The value of an option that is no decision of a kernel, or another way to say what decisions say, such as how
        many vectors lanes have."""
        self._options.append(name)
        value: Value = getattr(self.options, name)
        return value

    @property
    def heeded(self) -> frozenset[str]:
        """The options of sums that were asked for: as decisions, or what stands for some, `split` among them."""
        names = {choice.decision.name for choice in self.choices}
        split = any(choice.decision.name == "strategy" and choice.value in SPLIT for choice in self.choices)
        return frozenset({*names, *self._options, *(["split"] if split else [])} & {*OF_SUMS})

    def number(self, kernel: str, decision: Decision, usual: int, fitting: Domain | None = None) -> int:
        """The same of a number."""
        value = self.choose(kernel, decision, usual, fitting)
        assert isinstance(value, int)
        return value

    def wanted(self, kernel: str, decision: Decision) -> Value | None:
        """What the policy wants of a decision that has been asked for; None where it is left to the heuristics."""
        choice = self._known.get(f"{self._kernels.get(kernel, kernel)}.{decision.name}")
        return choice.wanted if choice else None

    def wants(self, kernel: str, decision: Decision) -> bool:
        """Whether the policy wants anything but nothing of a decision, asked for or not."""
        assert self.policy is not None
        key = f"{self._kernels.get(kernel, kernel)}.{decision.name}"
        return bool(self.policy.wanted(key, decision, lambda: decision.domain))

    def settle(self, kernel: str, decision: Decision, value: Value, reason: str = "") -> None:
        """That another value was taken than was chosen; and why, which is said if somebody wanted that."""
        choice = self._known[f"{self._kernels.get(kernel, kernel)}.{decision.name}"]
        if reason and choice.wanted is not None and value != choice.wanted:
            asked, taken = printed_value(choice.wanted), printed_value(value)
            self.refused(f"{choice.kernel}: {decision.name}={asked}: {taken}, for {reason}")
            choice.refused = reason
        choice.value = value

    @property
    def place(self) -> Place:
        """Where it stands."""
        return len(self.done), len(self.refusals), len(self.choices), self.told, len(self._options)

    def since(self, place: Place) -> Said:
        """What has been said since it stood there."""
        done, refusals, chosen, told, options = place
        choices = tuple(self.choices[chosen:])
        return Said(
            tuple(self.done[done:]),
            tuple(self.refusals[refusals:]),
            choices,
            self.told - told,
            tuple(self._options[options:]),
        )

    def may_say(self, said: Said, kernel: str) -> bool:
        """Whether what was said of a kernel by itself would be said the same here: of nothing else, nor known yet."""
        alone = all(choice.kernel == kernel for choice in said.choices) and self._kernels.get(kernel, kernel) == kernel
        return alone and not any(choice.key in self._known for choice in said.choices)

    def say_again(self, said: Said) -> None:
        """Says it again, from where it stands now."""
        self.done += said.done
        self.refusals += said.refusals
        self.choices += said.choices
        self.told += said.told
        self._options += said.options
        self._known.update((choice.key, choice) for choice in said.choices)
        self._asked.update(choice.kernel for choice in said.choices)

    @property
    def asked(self) -> frozenset[str]:
        """The kernels that something was chosen for."""
        return frozenset(choice.kernel for choice in self.choices)

    def knows(self, kernels: Iterable[str]) -> bool:
        """Whether something was chosen for one of these before, so that a further one of its name gets a number."""
        return any(self._asked.get(kernel) for kernel in kernels)

    def mark(self) -> Mark:
        """How much has been done and chosen so far."""
        return len(self.done), len(self.choices), self.told, len(self._options)

    def back_to(self, mark: Mark) -> None:
        """Forgets what has been done and chosen since, for it has been given up; what was refused stays refused."""
        done, chosen, self.told, options = mark
        del self._options[options:]
        del self.done[done:]
        for choice in self.choices[chosen:]:
            del self._known[choice.key]
            self._asked[choice.kernel] -= 1
            whole, _, number = choice.kernel.partition("#")
            if number and not self._asked[choice.kernel]:  # nothing is left of the nest that had this name
                self._kernels[whole] = whole if number == "2" else f"{whole}#{int(number) - 1}"
        del self.choices[chosen:]
