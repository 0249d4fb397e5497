"""What a worker of each role is left with."""

from __future__ import annotations

import os
import resource
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from explorer.checkout import CHECKOUT
from explorer.compiler.codegen.binary import kept
from explorer.runtime.workers.isolation import landlock, seccomp

MOST_DESCRIPTORS = 1024
MOST_FILE_BYTES = 512 << 20
"""Of one file that a worker writes: what is kept of machine code is 256 MiB in all."""
OF_LIBRARIES = ("/usr", "/lib", "/lib64", "/bin", "/opt", "/nix", "/etc/ld.so.cache", "/etc/alternatives")
OF_SYSTEM = ("/proc", "/sys", "/etc/localtime", "/etc/os-release", "/dev/urandom", "/dev/random", "/dev/zero")
STARTING = ("compile", "run-compiling")
"""The roles that start programs: nvdisasm, and the compilers of peers. What they start is kept to the same."""
GPU = Path("/dev/nvidiactl")
"""Is there where the driver is."""


def isolate(role: str, data: Sequence[Path] = ()) -> tuple[str, ...]:
    """Keeps this process, from its first thread on, to what a worker of this role needs; `data` are folders that it may
    read besides. Returns what holds: a host may not give all of it. Where there is a GPU, runs are kept to the limits
    alone: what a driver opens, and what the compilers of peers start, is not known well enough to refuse the rest."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, MOST_DESCRIPTORS)
    _lower(resource.RLIMIT_FSIZE, MOST_FILE_BYTES)
    held = ["limits"]
    if role in ("run", "run-compiling") and GPU.exists():
        return tuple(held)
    if landlock.restrict([*_readable(data), *_writable()]):
        held.append("landlock")
    if seccomp.refuse(processes=role in STARTING):
        held.append("seccomp")
    return tuple(held)


def _lower(limit: int, most: int) -> None:
    """Sets a limit, unless a lower one holds."""
    _, hard = resource.getrlimit(limit)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (most, most))


def _readable(data: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    """Python, the packages and what they load, this checkout, and the data."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(), *sys.path}
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    own -= {os.getcwd()}  # which `python -m` puts among the others, wherever that is
    for path in filter(None, (*own, *searched, *OF_LIBRARIES)):
        yield Path(path), landlock.RUN
    for read in (*map(Path, OF_SYSTEM), CHECKOUT, *data):
        yield read, landlock.READ
    yield Path(os.devnull), landlock.WRITE


def _writable() -> Iterator[tuple[Path, int]]:
    """Where machine code is kept, and temporary files."""
    with suppress(OSError):  # a root that is read-only, without a folder for them
        yield Path(tempfile.gettempdir()), landlock.WRITE
    folder = kept.folder()
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield folder, landlock.WRITE
    for path in _of_numba():
        yield path, landlock.WRITE


def _of_numba() -> Iterator[Path]:
    """Where Numba keeps the simulator's machine code: its own folder, or beside the sources."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        yield Path(named)
        return
    yield from (CHECKOUT / "explorer").rglob("__pycache__")
    with suppress(OSError, RuntimeError):  # where the sources may not be written to, it takes the user's
        folder = Path.home() / ".cache" / "numba"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
