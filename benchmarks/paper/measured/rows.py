"""The rows of a table that is measured: none is begun late, and one that fails says so and loses no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from benchmarks.paper.figure import Row, Table
from benchmarks.timing.device import first_line

SECONDS = 120.0
"""No row is begun that much after a table's first: a table without it is better than none. `allow` says otherwise."""


def allow(seconds: float) -> None:
    """Let tables begin rows for longer, or less long, than is usual."""
    global SECONDS
    SECONDS = seconds


class MeasuredRows:
    """Rows as they come, in order; `right` where none is wrong and none has failed."""

    def __init__(self) -> None:
        self.rows = list[Row]()
        self.right = True
        self._began = monotonic()
        self._late, self._failed = list[str](), dict[str, str]()

    @property
    def spent(self) -> float:
        """Seconds since the first was begun."""
        return monotonic() - self._began

    def add(self, label: str, make: Callable[[], tuple[Sequence[Row], bool]]) -> None:
        """Adds the rows that are made, with whether what they rest on is right."""
        if self.spent > SECONDS:
            self._late.append(label)
            return
        try:
            rows, right = make()
        except Exception as error:  # the others are worth having without it
            self._failed[label] = first_line(error)
            self.right = False
            return
        self.rows += rows
        self.right = self.right and right

    def table(self, columns: Sequence[str], note: str, unit: str = "", form: str = ",.2f") -> Table:
        """The table of what there is, whose note ends with what is missing."""
        whole = " ".join([note, *missing(self._late, self._failed)])
        return Table("measured", tuple(columns), self.rows, whole, unit, form, right=self.right)


def missing(late: Sequence[str], failed: Mapping[str, str]) -> list[str]:
    """What a table is without, in sentences: what came too late, and what failed, and why."""
    told = [f"Left out, after {SECONDS:.0f} s: {'; '.join(late)}."] if late else []
    return told + ([f"Failed: {reasons(failed)}."] if failed else [])


def reasons(errors: Mapping[str, str]) -> str:
    """What went wrong with what, in a line; "" where nothing did."""
    return "; ".join(f"{name}: {error}" for name, error in errors.items())
