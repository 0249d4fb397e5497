"""Parts of scales: 0.0 where there is none, else float32 of a shape that broadcasts to the values'."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.numbers.primitives import as_array

ROUNDOFF = 2.0**-24
"""The unit roundoff of float32."""
CONSTANT = 3.0
"""How many times u scale an element may differ. The largest lawful ratio seen is 1.5, of a one-pass deviation."""
NEAR = 4.0
"""An argument that is within so many times u scale of a corner, a pole or another argument may be beyond it: above
CONSTANT, so that what is told to be on one side is."""
EITHER = 1 / (CONSTANT * ROUNDOFF)
"""The scale that allows an error of 1: what takes either of two slopes may differ by their difference."""
FLUSHED = 2.0**-126 / ROUNDOFF
"""What is lost where a result below the normal numbers becomes 0, as a scale."""
LARGEST = 2.0**128
"""What is as large overflows, and has no bound."""
Floats = npt.NDArray[np.float64]
Part = Any
"""A part of a scale: 0.0 where there is none, else float32 of a shape that broadcasts to the values'."""
NONE = 0.0
_TINY = np.float32(2.0**-126)
_MOST = np.finfo(np.float32).max


def absent(part: Part) -> bool:
    return isinstance(part, float) and part == 0.0


def plus(*parts: Part) -> Part:
    """The sum of parts."""
    found: Part = NONE
    for part in parts:
        if not absent(part):
            found = part if absent(found) else found + part
    return found


def times(part: Part, factor: Any) -> Part:
    """A part scaled by the slope of what it is an argument of."""
    return part if absent(part) else part * factor


def root(*parts: Part) -> Part:
    """The root of the sum of the squares of parts, which themselves may leave the range of float32."""
    found: Part = NONE
    for part in parts:
        if not absent(part):
            found = part if absent(found) else _hypotenuse(found, part)
    return found


def _hypotenuse(x: Part, y: Part) -> Part:
    most = np.maximum(x, y)
    found = as_array(np.minimum(x, y))
    np.minimum(found, _MOST, out=found)
    found /= np.maximum(most, _TINY)
    found *= found
    found += np.float32(1)
    np.sqrt(found, out=found)
    found *= most
    return found


def size_of(values: Floats) -> Part:
    """The magnitudes of values, in float32."""
    with np.errstate(over="ignore"):
        found = as_array(as_array(values).astype(np.float32))
    return np.abs(found, out=found)


def full(part: Any, shape: tuple[int, ...]) -> Any:
    if np.shape(part) == shape:
        return part
    return np.broadcast_to(as_array(part, np.float32), shape)


def cast(part: Part) -> Part:
    return part if absent(part) else part.astype(np.float32)


def kept_where(condition: Any, part: Part) -> Part:
    """A part where this holds, else nothing; also of what has no bound."""
    return part if absent(part) else np.where(condition, part, np.float32(0))


def scaled_down(part: Part, axis: int) -> tuple[Part, Part]:
    """A part over the largest along an axis, and that: so its squares stay in the range of float32."""
    most = np.maximum(part.max(axis=axis, keepdims=True, initial=0), _TINY)
    return np.minimum(part, _MOST) / most, most


_flushes = [True]


@contextmanager
def flushing(allowed: bool) -> Iterator[None]:
    """Inside, what lies below the normal numbers may become 0, or may not."""
    _flushes.append(allowed)
    yield
    _flushes.pop()


_seen: list[list[bool]] = []


@contextmanager
def overflows_seen() -> Iterator[list[bool]]:
    """Inside, the list gets an entry as soon as a value on the way is a number and overflows in float32."""
    _seen.append([])
    yield _seen[-1]
    _seen.pop()


def look_for_overflow(value: Floats) -> None:
    """Takes note of a value that overflows, where somebody asks for it."""
    if _seen and not _seen[-1] and bool((np.isfinite(value) & (np.abs(value) >= LARGEST)).any()):
        _seen[-1].append(True)


def lost(value: Floats) -> Part:
    """What may be flushed."""
    return (value != 0) * np.float32(FLUSHED) if _flushes[-1] else NONE
