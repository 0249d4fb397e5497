"""A server takes what no page would send: a sample here, the many by `hostile.py` itself."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep.hostile import OWN_FAULTS, Found, try_request
from tests.sweep.hostile_drawing import ROUTES, frames, request

HOSTILE = Path(__file__).with_name("hostile.py")


@pytest.mark.sweep
def test_a_server_takes_what_no_page_would_send() -> None:
    done = subprocess.run(
        [sys.executable, str(HOSTILE), "--count", "2000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_route_is_asked() -> None:
    drawn = [request(random.Random(seed))[0].partition(b"\r\n")[0] for seed in range(1_000)]
    missing = [
        (method, path)
        for method, path, *_ in ROUTES
        if not any(line.startswith(f"{method} {path.partition('{')[0]}".encode()) for line in drawn)
    ]
    assert missing == []
    assert len(ROUTES) > 12
    assert all(list(frames(random.Random(seed))) for seed in range(50))


@pytest.mark.parametrize(
    ("answer", "is_fault"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", True),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", True),
        (b'HTTP/1.1 422 X\r\n\r\n{"message": "The explorer itself failed: KeyError"}', True),
    ],
)
def test_a_fault_is_seen(answer: bytes, is_fault: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sweep.hostile.answer", lambda *_: answer)
    found = Found()
    try_request(0, 1, found)
    assert bool(found.faults) == is_fault, OWN_FAULTS.pattern
