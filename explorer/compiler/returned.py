"""What a definition returns, as Python has it: `return a` is a value by itself, `return a, b` a tuple of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Value = TypeVar("Value")


def as_returned(values: Iterable[Value]) -> Value | tuple[Value, ...]:
    """The results of a definition, in order, as whoever runs it gets them."""
    found = tuple(values)
    return found[0] if len(found) == 1 else found


def each_returned(returned: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """The results that are returned, in order."""
    return returned if isinstance(returned, tuple) else (returned,)


def for_each_returned(function: Callable[..., Value], *returned: Any) -> Value | tuple[Value, ...]:
    """What a function makes of each result, with what else there is of each."""
    return as_returned(function(*each) for each in zip(*map(each_returned, returned), strict=True))
