"""What the server accepts and for how long it works: every bound in one place, each with its sentence elsewhere."""

from __future__ import annotations

import os

BODY_BYTES = 256 * 1024
"""A request's body, and a WebSocket message. A program may have 64 KiB, which JSON can double and more."""
DRAIN_BYTES = 32 * 1024 * 1024
"""How much of a too large body is read and dropped, so that the client gets to read the answer."""
BODY_SECONDS = 30.0

COMPILE_SECONDS = 15.0
COMPILE_MEMORY = 2 << 30
COMPILE_CACHE = 128
"""Compilations kept, by content: a class that opens one example costs one compilation."""
COMPILES_WAITING = 200

RUN_SECONDS = 30.0
RUN_MEMORY = 4 << 30
RUNS_WAITING = 100
RUNS_WAITING_PER_ADDRESS = 8
"""Of those, how many may be a single address's by the JSON API, so that no script fills the queue."""
MAX_BATCH = 65_536
MAX_REPEAT = 1_000
SOCKETS = 500


def concurrent_runs() -> int:
    """Runs at a time: half the cores, since a CPU run uses several threads and its times should mean something."""
    return max(1, (os.cpu_count() or 1) // 2)


def concurrent_compiles() -> int:
    """Compilations at a time: at least two, so that PTX for one reader does not hold up another's typing."""
    return max(2, (os.cpu_count() or 1) // 2)
