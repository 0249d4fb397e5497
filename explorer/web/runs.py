"""Runs over the WebSocket `/ws` (the page) and over `POST /api/run` (scripts): both through one fair queue."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.datastructures import State
from starlette.websockets import WebSocketState

from explorer.queue.job import Job, Queue
from explorer.runtime.data.offered import offered_names
from explorer.runtime.data.triples import InputError
from explorer.runtime.runs import events
from explorer.runtime.targets.table import TARGETS
from explorer.web import limits
from explorer.web.description import answers
from explorer.web.description.openapi import takes
from explorer.web.dropped.files import DROPPED
from explorer.web.entrance.protection import same_origin
from explorer.web.entrance.students import Students, address
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.sharing import Sharing
from explorer.web.keeping.keeper import PLACE, Keeper, Record
from explorer.web.messages import (
    CancelOrder,
    MessageError,
    ResumeOrder,
    RunMessage,
    RunOrder,
    parse_body,
    parse_order,
)

router = APIRouter(responses=answers.ELSEWHERE)

NDJSON = "application/x-ndjson"
_STATUS = {"error": 422, "refused": 422, "memory": 422, "timeout": 504, "crashed": 500, "cancelled": 499, "away": 503}
_LOST, _POLICY, _TOO_LARGE, _RESTARTED, _TRY_LATER = 1006, 1008, 1009, 1012, 1013
"""WebSocket close codes of RFC 6455 and its registry."""
_NOT_IN_CLASS = 4403
"""Our own: the page loads again and asks for the class's code."""


async def run_request(message: RunMessage, state: State) -> dict[str, Any]:
    """What a worker is asked to run. Raises MessageError for data that the server does not offer, and for a peer that
    it does not."""
    if message.torch_compile and state.compile_refused:
        raise MessageError(f"torch.compile is not on offer here: {state.compile_refused}.")
    fields = RunMessage.model_dump(message, include=set(RunMessage.model_fields) - {"torch_compile"})
    if message.tune is not None:
        held = sorted(state.classroom.locks.options)
        fields["tune"] = {**message.tune.model_dump(), "seconds": limits.RUN_SECONDS, "held": held}
    # Where nothing is compiled beside it, a run has no more time than any.
    compiles = message.torch_compile and message.tune is None and "peers" in TARGETS[message.on].reads
    fields["compile_seconds"] = limits.PEER_COMPILE_SECONDS if compiles else None
    dropped: tuple[str, str, int] | None = state.dropped.find(message.data)
    if dropped is not None:
        return {**fields, "data_dir": dropped[1]}
    data_dir: Path | None = state.data_dir
    try:
        names = await asyncio.to_thread(offered_names, data_dir)
    except InputError as error:
        raise MessageError(f"{error}.") from None
    if message.data and message.data not in names:
        raise MessageError(_unknown(message.data, names))
    return {**fields, "data_dir": None if data_dir is None else str(data_dir)}


def _unknown(data: str, names: list[str]) -> str:
    if data.startswith(DROPPED):
        return "The file that was dropped is no longer kept: drop it again."
    return f"There is no data set '{data}' here; there are {', '.join(names)}."


EXAMPLE = {
    "text": "op Sum(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n",
    **{"on": "cpu", "data": "RM1:L0", "batch": 2, "repeat": 1, "peers": False},
}
_LINES = "An event a line: what `Event` is in `/api/messages.json`, but for `run`, `edit` and `at`."
_FAILED = {
    422: "The body is no such message, or what it asks for is no model, cannot be run, or needs more than a run may.",
    500: "The process that ran it has ended.",
    503: "The queue is full or cannot be reached, or the server is about to end.",
    504: "The run took longer than it may.",
}


@router.post(
    "/api/run",
    openapi_extra=takes(RunMessage, EXAMPLE),
    responses={
        200: {
            "model": answers.RunResult | answers.ReplayedResult,
            "content": {NDJSON: {"schema": {"type": "string", "description": _LINES}}},
        },
        **answers.BODIES,
        **answers.LEFT,
        **{status: {"model": answers.RunFailure, "description": about} for status, about in _FAILED.items()},
    },
)
async def run(request: Request) -> Response:
    """Run a model: the result's JSON, or every event as a line of JSON where `Accept` asks for x-ndjson."""
    try:
        message = parse_body(await request.body(), RunMessage)
        if told := request.app.state.classroom.locks.told(
            {**(message.against.options if message.against else {}), **message.options}
        ):
            raise MessageError(told)
        asked = await run_request(message, request.app.state)
    except MessageError as error:
        return JSONResponse(events.outcome(events.failed("refused", str(error))), 422)
    queue: Queue = request.app.state.runs
    session = address(request)  # a script has no cookie, and all that comes from one address takes turns as one
    if not queue.taking or not queue.has_room(session):
        full = events.failed("refused", "The queue of runs is full.", "Try again later.")
        return JSONResponse(events.outcome(full), 503, {"Retry-After": "10"})
    job = queue.submit(session, asked)
    if NDJSON in request.headers.get("accept", ""):
        return StreamingResponse(_lines(queue, job), media_type=NDJSON)
    last = await _last_event(queue, job, request)
    status = 200 if last["event"] == "result" else _STATUS.get(last["kind"], 500)
    return JSONResponse(events.outcome(last), status)


async def _lines(queue: Queue, job: Job) -> AsyncIterator[str]:
    try:
        async for event in job.events():
            yield json.dumps(event) + "\n"
    finally:
        queue.cancel(job)


async def _last_event(queue: Queue, job: Job, request: Request) -> events.Event:
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
    students: Students = state.students
    sharing: Sharing = state.sharing
    if not await sharing.may_enter(websocket):
        await websocket.accept()
        await websocket.close(_NOT_IN_CLASS)
        return
    if students.is_stale(websocket):
        # Of a server before this one: the page comes back by itself, with the new one.
        await websocket.accept(headers=[(b"set-cookie", students.new_cookie(websocket).encode())])
        await websocket.close(_RESTARTED)
        return
    session = Session(websocket, students.of(websocket), state)
    if not _find_room(session, state.sessions):
        await websocket.close(_TRY_LATER)
        return
    state.sessions.add(session)
    try:
        with suppress(WebSocketDisconnect):
            await websocket.accept()
            await session.serve()
    finally:
        state.sessions.discard(session)
        session.end()


def _find_room(new: Session, sessions: set[Session]) -> bool:
    """Whether there is room for one more open page, where need be that of one that has been idle for longest: of the
    student's own, who has as many as one may have open, or of all."""
    own = [session for session in sessions if session.student == new.student]
    if len(own) < limits.SOCKETS_PER_STUDENT and len(sessions) < limits.SOCKETS:
        return True
    crowd = own if len(own) >= limits.SOCKETS_PER_STUDENT else sessions
    oldest = min((session for session in crowd if session.is_idle), key=lambda idle: idle.last_asked, default=None)
    if oldest is None:
        return False
    sessions.discard(oldest)
    oldest.leave()
    return True


class Session:
    """One open page of a student: the jobs it has asked for, and the tasks that send their events."""

    def __init__(self, websocket: WebSocket, student: str, state: State) -> None:
        self.student = student
        self.last_asked = monotonic()
        """When it came, or gave its last order."""
        self._websocket = websocket
        self._state = state
        self._queue: Queue = state.runs
        self._classroom: Classroom = state.classroom
        self._keeper: Keeper = state.keeper
        self._name = secrets.token_hex(8)
        self._jobs: dict[int, Job] = {}
        self._senders: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that it asked for waits or runs."""
        return not self._jobs

    async def serve(self) -> None:
        """Take orders until the page goes away or says something that is no order's size."""
        self._classroom.note_page(self.student)
        if self._classroom.instructor is not None:
            await self._say(self._classroom.notice(self._queue))
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text") or ""
            if len(text) > limits.BODY_BYTES:
                with _unless_gone():
                    await self._websocket.close(_TOO_LARGE)
                return
            self.last_asked = monotonic()
            await self._take(text)

    def leave(self) -> None:
        """Make room for another page: this one comes back when there is some."""
        self._begin(self._close())

    def tell(self, event: events.Event) -> None:
        """Say what is of no run."""
        self._begin(self._say_if_there(event))

    def end(self) -> None:
        """Stop everything that the page asked for, but what it may come back for."""
        for job in list(self._jobs.values()):
            self._queue.leave(job)
        for sender in self._senders:
            sender.cancel()

    async def _take(self, text: str) -> None:
        try:
            order = parse_order(text)
        except MessageError as error:
            await self._say(events.failed("refused", str(error)))
            return
        if isinstance(order, CancelOrder):
            if order.run in self._jobs:
                self._queue.cancel(self._jobs[order.run])
            return
        if isinstance(order, ResumeOrder):
            await self._resume(order)
            return
        await self._start(order)

    async def _resume(self, order: ResumeOrder) -> None:
        if order.at.startswith(PLACE):
            became = await self._keeper.became(self.student, order.at)
            await self._say({**became, "run": order.run, "edit": order.edit})
            return
        job = self._queue.resume(self.student, order.at)
        self._follow(job, self._keeper.resumed(job), order.run, order.edit)

    async def _start(self, order: RunOrder) -> None:
        labels = {"run": order.run, "edit": order.edit}
        order.options = self._classroom.locks.open_options(order.options)
        if order.against is not None:
            order.against.options = self._classroom.locks.open_options(order.against.options)
        try:
            request = await run_request(order, self._state)
        except MessageError as error:
            await self._say({**events.failed("refused", str(error)), **labels})
            return
        if order.run in self._jobs:
            # The number now means the new run; the older would otherwise go on with nobody able to stop it.
            self._queue.cancel(self._jobs[order.run])
        self._classroom.note_run(self.student)
        job = self._queue.submit(self.student, request, self._name)
        try:
            record = await self._keeper.accept(job, request)
        except asyncio.CancelledError:
            self._queue.leave(job)
            raise
        self._follow(job, record, order.run, order.edit)

    def _follow(self, job: Job, record: Record, run: int, edit: int) -> None:
        """Send a job's events, under the page's own numbers of it."""
        self._jobs[run] = job
        self._begin(self._send(job, record, {"run": run, "edit": edit}))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._senders.add(task)
        task.add_done_callback(self._senders.discard)

    async def _send(self, job: Job, record: Record, labels: dict[str, int]) -> None:
        try:
            with suppress(WebSocketDisconnect):
                async for event in job.events():
                    await self._keeper.note(record, event)
                    at = job.at or record.place
                    await self._say({**event, **labels, **({"at": at} if at else {})})
        finally:
            # A job that has ended takes no notice; one whose page is gone would wait and run for nobody.
            self._queue.leave(job)
            self._keeper.left(record)
            if self._jobs.get(labels["run"]) is job:
                del self._jobs[labels["run"]]

    async def _say_if_there(self, event: events.Event) -> None:
        with suppress(WebSocketDisconnect):
            await self._say(event)

    async def _say(self, event: events.Event) -> None:
        """Send an event. Raises WebSocketDisconnect if the page is gone."""
        if self._websocket.application_state is not WebSocketState.CONNECTED:
            raise WebSocketDisconnect(_LOST)
        with _unless_gone():
            await self._websocket.send_json(event)

    async def _close(self) -> None:
        if self._websocket.application_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect), _unless_gone():
                await self._websocket.close(_TRY_LATER)


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Raises WebSocketDisconnect where uvicorn has ended the connection by itself, after what was no frame or when no
    answer came to a ping: until the next `receive` tells so, it takes all that is sent for a mistake."""
    try:
        yield
    except RuntimeError:
        raise WebSocketDisconnect(_LOST) from None
