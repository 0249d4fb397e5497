"""Servers of one class over one queue, in a thread of this process, and a worker whose runs wait to be let go."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from explorer.queue.broker import Broker
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web.app import create_app
from explorer.web.entrance.connections import Doorkeeper
from explorer.web.instructor import token
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.token import Instructor
from explorer.web.server import Server
from tests.queue.holding import worker_of
from tests.web.instructor.classes import CODE, TOKEN, Class, browser
from tests.web.serving import PATIENCE, Gate, NoWorkers, Served, eventually

OURS = Instructor(TOKEN)


class Runs(Gate):
    """What the worker does: runs end once all are let go; one with a reference is right where it says the same."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Mapping[str, Any]] = []

    async def stream_or_lose(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        self.asked.append(request)
        if request.get("expected"):
            yield events.result({"matches_reference": request["text"] == request["expected"], "message": "Not equal."})
            return
        async for event in self.stream(request, seconds):
            yield event


@dataclass
class Taught:
    """The class at each of its servers, and what its worker does."""

    at: list[Class]
    runs: Runs


@contextmanager
def servers_of(
    new_broker: Callable[..., Broker],
    count: int = 2,
    code: str | None = CODE,
    places: int = 3,
    hand_ins: Path | None = None,
    instructor: Instructor | None = OURS,
) -> Iterator[Taught]:
    """Servers with a class, and a worker; the instructor's browser, where there is one, has been let in at each."""
    runs, brokers = Runs(), [new_broker() for _ in range(count + 1)]
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=100) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorer.web.app.WorkerPool", NoWorkers)
        patch.setattr("explorer.queue.client.LEAD_SECONDS", PATIENCE)  # a queue that is only slow is not away
        apps = [
            create_app(broker=broker, classroom=Classroom(instructor, code, places, hand_ins)) for broker in brokers[1:]
        ]
        servers = [Server(app, Doorkeeper(1000)) for app in apps]

        async def serve() -> None:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(worker_of(brokers[0], runs))
                await asyncio.gather(
                    *(server.serve([listener]) for server, listener in zip(servers, listeners, strict=True))
                )

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            eventually(lambda: all(server.started for server in servers))
            with ExitStack() as stack:
                yield Taught([_class(stack, *each, runs) for each in zip(listeners, servers, apps, strict=True)], runs)
        finally:
            runs.open()
            for server in servers:
                server.should_exit = True
            thread.join()


def _class(stack: ExitStack, listener: socket.socket, server: Server, app: Any, runs: Runs) -> Class:
    served = Served(listener.getsockname()[1], server, app, runs)
    desk: httpx.Client = stack.enter_context(browser(served))
    let_in = desk.get(f"{token.PATH}?token={TOKEN}").status_code
    assert let_in == (404 if served.app.state.classroom.instructor is None else 303)
    return Class(served, desk)
