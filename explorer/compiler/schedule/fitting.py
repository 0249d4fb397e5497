"""Values of options that do not fit a nest or a GPU, made to the nearest ones that do, which the stage says.

Options are chosen before it is known what a nest needs of shared memory, registers and threads. Repairing a value keeps
what was asked for as far as it goes, where refusing it would give up the schedule (G-Sparse §III-D: a gene that is not
valid becomes the nearest one that is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from explorer.compiler.decisions import Decision
from explorer.compiler.report import Report


def lowered(wanted: int, choices: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    """The largest of an option's choices that is at most the one that is wanted, and fits; 0, which leaves a number to
    the compiler, is no such choice."""
    below = (choice for choice in sorted(choices, reverse=True) if 0 < choice < wanted)
    return next((choice for choice in (wanted, *below) if fits(choice)), None)


def nearest(kernel: str, decision: Decision, usual: int, fitting: tuple[int, ...], report: Report, why: str) -> int:
    """What is chosen of the numbers that fit a kernel, or the largest of them below it, else the smallest, and `why`
    the one that is chosen does not."""
    value = report.number(kernel, decision, usual, lambda: fitting)
    if value not in fitting:
        value = max((each for each in fitting if each < value), default=min(fitting))
        report.settle(kernel, decision, value, why)
    return value


RESIDENT = Decision(
    name="resident",
    domain=tuple(range(33)),
    why="blocks that a multiprocessor is to have at a time, which leaves each thread so many registers; 0 leaves it to"
    " the assembler",
    source="as many as leave a thread its rows, or its sums and operands, in registers; measured on an H100",
)


def blocks_at_a_time(kernel: str, usual: int, threads: int, report: Report) -> int:
    """How many blocks of so many threads a multiprocessor is to have at a time, as far as it can."""
    most = min(report.target.threads // threads, report.target.blocks)
    resident = report.number(kernel, RESIDENT, usual, lambda: tuple(range(min(most, 16) + 1)))
    if resident > most:
        report.settle(kernel, RESIDENT, most, f"a multiprocessor has {most} blocks of so many threads")
    return min(resident, most)
