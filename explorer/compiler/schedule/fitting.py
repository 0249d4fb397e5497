"""Values of options that do not fit a nest or a GPU, made to the nearest ones that do, which the stage says.

Options are chosen before it is known what a nest needs of shared memory, registers and threads. Repairing a value keeps
what was asked for as far as it goes, where refusing it would give up the schedule (G-Sparse §III-D: a gene that is not
valid becomes the nearest one that is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def lowered(wanted: int, choices: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    """The largest of an option's choices that is at most the one that is wanted, and fits; 0, which leaves a number to
    the compiler, is no such choice."""
    below = (choice for choice in sorted(choices, reverse=True) if 0 < choice < wanted)
    return next((choice for choice in (wanted, *below) if fits(choice)), None)
