"""Landlock: the files that this process, and what it starts, may touch from now on (Linux 5.13; landlock(7)).

Rules only ever take away: what is allowed here must be allowed by the user's rights as well. TCP is refused from ABI 4
on, other processes' signals and abstract sockets from ABI 6 on.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls, of the same numbers on every architecture."""
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << place for place in range(4))
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""How many rights over files there are, from each version of the interface on."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
"""The rights that mean something for a file that is no folder."""
READ = _READ_FILE | _READ_DIR
"""To read what is beneath."""
RUN = READ | _EXECUTE
"""To read it, and to start programs and load libraries that are beneath."""
WRITE = READ | ((1 << 15) - 1 & ~_EXECUTE)
"""To read and to change all that is beneath."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def version() -> int:
    """The version of the kernel's interface; 0 where there is none."""
    return max(0, _call(_CREATE, None, 0, _ASK_VERSION)) if sys.platform == "linux" else 0


def restrict(allowed: Iterable[tuple[Path, int]]) -> int:
    """Keeps this thread, and what it starts, to the rights over the files given, without TCP. Returns the interface's
    version, 0 where nothing is restricted. Threads that run already are not kept to anything. A path that is not there
    is left out. Raises OSError where the kernel refuses."""
    abi = version()
    if not abi:
        return 0
    handled = (1 << max(count for since, count in _OF_ABI.items() if since <= abi)) - 1
    rules = _Ruleset(handled, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _checked(_call(_CREATE, ctypes.byref(rules), size, 0))
    try:
        for path, rights in allowed:
            with suppress(FileNotFoundError, PermissionError):
                _add(ruleset, path, rights & handled)
        _checked(_prctl(_NO_NEW_PRIVILEGES, 1))
        _checked(_call(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)
    return abi


def _add(ruleset: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, place)
        _checked(_call(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def _prctl(option: int, value: int) -> int:
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
