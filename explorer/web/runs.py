"""Runs over the WebSocket `/ws` (the page) and over `POST /api/run` (scripts): both through one fair queue."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response, StreamingResponse

from explorer.runtime.data.graphs import GRAPH_PRESETS
from explorer.runtime.data.lists import available_lists
from explorer.runtime.data.triples import InputError, available
from explorer.runtime.runs import events
from explorer.web import limits
from explorer.web.compiling import refusal
from explorer.web.messages import CancelOrder, MessageError, RunMessage, RunOrder, parse_body, parse_order
from explorer.web.protection import same_origin
from explorer.web.queue import Job, RunQueue

router = APIRouter()

NDJSON = "application/x-ndjson"
_STATUS = {"error": 422, "refused": 422, "memory": 422, "timeout": 504, "crashed": 500, "cancelled": 499}
_TOO_LARGE, _POLICY, _TRY_LATER = 1009, 1008, 1013
"""WebSocket close codes of RFC 6455 and its registry."""


async def run_request(message: RunMessage, data_dir: Path | None) -> dict[str, Any]:
    """What a worker is asked to run. Raises MessageError for data that the server does not offer.

    The names that are offered are the only ones let through: a worker would open any other as a path.
    """
    try:
        offered = await asyncio.to_thread(lambda: [*available(data_dir), *available_lists(data_dir)])
    except InputError as error:
        raise MessageError(f"{error}.") from None
    names = list(dict.fromkeys([*(entry["name"] for entry in offered), *GRAPH_PRESETS]))
    if message.data and message.data not in names:
        raise MessageError(f"There is no data set '{message.data}' here; there are {', '.join(names)}.")
    fields = RunMessage.model_dump(message, include=set(RunMessage.model_fields))
    return {**fields, "data_dir": None if data_dir is None else str(data_dir)}


@router.post("/api/run")
async def run(request: Request) -> Response:
    """Run a model: the result's JSON, or every event as a line of JSON where `Accept` asks for x-ndjson."""
    try:
        message = parse_body(await request.body(), RunMessage)
        asked = await run_request(message, request.app.state.data_dir)
    except MessageError as error:
        return JSONResponse({**refusal(str(error)), "kind": "refused", "message": str(error)}, 422)
    queue: RunQueue = request.app.state.runs
    if queue.full:
        return JSONResponse(refusal("The queue of runs is full.", "Try again later."), 503, {"Retry-After": "10"})
    job = queue.submit(_address(request), asked, limits.RUNS_WAITING_PER_ADDRESS)
    if NDJSON in request.headers.get("accept", ""):
        return StreamingResponse(_lines(queue, job), media_type=NDJSON)
    last = await _last_event(queue, job, request)
    status = 200 if last["event"] == "result" else _STATUS.get(last["kind"], 500)
    return JSONResponse(events.outcome(last), status)


def _address(request: Request) -> str:
    """The session of a script: all that comes from one address takes turns as one."""
    return f"address {request.client.host if request.client else 'unknown'}"


async def _lines(queue: RunQueue, job: Job) -> AsyncIterator[str]:
    try:
        async for event in job.events():
            yield json.dumps(event) + "\n"
    finally:
        queue.cancel(job)


async def _last_event(queue: RunQueue, job: Job, request: Request) -> events.Event:
    """Wait for the end of a job, and stop it if the client goes away first."""

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(0.25)
        queue.cancel(job)

    watcher = asyncio.create_task(watch())
    last: events.Event = {}
    try:
        async for event in job.events():
            last = event
    finally:
        watcher.cancel()
    return last


@router.websocket("/ws")
async def socket(websocket: WebSocket) -> None:
    """A page's runs: orders come in, events go out, each with the order's `run` and `edit`."""
    state = websocket.app.state
    if not same_origin(websocket.headers):
        await websocket.close(_POLICY)
        return
    if len(state.sessions) >= limits.SOCKETS:
        await websocket.close(_TRY_LATER)
        return
    await websocket.accept()
    session = Session(websocket, state.runs, state.data_dir)
    state.sessions.add(session)
    try:
        with suppress(WebSocketDisconnect):
            await session.serve()
    finally:
        state.sessions.discard(session)
        session.end()


class Session:
    """One open page: the jobs it has asked for, and the tasks that send their events."""

    def __init__(self, websocket: WebSocket, queue: RunQueue, data_dir: Path | None) -> None:
        self._websocket = websocket
        self._queue = queue
        self._data_dir = data_dir
        self._name = secrets.token_hex(8)
        self._jobs: dict[int, Job] = {}
        self._senders: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Take orders until the page goes away or says something that is no order's size."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text") or ""
            if len(text) > limits.BODY_BYTES:
                await self._websocket.close(_TOO_LARGE)
                return
            await self._take(text)

    def end(self) -> None:
        """Stop everything that the page asked for."""
        for job in list(self._jobs.values()):
            self._queue.cancel(job)
        for sender in self._senders:
            sender.cancel()

    async def _take(self, text: str) -> None:
        try:
            order = parse_order(text)
        except MessageError as error:
            await self._websocket.send_json(events.failed("refused", str(error)))
            return
        if isinstance(order, CancelOrder):
            if order.run in self._jobs:
                self._queue.cancel(self._jobs[order.run])
            return
        await self._start(order)

    async def _start(self, order: RunOrder) -> None:
        labels = {"run": order.run, "edit": order.edit}
        try:
            request = await run_request(order, self._data_dir)
        except MessageError as error:
            await self._websocket.send_json({**events.failed("refused", str(error)), **labels})
            return
        if order.run in self._jobs:
            # The number now means the new run; the older would otherwise go on with nobody able to stop it.
            self._queue.cancel(self._jobs[order.run])
        job = self._queue.submit(self._name, request)
        self._jobs[order.run] = job
        sender = asyncio.create_task(self._send(job, labels))
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send(self, job: Job, labels: dict[str, int]) -> None:
        with suppress(WebSocketDisconnect):
            async for event in job.events():
                await self._websocket.send_json({**event, **labels})
        if self._jobs.get(labels["run"]) is job:
            del self._jobs[labels["run"]]
