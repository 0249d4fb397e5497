"""Open pages: what is left of those that go, who takes turns with whom, and how many there may be."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import HTTPConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.entrance.students import COOKIE, Students
from explorer.web.queue import RunQueue
from tests.web.serving import PATIENCE, Gate, Served, ask_for_run, eventually, said, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as served:
        yield served


def waiting(served: Served) -> int:
    queue: RunQueue = served.app.state.runs
    return sum(1 for _ in queue._behind())


def test_runs_of_pages_that_all_go_at_once_leave_the_queue(served: Served) -> None:
    with ExitStack() as pages:
        ask_for_run(pages.enter_context(served.page(served.new_student())))
        leaving = []
        for _ in range(40):
            page = pages.enter_context(served.page(served.new_student()))
            ask_for_run(page)
            said(page, "queued")
            leaving.append(page)
        eventually(lambda: waiting(served) == 40)
        with ThreadPoolExecutor(8) as at_once:
            list(at_once.map(ClientConnection.close, leaving))
        eventually(lambda: waiting(served) == 0)


def test_a_run_whose_event_cannot_be_sent_is_waited_for_by_nobody() -> None:
    """What a connection that broke shows first may be a send that fails, long before a receive does."""
    app = create_app()
    app.state.runs = queue = RunQueue(Gate(), 1)
    order = '{"type": "run", "run": 1, "edit": 1, "text": "a model", "on": "cpu"}'
    scope = {
        "type": "websocket",
        "path": "/ws",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
        "subprotocols": [],
    }

    async def main() -> None:
        incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        incoming.put_nowait({"type": "websocket.connect"})
        incoming.put_nowait({"type": "websocket.receive", "text": order})
        failed = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "websocket.send":
                failed.set()
                raise OSError

        queue.submit("somebody else", {"text": "runs"})
        page = asyncio.create_task(app(scope, incoming.get, send))
        async with asyncio.timeout(60):
            await failed.wait()
            while queue._line:
                await asyncio.sleep(0.01)
        incoming.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await page
        await queue.close()

    asyncio.run(main())


def test_an_event_for_a_connection_that_the_server_has_ended_is_dropped(served: Served) -> None:
    """As after a ping without an answer: the server closes, and a run's next event comes before anybody is told."""
    with served.page(served.new_student()) as page:
        ask_for_run(page)
        said(page, "started")
        (session,) = served.app.state.sessions
        (connection,) = [each for each in served.server.server_state.connections if hasattr(each, "keepalive_timeout")]

        async def end() -> None:
            connection.keepalive_timeout()
            await session._say_if_there({"event": "progress"})
            await session._close()

        loop = connection.loop
        asyncio.run_coroutine_threadsafe(end(), loop).result(PATIENCE)
        with pytest.raises(ConnectionClosed):
            said(page, "result")
    eventually(lambda: not served.app.state.sessions)


def test_pages_of_one_student_take_turns_as_one(served: Served) -> None:
    anna, ben = served.new_student(), served.new_student()
    with ExitStack() as pages:
        first, second, third, other = (pages.enter_context(served.page(who)) for who in (anna, anna, anna, ben))
        for page in (first, second, third, other):
            ask_for_run(page)
            said(page, "queued", "started")
        ask_for_run(other, run=2)  # which his first makes way for
        assert said(other, "failed")["kind"] == "superseded"
        assert said(other, "queued")["position"] == 1


def test_idle_pages_lock_nobody_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOCKETS", 5)
    with ExitStack() as pages:
        busy = pages.enter_context(served.page(served.new_student()))
        ask_for_run(busy)
        idle = [pages.enter_context(served.page(served.new_student())) for _ in range(4)]
        newest = pages.enter_context(served.page(served.new_student()))
        ask_for_run(newest)
        assert said(newest, "queued")
        with pytest.raises(ConnectionClosed) as closed:
            idle[0].recv(60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013
        ask_for_run(idle[1])
        assert said(idle[1], "queued")
        served.gate.open()
        assert said(busy, "result", "failed")["event"] == "result"


def test_pages_that_all_have_runs_keep_their_places(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOCKETS", 3)
    with ExitStack() as pages:
        for _ in range(3):
            page = pages.enter_context(served.page(served.new_student()))
            ask_for_run(page)
            said(page, "queued", "started")
        with pytest.raises(InvalidStatus), served.page():
            pass


def test_one_student_has_so_many_pages_and_costs_the_others_none(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOCKETS_PER_STUDENT", 3)
    anna, ben = served.new_student(), served.new_student()
    with ExitStack() as pages:
        his = pages.enter_context(served.page(ben))
        hers = [pages.enter_context(served.page(anna)) for _ in range(20)]
        eventually(lambda: len(served.app.state.sessions) == 4)
        ask_for_run(his)
        assert said(his, "started")
        ask_for_run(hers[-1])
        assert said(hers[-1], "queued")["position"] == 1


def test_pages_without_a_cookie_are_one_address(served: Served) -> None:
    with ExitStack() as pages:
        for number in range(limits.RUNS_WAITING_PER_STUDENT + 1):  # one of them runs
            page = pages.enter_context(served.page())
            ask_for_run(page)
            assert said(page, "started" if number == 0 else "queued")
        last = pages.enter_context(served.page())
        ask_for_run(last)
        assert said(last, "failed")["kind"] == "refused"
        student = pages.enter_context(served.page(served.new_student()))
        ask_for_run(student)
        assert said(student, "queued")["position"] == 1


def test_a_page_brings_a_cookie_and_keeps_it(client: TestClient) -> None:
    client.cookies.clear()  # other tests have asked for the page as well
    given = client.get("/").cookies[COOKIE]
    assert "set-cookie" not in client.get("/").headers
    assert client.get("/", headers={"cookie": f"{COOKIE}={given}x"}).cookies[COOKIE] != given


def connection(cookie: str, address: str = "192.0.2.1", scheme: str = "http") -> HTTPConnection:
    headers = [(b"cookie", f"{COOKIE}={cookie}".encode())] if cookie else []
    return HTTPConnection({"type": "http", "scheme": scheme, "path": "/", "headers": headers, "client": (address, 1)})


def test_a_student_is_known_by_what_this_server_signed() -> None:
    ours, others = Students(), Students()
    cookie = ours.new_cookie(connection("")).partition("=")[2].partition(";")[0]
    assert ours.of(connection(cookie)) == ours.of(connection(cookie, "192.0.2.2")) != ours.of(connection(""))
    for false in ("", ".", "anna", "anna.", "ännä.é", cookie[:-1], f"x{cookie}"):
        assert ours.of(connection(false)) == "address 192.0.2.1"
        assert ours.is_stale(connection(false)) is bool(false)
    assert others.is_stale(connection(cookie))


def test_a_cookie_is_for_this_server_alone() -> None:
    given = Students().new_cookie(connection(""))
    assert "HttpOnly" in given
    assert "SameSite=Lax" in given
    assert "Secure" not in given
    assert "Secure" in Students().new_cookie(connection("", scheme="https"))


def test_sigterm_lets_a_run_end_and_takes_no_more(served: Served) -> None:
    assert served.get("/readyz").startswith(b"HTTP/1.1 200")
    with served.page(served.new_student()) as runs, served.page(served.new_student()) as waits:
        ask_for_run(runs)
        said(runs, "started")
        ask_for_run(waits)
        said(waits, "queued")
        served.server.handle_exit(signal.SIGTERM, None)
        assert "about to stop" in said(waits, "failed")["message"]
        assert served.get("/readyz").startswith(b"HTTP/1.1 503")
        assert served.get("/healthz").startswith(b"HTTP/1.1 200")
        ask_for_run(waits, run=2)
        assert "about to stop" in said(waits, "failed")["message"]
        served.gate.open()
        assert said(runs, "result", "failed")["event"] == "result"
        with pytest.raises(ConnectionClosed):
            said(runs, "none that there is")


def test_ctrl_c_waits_for_no_run(served: Served) -> None:
    with served.page() as runs:
        ask_for_run(runs)
        said(runs, "started")
        served.server.handle_exit(signal.SIGINT, None)
        with pytest.raises(ConnectionClosed):
            said(runs, "result")
