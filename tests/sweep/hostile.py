"""Sends a server what no page would send: `python tests/sweep/hostile.py --count 100000`.

The server is a real one with its workers. It must answer each request with a status below 500 (503 and 504 are its word
that it is busy, or that a run took too long), write no traceback, own up to no fault of its own, serve on afterwards,
and take no more memory after the last request than after the first part of them, but for what it keeps. What goes
against that is printed with the seed that draws it; status 1 says that there was some.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from websockets.exceptions import ConnectionClosed  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from tests.sweep.hostile_drawing import frames, request  # noqa: E402

BUSY = {503, 504}
OWN_FAULTS = re.compile(rb"Traceback|The explorer itself failed|The server failed to answer|Internal Server Error")
PATIENCE = 90.0
SILENCE = 0.2
"""How long to wait for an answer to what is no whole request."""
AT_ONCE = 6
SOCKETS = 0.15
"""The share of what is sent that goes over a WebSocket."""
SETTLED = 0.4
"""By that part of all requests, the server has loaded what it needs and has filled most of what it keeps."""
MOST_GROWTH = 48 << 20
PYTHON_OF_JSON = 7
"""Bytes that Python takes for a byte of what is kept as JSON."""


@dataclass
class Found:
    """What came back."""

    statuses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@contextmanager
def server(log: Path) -> Iterator[int]:
    """The port of a server in a process of its own, which writes its log to a file."""
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with (
        log.open("w") as written,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found, log.read_text()
        try:
            yield int(found[1])
        finally:
            process.terminate()


def answer(port: int, sent: bytes, seconds: float = PATIENCE) -> bytes:
    """All that comes back until the server closes, or says nothing for so long."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                found += part
    return found


def try_request(port: int, seed: int, found: Found) -> None:
    sent, is_whole = request(random.Random(seed))
    try:
        came = answer(port, sent, PATIENCE if is_whole else SILENCE)
    except TimeoutError:
        if not is_whole:
            found.statuses["waited for the rest"] += 1
            return
        found.faults.append(f"seed {seed}: no answer in {PATIENCE:.0f} s to {sent[:200]!r}")
        return
    status = int(came.split(b" ", 2)[1]) if came.startswith(b"HTTP/1.") else 0
    found.statuses[str(status)] += 1
    if (status >= 500 and status not in BUSY) or OWN_FAULTS.search(came):
        found.faults.append(f"seed {seed}: {came[-400:]!r} to {sent[:300]!r}")


def try_socket(port: int, seed: int, found: Found) -> None:
    """Sends frames, then one that is refused for sure: by that answer all of them have been read."""
    source = random.Random(seed)
    said = b""
    try:
        with connect(f"ws://127.0.0.1:{port}/ws", open_timeout=PATIENCE, max_size=None) as page:
            for frame in frames(source):
                page.send(frame)
            if source.random() < 0.2:  # something that is no frame
                page.socket.sendall(source.randbytes(40))
            page.send(json.dumps({"type": "the last"}))
            while b"'run', 'resume' or 'cancel'" not in said[-300:]:
                said += str(page.recv(PATIENCE)).encode("utf-8", "replace")
        found.statuses["socket"] += 1
    except TimeoutError:
        found.faults.append(f"seed {seed}: a socket was silent for {PATIENCE:.0f} s after {said[-200:]!r}")
    except (ConnectionClosed, OSError) as closed:
        found.statuses[f"socket closed: {str(closed)[:40]}"] += 1
    except Exception as refused:  # of a handshake: too many pages at once
        found.statuses[f"socket: {type(refused).__name__}"] += 1
    if OWN_FAULTS.search(said):
        found.faults.append(f"seed {seed}: {said[-600:]!r}")


def memory(port: int) -> dict[str, float]:
    """The numbers of /metrics that bear on memory."""
    text = answer(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").decode()
    names = {"server": 'explorer_memory_bytes{process="server"}', "kept": "explorer_compile_cache_bytes"}
    return {key: float(re.findall(rf"^{re.escape(name)} (\S+)", text, re.MULTILINE)[0]) for key, name in names.items()}


@contextmanager
def slow_clients(port: int) -> Iterator[None]:
    """Some that begin to ask, and go no further."""
    held = []
    for begun in (b"GET / HT", b"POST /api/compile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{") * 10:
        held.append(socket.create_connection(("127.0.0.1", port), PATIENCE))
        held[-1].sendall(begun)
    try:
        yield
    finally:
        for each in held:
            each.close()


def send_all(port: int, seeds: range, found: Found) -> None:
    def one(seed: int) -> None:
        (try_socket if random.Random(-seed).random() < SOCKETS else try_request)(port, seed, found)

    with slow_clients(port), ThreadPoolExecutor(AT_ONCE) as senders:
        list(senders.map(one, seeds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    settled = asked.seed + int(asked.count * SETTLED)
    found, began = Found(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with server(log) as port:
            send_all(port, range(asked.seed, settled), found)
            before = memory(port)
            send_all(port, range(settled, asked.seed + asked.count), found)
            after = memory(port)
            alive = answer(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        if b" 200 " not in alive[:20]:
            found.faults.append(f"the server does not answer any more: {alive[:200]!r}")
        if "Traceback" in log.read_text():
            found.faults.append(log.read_text()[-3000:])
    growth = after["server"] - before["server"] - PYTHON_OF_JSON * (after["kept"] - before["kept"])
    if growth > MOST_GROWTH:
        found.faults.append(f"the server grew by {growth / (1 << 20):.0f} MiB besides what it keeps")
    seconds = time.monotonic() - began
    print(f"{asked.count} sent in {seconds:.0f} s, {asked.count / seconds:.0f} a second: {dict(found.statuses)}")
    print(f"memory: {before['server'] / 1e6:.0f} MB, then {after['server'] / 1e6:.0f} MB; ", end="")
    print(f"kept: {before['kept'] / 1e6:.1f} MB, then {after['kept'] / 1e6:.1f} MB")
    print(*found.faults, sep="\n")
    return bool(found.faults)


if __name__ == "__main__":
    sys.exit(main())
