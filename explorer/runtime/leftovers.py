"""Folders for what is temporary that bear their process's number, so that those of one that was killed are deleted by a
later one."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def own_prefix(kind: str) -> str:
    """What the names of this process's folders of a kind begin with."""
    return f"{kind}{os.getpid()}-"


def sweep(kind: str) -> None:
    """Deletes the folders of a kind whose processes have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{kind}*-*"):
        with suppress(ValueError, OSError):
            if not _is_there(int(folder.name.removeprefix(kind).split("-")[0])):
                shutil.rmtree(folder, ignore_errors=True)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
