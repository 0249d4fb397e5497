"""A server takes what no page would send: a sample here, the many by `hostile.py` itself."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep.hostile import MOST_FILES, MOST_GROWTH, SAMPLES, Sample, growth
from tests.sweep.hostile_drawing import ROUTES, Drawn, frames, request
from tests.sweep.hostile_sending import Found, Server, try_request

HOSTILE = Path(__file__).with_name("hostile.py")


@pytest.mark.sweep
def test_a_server_takes_what_no_page_would_send() -> None:
    done = subprocess.run(
        [sys.executable, str(HOSTILE), "--count", "10000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_route_is_asked() -> None:
    drawn = {request(random.Random(seed)).kind for seed in range(6_000)}
    assert {f"{method} {path}" for method, path, *_ in ROUTES} - drawn == set()
    assert len(ROUTES) > 30
    assert all(list(frames(random.Random(seed))) for seed in range(50))


@pytest.mark.parametrize(
    ("answer", "is_fault"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", True),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", True),
        (b"", True),
        (b'HTTP/1.1 422 X\r\n\r\n{"message": "The explorer itself failed: KeyError"}', True),
    ],
)
def test_a_fault_is_seen(answer: bytes, is_fault: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answered(*_: object) -> bytes:
        return answer

    monkeypatch.setattr("tests.sweep.hostile_sending.answer", answered)
    found = Found()
    asyncio.run(try_request(Server(0), 1, Drawn("GET /", b"GET / HTTP/1.1"), found))
    assert bool(found.faults) == is_fault, found


def test_growth_is_seen_but_for_what_is_kept() -> None:
    def taken(bytes_each: float, kept_each: float, files: int = 20) -> list[Sample]:
        return [Sample(at, at, at * bytes_each, 0, at * kept_each, files + at) for at in range(SAMPLES)]

    assert growth(taken(0, 0)) == []
    assert growth(taken(7 << 20, 1 << 20)) == []
    assert len(growth(taken(MOST_GROWTH / 5, 0))) == 1
    assert len(growth([*taken(0, 0), Sample(SAMPLES, SAMPLES, 0, 0, 0, 21 + MOST_FILES)])) == 1
