"""Which explorer this is: a server and its workers must be the same one, or a page would show one program's stages and
the times of another; and what a search found holds for the compiler that it searched with."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_MEANT = (".py", ".lark", ".emb")


@cache
def version(*folders: str) -> str:
    """Twelve hexadecimal digits of all that the package says, or these folders of it, on any host the same for the same
    files. The package's own number stays as it is from one commit to the next, and so does not tell."""
    digest = sha256()
    inside = [_PACKAGE / folder for folder in folders] or [_PACKAGE]
    for path in sorted(path for folder in inside for path in folder.rglob("*") if path.suffix in _MEANT):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
