"""Arrays that refuse what is outside of them, for programs that nobody has shown to stay inside: NumPy takes an index
below 0 from the end, and a piece that is too long as far as it goes, where a machine reads what is beside the array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt


class OutsideError(IndexError):
    """An access that is outside of its array; the message is part of a sentence: `T[9, 0] of T[4, 64]`."""


def outside(name: str, shape: tuple[int, ...], *places: Any) -> None:
    """Raises OutsideError."""
    raise OutsideError(_said(name, shape, places))


class Guarded(np.ndarray[Any, Any]):
    """An array of a name, every access to which is checked."""

    called: str

    def __array_finalize__(self, source: Any) -> None:
        self.called = getattr(source, "called", "")

    def __getitem__(self, at: Any) -> Any:
        check(self.called, self.shape, at)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        check(self.called, self.shape, at)
        super().__setitem__(at, value)


NUMBERS = frozenset({int, np.int64, np.int32})
"""What one index is, which is most of them."""
_active = False


@contextmanager
def guarding() -> Iterator[None]:
    """Interpreters check every access that they do meanwhile, and take some times as long."""
    global _active
    before, _active = _active, True
    try:
        yield
    finally:
        _active = before


def is_guarding() -> bool:
    """Whether accesses are checked."""
    return _active


def guarded(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """The array under its name, where accesses are checked; else as it is."""
    if not _active or not isinstance(array, np.ndarray):
        return array
    found = array.view(Guarded)
    found.called = name
    return found


def check(name: str, shape: tuple[int, ...], at: Any) -> None:
    """Raises OutsideError for an access that is not inside of an array of that shape."""
    places = at if type(at) is tuple else (at,)
    if len(places) > len(shape):
        outside(name, shape, *places)
    for place, length in zip(places, shape, strict=False):
        if type(place) in NUMBERS:
            if 0 <= place < length:
                continue
        elif type(place) is slice:
            if _holds(length, place):
                continue
        elif not np.size(place) or (np.min(place) >= 0 and np.max(place) < length):
            continue
        outside(name, shape, *places)


def _holds(length: int, piece: slice) -> bool:
    """Whether all of a piece is there; one of nothing is anywhere."""
    if piece.start is None or piece.stop is None:
        return True
    return bool(piece.stop <= piece.start or (piece.start >= 0 and piece.stop <= length))


def _said(name: str, shape: tuple[int, ...], places: tuple[Any, ...]) -> str:
    name = name or "an array"
    return f"{name}[{', '.join(map(_place, places))}] of {name}[{', '.join(map(str, shape))}]"


def _place(place: Any) -> str:
    if isinstance(place, slice):
        return f"{place.start}..{place.stop}"
    found = np.asarray(place)
    return str(int(found)) if found.ndim == 0 else f"{int(found.min())}..{int(found.max())}"
