"""Numba with types, for this package alone: the interpreter is compiled once a machine and kept on disk.

Division by zero gives infinity or NaN, as in NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    # The interpreter allocates nothing: without Numba's reference counts on arrays it is seven times as fast.
    "_nrt": False,
}

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def part(function: AnyFunction) -> AnyFunction:
    """A function of the interpreter, always inlined: its arguments are tuples of many arrays, dear to pass."""
    return cast(AnyFunction, numba.njit(forceinline=True, **OPTIONS)(function))


def called(function: AnyFunction) -> AnyFunction:
    """A function of a few numbers, which is called: inlined wherever it is used, it would take long to compile."""
    return cast(AnyFunction, numba.njit(**OPTIONS)(function))


def entry(function: AnyFunction) -> AnyFunction:
    """A function that Python calls. Its machine code is kept beside the source or, where that may not be written,
    in the user's cache; where neither may be, it is compiled in each process."""
    try:
        return cast(AnyFunction, numba.njit(cache=True, nogil=True, **OPTIONS)(function))
    except RuntimeError:  # "no locator available"
        return cast(AnyFunction, numba.njit(nogil=True, **OPTIONS)(function))


def fingerprint(*texts: str) -> str:
    """A hash of this package's sources and of texts that it compiles. Numba looks only at the file of an entry to see
    whether kept code is stale, but opcodes and parts of other files are frozen into it as well."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    parts = [*(source.read_bytes() for source in sources), *(text.encode() for text in texts)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
