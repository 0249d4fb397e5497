"""What a run on a device spent: the time of each kernel is measured, and apportioned to operations by counted work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.compiler.ir.node import Made, Span
from explorer.runtime.shares.spent import Spent, Whose

APPORTIONED = (
    "Each {part} is timed, in a pass of its own after the repeats; inside of it, its time is apportioned to operations "
    "by their counted work: {work} counts as one."
)
UNCOUNTED = "work that cannot be counted"
BETWEEN = "between them"


@dataclass(frozen=True)
class Timed:
    """A kernel, or a nest, its time in milliseconds, and by whose it is its work; none where that cannot be counted."""

    name: str
    ms: float
    work: Mapping[Span | Made | None, float]


def of_times(kernels: Sequence[Timed], whole_ms: float, how: str, rest: Mapping[str, float]) -> Spent:
    """What one pass of so many milliseconds spent, of which `rest` is known to be of no kernel."""
    amounts: dict[Whose, float] = {}
    uncounted = 0.0
    for kernel in kernels:
        work = sum(kernel.work.values())
        if not work:
            uncounted += kernel.ms
        for whose, count in kernel.work.items():
            amounts[whose] = amounts.get(whose, 0.0) + (kernel.ms * count / work if work else 0.0)
    between = whole_ms - sum(kernel.ms for kernel in kernels) - sum(rest.values())
    others = {UNCOUNTED: uncounted, **rest, BETWEEN: between}
    return Spent(
        "ms",
        "measured",
        how,
        whole_ms,
        ("time",),
        tuple((kernel.name, kernel.ms) for kernel in kernels),
        {whose: (ms,) for whose, ms in amounts.items()},
        {what: (ms,) for what, ms in others.items()},
    )
