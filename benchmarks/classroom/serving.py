"""A server to measure: the one that is named, or one started for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


@contextmanager
def served(address: str | None) -> Iterator[tuple[str, int | None]]:
    """Where the server is, and its process if it is ours."""
    if address is not None:
        yield address.rstrip("/"), None
        return
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as server:
        try:
            assert server.stdout is not None
            found = server.stdout.readline().partition("http://")[2].split()[0].rstrip("/")
            yield f"http://{found}", server.pid
        finally:
            server.terminate()
