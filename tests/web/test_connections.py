"""Connections that ask for nothing, or do not take what they asked for, cost nobody else theirs."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse
from websockets.exceptions import InvalidHandshake

from explorer.web import limits
from explorer.web.entrance.addresses import group
from explorer.web.entrance.connections import most_connections
from tests.web.serving import Served, eventually, rest, serving

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HALF + b"\r\n"
CLOSING = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b"POST /api/compile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"


@pytest.fixture(scope="module")
def hasty() -> Iterator[Served]:
    """A server that waits for a head for a moment."""
    with serving(head_seconds=0.3) as served:
        yield served


def times(served: Served) -> Iterator[float]:
    """How long the server waits for a head: a moment, and longer where that was too short on a busy host for what is
    sent at once to have come."""
    doorkeeper: Any = served.server.config.http
    before = doorkeeper.head_seconds
    try:
        for doorkeeper.head_seconds in (before, 1.5, 6.0, 24.0):
            yield doorkeeper.head_seconds
    finally:
        doorkeeper.head_seconds = before


@pytest.mark.parametrize("sent", [HALF, b"G", b"\r\n"], ids=["half a head", "a letter", "no more than a line's end"])
def test_a_head_that_does_not_come_is_not_waited_for(hasty: Served, sent: bytes) -> None:
    told = b""
    for _ in times(hasty):
        with suppress(OSError), hasty.raw(sent) as slow:
            told = rest(slow)
        if told:
            break
    assert told.startswith(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n")


def test_a_connection_that_says_nothing_ends(hasty: Served) -> None:
    with hasty.raw() as silent:
        assert rest(silent) == b""


def test_a_head_after_an_answer_is_not_waited_for_either(hasty: Served) -> None:
    """Any byte puts off uvicorn's own limit for idle connections."""
    told = b""
    for _ in times(hasty):
        with suppress(OSError), hasty.raw(WHOLE) as slow:
            answer = slow.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200 OK") or not answer
            slow.sendall(b"G")
            told = rest(slow)
        if told:
            break
    assert b"HTTP/1.1 408 Request Timeout" in told


def test_a_page_may_stay_for_longer_than_a_head_may_take(hasty: Served) -> None:
    for _ in times(hasty):
        with suppress(OSError, InvalidHandshake), hasty.page() as page:
            with hasty.raw() as silent:
                assert rest(silent) == b""  # which came later, and had its time
            page.send("nonsense")
            assert "not JSON" in str(page.recv())
            return
    pytest.fail("no page was let in")


def test_a_head_in_pieces_and_requests_at_once_are_answered() -> None:
    with serving() as served, served.raw(HALF) as asked:
        asked.sendall(b"\r\n" + WHOLE + HALF + b"Connection: close\r\n\r\n")
        assert rest(asked).count(b"HTTP/1.1 200 OK") == 3


def test_a_head_that_is_too_long_is_refused() -> None:
    with serving() as served, served.raw(HALF) as greedy:
        while True:
            try:
                greedy.sendall(b"X-More: " + b"x" * 4096 + b"\r\n")
            except OSError:
                break
    with serving() as served, served.raw(HALF + b"X-More: " + b"x" * limits.HEAD_BYTES) as greedy:
        assert rest(greedy).startswith(b"HTTP/1.1 431 ")


def test_what_is_no_request_is_told_and_fills_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as served, served.raw(b"\x16\x03\x01 not HTTP\r\n\r\n") as other:
        assert rest(other).startswith(b"HTTP/1.1 400 Bad Request")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("sent", [HALF, BODY], ids=["half a head", "half a body"])
def test_more_half_open_requests_than_there_is_room_for_lock_nobody_out(sent: bytes) -> None:
    with serving(most=20) as served, ExitStack() as held:
        first = held.enter_context(served.raw(sent))
        for _ in range(60):
            held.enter_context(served.raw(sent))
        assert served.get("/healthz").startswith(b"HTTP/1.1 200 OK")
        assert len(served.server.server_state.connections) <= 20
        with suppress(ConnectionResetError):
            assert rest(first) == b""


def test_a_page_makes_no_room_for_half_open_requests() -> None:
    with serving(most=20) as served, ExitStack() as held:
        page = held.enter_context(served.page())
        for _ in range(60):
            held.enter_context(served.raw(HALF))
        page.send("nonsense")
        assert "not JSON" in str(page.recv())


def test_the_crowd_of_one_address_makes_room_before_another_address_does() -> None:
    with serving(most=20) as served, ExitStack() as held:
        other = held.enter_context(served.raw(HALF, source="127.0.0.2"))
        for _ in range(60):
            held.enter_context(served.raw(HALF))
        other.sendall(b"Connection: close\r\n\r\n")
        assert rest(other).startswith(b"HTTP/1.1 200 OK")


def test_answers_are_not_cut_for_a_crowd_and_the_crowd_stays_out() -> None:
    app = FastAPI()

    @app.get("/")
    async def slow() -> str:
        await asyncio.to_thread(may_end.wait)
        return "whole"

    may_end = threading.Event()
    with serving(app, most=4) as served, ExitStack() as held:
        asking = [held.enter_context(served.raw(CLOSING)) for _ in range(4)]
        eventually(lambda: len(served.server.server_state.tasks) == 4)
        with served.raw(CLOSING) as late, suppress(ConnectionResetError):
            assert rest(late) == b""
        may_end.set()
        assert all(b"whole" in rest(each) for each in asking)
        assert b"whole" in served.get("/")


def test_a_client_that_takes_nothing_of_its_answer_is_dropped() -> None:
    app, has_begun = FastAPI(), threading.Event()

    async def endless() -> StreamingResponse:
        async def zeros() -> AsyncIterator[bytes]:
            has_begun.set()
            while True:
                yield b"\0" * 65_536
                await asyncio.sleep(0)

        return StreamingResponse(zeros())

    app.add_api_route("/", endless, response_model=None)
    with serving(app, stall_seconds=0.5) as served:
        connections = served.server.server_state.connections
        with served.raw(CLOSING):
            eventually(has_begun.is_set)
            eventually(lambda: len(connections) == 0)


def test_there_is_a_file_for_every_connection() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < most_connections() <= limits.CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(before[1], most_connections() + limits.OTHER_FILES)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("a socket", "a socket", True),
    ],
)
def test_addresses_of_one_client(one: str, other: str, same: bool) -> None:
    assert (group(one) == group(other)) is same


@pytest.mark.parametrize(
    ("named", "client"),
    [((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.1",), "192.0.2.7"), (("127.0.0.0/8",), "192.0.2.7")],
)
def test_only_a_proxy_that_is_named_says_where_a_request_comes_from(named: tuple[str, ...], client: str) -> None:
    app = FastAPI()

    @app.get("/")
    async def who(request: Request) -> str:
        return request.client.host if request.client else ""

    with serving(app, proxies=named) as served:
        assert f'"{client}"'.encode() in served.get("/", "X-Forwarded-For: 192.0.2.7\r\n")
