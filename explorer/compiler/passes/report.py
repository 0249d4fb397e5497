"""What a pass says of itself while it works."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.compiler.counts import ASSUMED, Counts
from explorer.compiler.options import Options


@dataclass
class Report:
    """Handed to every pass: the options and sizes that it heeds, and where it says what it did or refused."""

    options: Options
    counts: Counts = ASSUMED
    done: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

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
