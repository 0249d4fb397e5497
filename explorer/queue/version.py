"""Which explorer this is: a server and its workers must be the same one, or a page would show one program's stages and
the times of another."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_MEANT = (".py", ".lark", ".emb")


@cache
def version() -> str:
    """Twelve hexadecimal digits of all that the package says, on any host the same for the same files. The package's
    own number stays as it is from one commit to the next, and so does not tell."""
    digest = sha256()
    for path in sorted(path for path in _PACKAGE.rglob("*") if path.suffix in _MEANT):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
