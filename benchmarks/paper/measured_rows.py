"""The rows of a table that is measured: none is begun late, and one that fails says so and loses no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from benchmarks._gpu_timing import first_line
from benchmarks.paper import on_gpu
from benchmarks.paper.figure import Row


class MeasuredRows:
    """Rows as they come, in order; `right` where none is wrong and none has failed."""

    def __init__(self) -> None:
        self.rows = list[Row]()
        self.right = True
        self._began = monotonic()
        self._left_out, self._failed = list[str](), list[str]()

    def add(self, label: str, make: Callable[[], tuple[Sequence[Row], bool]]) -> None:
        """Adds the rows that are made, with whether what they rest on is right."""
        if monotonic() - self._began > on_gpu.SECONDS:
            self._left_out.append(label)
            return
        try:
            rows, right = make()
        except Exception as error:  # the others are worth having without it
            self._failed.append(f"{label}: {first_line(error)}")
            self.right = False
            return
        self.rows += rows
        self.right = self.right and right

    @property
    def note(self) -> str:
        """What is missing of the table, and why; "" where nothing is."""
        said = f" Left out, after {on_gpu.SECONDS:.0f} s: {', '.join(self._left_out)}." if self._left_out else ""
        return said + (f" Failed: {'; '.join(self._failed)}." if self._failed else "")
