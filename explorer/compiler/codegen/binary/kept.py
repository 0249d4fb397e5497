"""What NVIDIA's tools and Numba made, kept on disk by what it was made of, for all processes of a user and after they
end.

    kept(("nvrtc", "13.5.37", *flags, text), make)    made once; `make` is called where there is no whole entry

An entry is a file named by the SHA-256 of its key, so it never has to change. It comes whole, by a rename, and begins
with the digest of what follows: one that a crash or a disk has cut short is made again. When all are together too many
bytes, those that were not used for longest go. A disk that refuses is no error: nothing is kept then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

VARIABLE = "EXPLORER_CACHE"
"""The environment variable that names a folder in place of the platform's; where it is empty, nothing is kept."""
OWN = Path("embedding-compiler-explorer", "machine-code")
"""The folder in that one which has entries and nothing else: whatever is in it may be deleted."""
MOST_BYTES = 256 << 20
"""Of all entries: PTX, machine code and SASS of a model are 0.2 to 3 MB, a kernel for the CPU 0.05 MB."""
_DIGEST, _LENGTH = 32, 8


def kept(key: Sequence[str | bytes], make: Callable[[], tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """What was made of a key before, by any process, or what `make` now makes."""
    file = _file(key)
    if file is None:
        return make()
    found = _read(file)
    if found is None:
        found = make()
        with suppress(OSError):
            _write(file, found)
    return found


def is_kept(key: Sequence[str | bytes]) -> bool:
    """Whether there is an entry for a key."""
    file = _file(key)
    return file is not None and file.is_file()


def folder() -> Path | None:
    """Where entries are: the environment's folder or the platform's; None where there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) / OWN if named else None
    with suppress(RuntimeError):  # a user without a home
        return _of_platform() / OWN
    return None


def _of_platform() -> Path:
    match sys.platform:
        case "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        case "darwin":
            return Path.home() / "Library" / "Caches"
        case _:
            return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _file(key: Sequence[str | bytes]) -> Path | None:
    where = folder()
    parts = [part if isinstance(part, bytes) else part.encode() for part in key]
    return where / sha256(_packed(parts)).hexdigest() if where else None


def _read(file: Path) -> tuple[bytes, ...] | None:
    """An entry's parts, which are in use from now on; None where there is none that is whole."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    body = data[_DIGEST:]
    if sha256(body).digest() != data[:_DIGEST]:
        return None
    with suppress(OSError):
        os.utime(file)
    return _unpacked(body)


def _write(file: Path, parts: Sequence[bytes]) -> None:
    body = _packed(parts)
    if len(body) + _DIGEST > MOST_BYTES:
        return
    from tempfile import NamedTemporaryFile  # here, since a compilation to CUDA needs none

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(sha256(body).digest() + body)
    os.replace(part.name, file)
    _make_room(file.parent)


def _make_room(where: Path) -> None:
    """Deletes what was not used for longest, what a killed process has left half written included."""
    found = [(each.stat(), each.path) for each in os.scandir(where)]
    excess = sum(about.st_size for about, _ in found) - MOST_BYTES
    for about, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
        if excess <= 0:
            return
        os.unlink(path)
        excess -= about.st_size


def _packed(parts: Sequence[bytes]) -> bytes:
    """Parts one after another, each behind its length: different ones are different bytes."""
    return b"".join(len(part).to_bytes(_LENGTH, "little") + part for part in parts)


def _unpacked(body: bytes) -> tuple[bytes, ...]:
    parts, at = [], 0
    while at < len(body):
        end = at + _LENGTH + int.from_bytes(body[at : at + _LENGTH], "little")
        parts.append(body[at + _LENGTH : end])
        at = end
    return tuple(parts)
