"""A real server on a free port, in a thread of this process and with no workers: what runs waits until it is let go."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from websockets.sync.client import ClientConnection, connect

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web.app import create_app
from explorer.web.compiling import CompileService
from explorer.web.entrance.connections import Doorkeeper, drop_stalled
from explorer.web.entrance.students import COOKIE
from explorer.web.queue import RunQueue
from explorer.web.server import Server

PATIENCE = 60.0
"""Seconds within which anything that is waited for happens, also on a machine under load."""


class Gate:
    """Stands in for the workers: runs begin, and end once all are let go."""

    warm = True
    pids = ()

    def __init__(self) -> None:
        self._open = threading.Event()

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        yield events.started("cpu", "test")
        while not self._open.is_set():
            await asyncio.sleep(0.01)
        yield events.result({"text": request["text"]})

    def open(self) -> None:
        self._open.set()


class NoWorkers:
    """Stands in for processes that compile or run: it refuses every text."""

    warm = True
    pids = ()
    retired = 0

    def __init__(self, role: str = "", **settings: Any) -> None:
        pass

    def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        yield events.failed("refused", "There is no compiler.")


@dataclass
class Served:
    """Where a server answers, and its parts."""

    port: int
    server: Server
    app: FastAPI
    gate: Gate

    def raw(self, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        """A connection on which something was sent."""
        found = socket.create_connection(("127.0.0.1", self.port), PATIENCE, (source, 0))
        found.sendall(sent)
        return found

    def get(self, path: str, headers: str = "") -> bytes:
        """All that the server answers to one request."""
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        with self.raw(head.encode()) as asked:
            return rest(asked)

    def page(self, cookie: str | None = None) -> AbstractContextManager[ClientConnection]:
        """A page's WebSocket."""
        headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie is not None else {}
        return connect(f"ws://127.0.0.1:{self.port}/ws", additional_headers=headers, open_timeout=PATIENCE)

    def new_student(self) -> str:
        """A cookie that this server gives to a browser with one that it does not know."""
        with self.page("of another server") as page:
            assert page.response is not None
            return page.response.headers["set-cookie"].partition("=")[2].partition(";")[0]


@contextmanager
def serving(
    app: FastAPI | None = None,
    *,
    most: int = 1000,
    head_seconds: float = PATIENCE,
    stall_seconds: float = PATIENCE,
    proxies: Collection[str] = (),
) -> Iterator[Served]:
    gate = Gate()
    app = app or create_app()
    app.state.runs = RunQueue(gate, 1)
    app.state.runners = app.state.compilers = app.state.late = gate
    app.state.compiler = CompileService(NoWorkers(), 1)
    server = Server(app, Doorkeeper(most, head_seconds), proxies)
    server.config.lifespan = "off"  # which would start workers
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        drop_stalled(listener, stall_seconds)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Served(listener.getsockname()[1], server, app, gate)
        finally:
            gate.open()
            server.should_exit = True
            thread.join()


def rest(connection: socket.socket) -> bytes:
    """What comes until the other side ends a connection."""
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.02)


def ask_for_run(page: ClientConnection, text: str = "a model", run: int = 1) -> None:
    page.send(json.dumps({"type": "run", "run": run, "edit": run, "text": text, "on": "cpu"}))


def said(page: ClientConnection, *kinds: str) -> dict[str, Any]:
    """The next event of one of these kinds."""
    while True:
        event: dict[str, Any] = json.loads(page.recv(PATIENCE))
        if event["event"] in kinds:
            return event
