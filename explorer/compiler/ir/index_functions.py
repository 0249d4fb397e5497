"""What the arithmetic of indices means: whole numbers, known when a program is compiled or when it is interpreted, and
ids that maps compute of others: a quotient, a hash `(h * 31 + 7) % 1000`, or of several paths of maps one number,
`(h * 31 + t * 7) % 1000`.

Of the first path's ids it is computed in `Steps`, one after another. What a step takes is a number, or further steps:
what these make of the next path's ids, which have none where that path's are taken as they are. The example's steps are
`* 31`, `+ (* 7)` and `% 1000`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, floordiv, mod, mul, sub
from typing import Any, TypeVar, Union

INDEX_FUNCTIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "less": lambda a, b: int(a < b),
    "at_most": lambda a, b: int(a <= b),
    "equal": lambda a, b: int(a == b),
    "min": min,
    "max": max,
    "select": lambda chosen, a, b: a if chosen else b,
}

Ids = TypeVar("Ids", bound=Any)
"""Whole numbers, an array of NumPy or a tensor of PyTorch."""

STEPS: Mapping[str, Callable[[Any, Any], Any]] = {"//": floordiv, "%": mod, "*": mul, "+": add, "-": sub}
"""What may be computed of ids; as Python does it, so that a remainder is not negative."""
DIVISIONS = ("//", "%")
"""Of these a step takes a number."""
SUMS = ("+", "-")
MOST_ROWS = 2**31 - 1
"""That ids of 32 bits are of."""

Step = tuple[str, Union[int, "Steps"]]
Steps = tuple[Step, ...]
Range = tuple[int, int]
"""The least and the greatest of some ids."""


def take(paths: Iterable[Ids], steps: Steps) -> Ids:
    """What is computed of the ids of each path, which are of 64 bits where it `widens`; they themselves of one path
    where nothing is."""
    return _take(iter(paths), steps)


def _take(paths: Iterator[Ids], steps: Steps) -> Ids:
    ids = next(paths)
    for operator, operand in steps:
        ids = STEPS[operator](ids, operand if isinstance(operand, int) else _take(paths, operand))
    return ids


def reach(counts: Iterable[int], steps: Steps) -> Range | None:
    """The least and the greatest id that may be computed where each path leads to so many; None where to none, as only
    of a remainder some number is known even so."""
    return _reach(iter(counts), steps)


def _reach(counts: Iterator[int], steps: Steps) -> Range | None:
    count = next(counts)
    found = (0, count - 1) if count else None
    for operator, operand in steps:
        other = (operand, operand) if isinstance(operand, int) else _reach(counts, operand)
        if operator == "%" and isinstance(operand, int):
            found = (0, operand - 1)
        elif found is None or other is None:
            found = None
        else:  # each step grows or falls with either side: its ends are of their ends
            corners = [STEPS[operator](one, another) for one in found for another in other]
            found = min(corners), max(corners)
    return found


def rows_for(counts: Iterable[int], steps: Steps) -> int:
    """How many rows there are for such ids, up to the greatest."""
    found = reach(counts, steps)
    return 0 if found is None else max(0, found[1] + 1)


def too_many(name: str, count: int) -> str:
    """About a map that may lead to more rows than MOST_ROWS."""
    return f"{name} may lead to {count:,} rows, and an id has 32 bits, for {MOST_ROWS:,}: take a remainder, % M"


def widens(steps: Steps) -> bool:
    """Whether what is computed may need 64 bits on the way."""
    return any(operator not in DIVISIONS for operator, _ in steps)


def number_of_steps(steps: Steps) -> int:
    """With those of what steps take."""
    return sum(1 if isinstance(operand, int) else 1 + number_of_steps(operand) for _, operand in steps)


def written(paths: Sequence[str], steps: Steps) -> str:
    """What is computed of ids as one writes it: `(h * 31 + t * 7) % 1000`."""
    return _written(iter(paths), steps)


def _written(paths: Iterator[str], steps: Steps) -> str:
    text, before = next(paths), ""
    for operator, operand in steps:
        text = f"({text})" if before in SUMS and operator not in SUMS else text
        text, before = f"{text} {operator} {_operand(paths, operand, operator)}", operator
    return text


def _operand(paths: Iterator[str], operand: int | Steps, operator: str) -> str:
    if isinstance(operand, int):
        return str(operand)
    text = _written(paths, operand)
    binds_less = bool(operand) and (operator not in SUMS or operand[-1][0] in SUMS)
    return f"({text})" if binds_less else text
