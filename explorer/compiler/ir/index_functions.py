"""What the arithmetic of indices means: whole numbers, known when a program is compiled or when it is interpreted."""

from __future__ import annotations

from collections.abc import Callable

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
