"""What a worker of a role gets when it tries what it has no business with: `python -m ...isolation.probe ROLE`.

One JSON object on stdout: what holds, and by attempt whether it was refused.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from ctypes import CDLL
from pathlib import Path

from explorer.runtime.workers.isolation.worker import isolate

FILE = Path("/etc/passwd")
"""Anybody may read it, and a worker need not."""


def attempts() -> dict[str, Callable[[], object]]:
    """By what it is: each raises OSError where it is refused, and does no harm where it is not."""

    def traced() -> None:
        if CDLL(None).ptrace(0, 0, 0, 0) != 0:  # PTRACE_TRACEME: it asks its parent, who does not
            raise PermissionError

    return {
        "read a file": FILE.read_bytes,
        "change a file": lambda: FILE.open("ab").close(),
        "list a folder": lambda: list(FILE.parent.iterdir()),
        "open a connection": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        "listen for one": lambda: socket.create_server(("127.0.0.1", 0)),
        "start a program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "be looked into": traced,
    }


def main(role: str) -> None:
    """Isolates this process and tries."""
    held, refused = isolate(role), {}
    for name, attempt in attempts().items():
        try:
            attempt()
            refused[name] = False
        except OSError as error:
            refused[name] = isinstance(error, PermissionError)
    print(json.dumps({"held": held, "refused": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
