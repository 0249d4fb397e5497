"""What a pass says of itself while it works."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.counts import ASSUMED, Counts
from explorer.compiler.options import Options
from explorer.compiler.target import TARGETS, GpuTarget

Mark = tuple[tuple[str, ...], frozenset[str]]


@dataclass
class Report:
    """Handed to every pass: the options and sizes that it heeds, and where it says what it did or refused. `heeded` are
    options that something asked for the value of, and did, or refused, what they say."""

    options: Options
    counts: Counts = ASSUMED
    done: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    heeded: set[str] = field(default_factory=set)

    @property
    def target(self) -> GpuTarget:
        """The GPU that kernels are scheduled for."""
        return TARGETS[self.options.arch]

    @classmethod
    def silent(cls) -> Report:
        """A report that nobody reads."""
        return cls(Options())

    def did(self, sentence: str) -> None:
        """Notes a change, for the pass list."""
        self.done.append(sentence)

    def refused(self, sentence: str) -> None:
        """Notes a change that was not made, with the reason."""
        self.refusals.append(sentence)

    def heeds(self, *options: str) -> None:
        """Notes that options were looked at, whatever came of it."""
        self.heeded.update(options)

    def mark(self) -> Mark:
        """What has been done and heeded so far."""
        return tuple(self.done), frozenset(self.heeded)

    def back_to(self, mark: Mark) -> None:
        """Forgets what has been done and heeded since, for it has been given up; what was refused stays refused."""
        self.done[:], self.heeded = mark[0], set(mark[1])
