"""Links, histories and runs over a restart of the server, for two students, and with a store that fails."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession
from websockets.sync.client import ClientConnection, connect

from explorer.queue.job import Job
from explorer.store.store import Store
from explorer.web.app import create_app
from explorer.web.entrance.students import COOKIE
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.token import Instructor
from explorer.web.keeping import keeper
from explorer.web.keeping.keeper import Keeper
from explorer.web.queue import RunQueue
from tests.web.held import without_processes
from tests.web.serving import PATIENCE, Gate, eventually
from tests.web.test_socket import LONG, order


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def server(path: Path | None, classroom: Classroom | None = None) -> Iterator[TestClient]:
    """A client of a server with that store, whose runs wait for a gate."""
    store = None if path is None else Store(str(path))
    app = create_app(hosts=None, concurrent_runs=1, store=store, classroom=classroom)
    with without_processes(), TestClient(app) as client:
        app.state.gate = Gate()
        app.state.runs = RunQueue(app.state.gate, 1)
        yield client
        app.state.gate.open()


def ask(page: WebSocketTestSession, **order: Any) -> None:
    page.send_text(json.dumps({"edit": 1, **order}))


def told(page: WebSocketTestSession, *kinds: str) -> dict[str, Any]:
    """The next event of one of these kinds."""
    while True:
        event: dict[str, Any] = page.receive_json()
        if event["event"] in kinds:
            return event


def entries(client: TestClient, what: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/{what}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


def test_a_restart_keeps_texts_links_and_what_became_of_runs(path: Path, transe: str) -> None:
    with server(path) as client:
        client.get("/")
        cookie = client.cookies[COOKIE]
        assert "data-problem" not in client.post("/compile", data={"edit": "2", "text": transe}).text
        eventually(lambda: [each["text"] for each in entries(client, "history")] == [transe])
        shared = client.post("/api/share", json={"text": transe, "sizes": {"D": 33}, "panes": [{"stage": "dlc"}]})
        link = shared.json()["path"]
        with client.websocket_connect("/ws") as page:
            ask(page, type="run", run=1, text=transe, on="cpu", data="")
            at = told(page, "started")["at"]
            assert entries(client, "runs")[0]["state"] in ("queued", "running")
            client.app.state.gate.open()  # type: ignore[attr-defined]
            told(page, "result")
    with server(path) as client:
        client.cookies.set(COOKIE, cookie)
        assert [(each["text"], each["state"]) for each in entries(client, "history")] == [(transe, "ran")]
        assert [each["state"] for each in entries(client, "runs")] == ["ended"]
        with client.websocket_connect("/ws") as page:
            ask(page, type="resume", run=7, at=at)
            assert told(page, "result", "failed")["text"] == transe
        opened = client.get(link)
        assert opened.status_code == 200
        assert "&#34;D&#34;: 33" in opened.text
        assert client.delete("/api/history").status_code == 204
        assert entries(client, "history") == entries(client, "runs") == []


@contextmanager
def process(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`explorer serve` with that store, and where it answers; it is killed at the end (SIGKILL)."""
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--store", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().split()[3].removeprefix("http://").rstrip("/")
        finally:
            server.kill()


def said(page: ClientConnection, *kinds: str) -> dict[str, Any]:
    while True:
        event: dict[str, Any] = json.loads(page.recv(PATIENCE))
        if event["event"] in kinds:
            return event


def test_runs_that_a_killed_server_had_are_said_to_be_lost_to_their_student_alone(path: Path) -> None:
    places = []
    with ExitStack() as pages:
        server, host = pages.enter_context(process(path))
        with httpx.Client(base_url=f"http://{host}", timeout=PATIENCE) as browser:
            browser.get("/")
            known = browser.cookies[COOKIE]
        for number in range(3):
            headers = {"Cookie": f"{COOKIE}={known}"}
            page = pages.enter_context(connect(f"ws://{host}/ws", additional_headers=headers, open_timeout=PATIENCE))
            page.send(json.dumps(order(number, **{**LONG, "data": "WN18"})))
            places.append(said(page, "queued", "progress", "started")["at"])
        server.kill()
    with process(path) as (_, host):
        for cookie, told_of in ((known, ("restarted before",)), (None, ("knows nothing",))):
            headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
            with connect(f"ws://{host}/ws", additional_headers=headers, open_timeout=PATIENCE) as page:
                for number, at in enumerate(places):
                    page.send(json.dumps({"type": "resume", "run": number, "at": at}))
                    event = said(page, "failed", "result")
                    assert event["event"] == "failed"
                    assert any(part in event["message"] for part in told_of)


def test_a_run_is_written_before_its_page_is_told(path: Path) -> None:
    async def accept() -> None:
        store = Store(str(path))
        keeper = Keeper(store, False, lambda _: None)
        await keeper.open()
        record = await keeper.accept(Job("student a", {}), {"text": "a model", "on": "cpu"})
        (run,) = await store.items("student a", "run")
        assert (run.id, run.state) == (record.id, "queued")
        keeper.left(record)
        await keeper.close()

    asyncio.run(accept())


def test_two_students_see_their_own(path: Path, transe: str) -> None:
    with server(path) as client:
        for text in (transe, transe.replace("TransE", "Other")):
            client.cookies.clear()
            client.get("/")
            client.post("/compile", data={"edit": "2", "text": text})
            eventually(lambda: bool(entries(client, "history")))
            assert [each["text"] for each in entries(client, "history")] == [text]
            assert entries(client, "runs") == []


@pytest.mark.parametrize("name", ["x", "%00", "%27%20OR%201=1", "..%2f..%2fetc", "%F0%9F%98%80", "a" * 5_000])
def test_links_that_lead_nowhere(path: Path, name: str) -> None:
    with server(path) as client:
        assert client.get(f"/s/{name}").status_code == 404
        assert client.get(f"/api/runs/{name}").status_code == 404


def test_what_is_no_link_is_refused(path: Path) -> None:
    with server(path) as client:
        for body in ({}, {"text": 1}, {"text": "a", "more": 1}, {"text": "a", "panes": [{"stage": "x"}] * 7}):
            assert client.post("/api/share", json=body).status_code == 422
        assert client.post("/api/share", content=b'{"text": "\\ud800"}').status_code == 422
        assert client.post("/api/share", json={"text": "\N{SNOWMAN}" * 70_000}).status_code == 413


def test_without_a_store_nothing_is_kept() -> None:
    with server(None) as client:
        assert client.post("/api/share", json={"text": "a"}).status_code == 404
        assert client.get("/s/x").status_code == 404
        assert "data-links" not in client.get("/").text


def test_a_store_that_fails_is_told_and_the_server_goes_on(path: Path, transe: str) -> None:
    path.write_bytes(b"no database at all, " * 100)
    with server(path) as client:
        assert client.get("/").status_code == 200
        assert client.post("/compile", data={"edit": "2", "text": transe}).status_code == 200
        assert client.post("/api/share", json={"text": "a"}).status_code == 503
        assert client.get("/s/x").status_code == 503
        assert client.get("/api/history").status_code == 503
        assert client.get("/readyz").json()["store"] == "The store's file is no database."
        with client.websocket_connect("/ws") as page:
            ask(page, type="run", run=1, text=transe, on="cpu", data="")
            assert "at" not in told(page, "started")


def test_who_gave_the_code_need_not_give_it_again_unless_it_changed(path: Path) -> None:
    with server(path, Classroom(Instructor(), "the code", 2)) as client:
        assert client.get("/api/history").status_code == 403
        client.post("/", data={"code": "the code"})
        cookie = client.cookies[COOKIE]
    for code, status in (("the code", 200), ("another", 403)):
        with server(path, Classroom(Instructor(), code, 2)) as client:
            client.cookies.set(COOKIE, cookie)
            assert client.get("/api/history").status_code == status


@pytest.mark.parametrize(("tidies", "times"), [(True, 1), (False, 0)])
def test_one_of_several_processes_tidies(path: Path, monkeypatch: pytest.MonkeyPatch, tidies: bool, times: int) -> None:
    monkeypatch.setattr(keeper, "_WRITE_SECONDS", 0.01)
    store, tidied, rounds = Store(str(path)), [], []
    write = Keeper._write_texts

    async def tidy() -> None:
        tidied.append(True)

    async def counted(self: Keeper, store: Store) -> None:
        rounds.append(True)  # and the one before it is done
        await write(self, store)

    async def main() -> None:
        found = Keeper(store, True, lambda _: None, tidies)
        await found.open()
        found.note_text("student a", "a text", {})
        while len(rounds) < 4 or not await store.items("student a", "history"):
            await asyncio.sleep(0.01)
        await found.close()

    monkeypatch.setattr(store, "tidy", tidy)
    monkeypatch.setattr(Keeper, "_write_texts", counted)
    asyncio.run(main())
    assert len(tidied) == times
