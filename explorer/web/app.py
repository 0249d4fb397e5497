"""The application: routers, static files, protection, and the processes that compile and run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Container
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from explorer.checkout import CHECKOUT
from explorer.runtime.workers.pool import Role, WorkerPool
from explorer.store.store import Store
from explorer.web import api, health, limits, pages, runs
from explorer.web.compiling import CompileService, refusal
from explorer.web.description import openapi
from explorer.web.dropped import routes as dropping
from explorer.web.dropped.files import DroppedFiles
from explorer.web.entrance.protection import (
    LOOPBACK_NAMES,
    KnownHosts,
    RequestLimits,
    SecurityHeaders,
    security_headers,
)
from explorer.web.entrance.static import PackedFiles
from explorer.web.guide import routes as guide
from explorer.web.heat import routes as heat
from explorer.web.instructor import collecting, desk, students
from explorer.web.instructor.checking import Checker
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.sharing import Alone
from explorer.web.keeping import routes as keeping
from explorer.web.keeping.keeper import Keeper
from explorer.web.monitoring import page as monitoring
from explorer.web.monitoring.metrics import Metrics
from explorer.web.monitoring.requests import CountRequests
from explorer.web.monitoring.several import SharedNumbers, families
from explorer.web.panes.patches import ShownTexts
from explorer.web.queue import RunQueue
from explorer.web.reuse import ReuseService
from explorer.web.shared.among import Among, share
from explorer.web.shared.answers import SharedAnswers
from explorer.web.shared.file import SharedFile
from explorer.web.story import routes as story
from explorer.web.templates.opened import OpenedExamples

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from explorer.queue.broker import Broker
    from explorer.queue.client import StreamQueue
    from explorer.web.instructor.shared import Shared

NO_FILES = "This server's runs are done by workers elsewhere, which a file that is dropped here does not reach."


def create_app(
    data_dir: Path | None = None,
    *,
    hosts: Container[str] | None = LOOPBACK_NAMES,
    concurrent_runs: int | None = None,
    run_memory: int = limits.RUN_MEMORY,
    run_seconds: float = limits.RUN_SECONDS,
    compile_seconds: float = limits.COMPILE_SECONDS,
    runs_waiting: int = limits.RUNS_WAITING,
    broker: Broker | None = None,
    among: Among | None = None,
    classroom: Classroom | None = None,
    metrics_for: Collection[str] = (),
    store: Store | None = None,
    assistants: bool = False,
    compile_peers: bool = False,
    draw_ahead: bool = False,
    quiet: bool = False,
) -> FastAPI:
    """The web application.

    `data_dir` is a folder of data files that runs may use beside the presets; `hosts` are the names that requests may
    use for the server, None for any. A process for runs may take `run_memory` bytes, half of that for arrays. Runs
    are done by processes of this one, or by workers of `broker`'s queue. `among` says which of several processes this
    is, where the server has several. `classroom` is the class that it is for, where it is for one. `metrics_for` are
    the addresses and networks that `/metrics` answers besides this computer's own. What students do is kept in
    `store`, where there is one. `assistants` may ask at `/mcp`. With
    `compile_peers`, processes for runs may start the compilers of torch.compile. Where it is to `draw_ahead`, the page
    is drawn once for nobody: the first visitor does not wait until the compiler and the templates are loaded. What
    `quiet` workers write to stderr is dropped.
    """
    metrics = Metrics()
    taught = classroom or Classroom()
    shared = None if among is None else SharedFile(among.file)
    concurrent = concurrent_runs or limits.concurrent_runs()
    work = Work(data_dir, quiet, among, broker, compile_seconds, run_seconds, run_memory, concurrent, runs_waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _opened(app.state, work, shared), _assisting(app.state.assistant):
            # Where there are several processes, what they share closes before a drawing might have ended.
            drawing = asyncio.create_task(pages.draw_for_nobody(app)) if draw_ahead and among is None else None
            try:
                yield
            finally:
                if drawing is not None:
                    drawing.cancel()

    app = FastAPI(title="Embedding Compiler Explorer", openapi_url=None, lifespan=lifespan)
    app.state.data_dir = data_dir
    app.state.compile_refused = _compile_refused(compile_peers)
    app.state.metrics, app.state.metrics_for = metrics, tuple(metrics_for)
    _hold(app.state, work, taught, store)
    app.state.numbers = None
    if among is not None and shared is not None:
        taught.remember(among.secret)  # until the queue has told that of all servers
        app.state.numbers = SharedNumbers(shared, among.number, partial(families, metrics, app.state))
    _include_routers(app)
    app.state.assistant = _assistant(app) if assistants else None
    app.mount("/static", PackedFiles(directory=CHECKOUT / "static", check_dir=False), name="static")
    _answer_errors(app)
    app.add_middleware(GZipMiddleware, minimum_size=limits.PACKED_FROM_BYTES, compresslevel=limits.PACKING_LEVEL)
    app.add_middleware(RequestLimits, streamed={dropping.PATH})
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(CountRequests, metrics=metrics)
    return app


@dataclass(frozen=True)
class Work:
    """Where a server compiles and runs, and how much of it; `create_app` says what each is."""

    data_dir: Path | None
    quiet: bool
    among: Among | None
    broker: Broker | None
    compile_seconds: float
    run_seconds: float
    run_memory: int
    concurrent: int
    waiting: int

    def place(self, state: State, shared: SharedFile | None) -> None:
        """Put those that compile and run into the application's state; they are yet to be opened."""
        folders = [*([self.data_dir.resolve()] if self.data_dir else []), state.dropped.folder]
        new_pool = partial(WorkerPool, folders=folders, quiet=self.quiet)
        self._place_compilers(state, partial(new_pool, "compile", memory=limits.COMPILE_MEMORY), shared)
        state.reuse = ReuseService(partial(new_pool, "reuse", spare=0, memory=limits.RUN_MEMORY), self.run_seconds)
        if self.broker is not None:
            state.runs = state.runners = _over_streams(self.broker, self.run_seconds)
            state.sharing = _shared(self.broker, state.classroom, state)
            return
        role: Role = "run" if state.compile_refused else "run-compiling"
        state.runners = new_pool(role, concurrent=self.concurrent, memory=self.run_memory)
        ended = state.metrics.ran
        state.runs = RunQueue(state.runners, self.concurrent, self.run_seconds, self.waiting, ended=ended)

    def _place_compilers(self, state: State, new_pool: partial[WorkerPool], shared: SharedFile | None) -> None:
        at_once = max(1, share(limits.concurrent_compiles(), self.among))
        late_at_once = max(1, share(limits.concurrent_late(), self.among))
        state.compilers = new_pool(concurrent=at_once, spare=share(1, self.among))
        ends = limits.LATE_ENDS_SECONDS
        state.late = new_pool(concurrent=late_at_once, spare=0, niceness=limits.LATE_NICENESS, to_its_end=ends)
        state.compiler = CompileService(
            state.compilers,
            at_once,
            self.compile_seconds,
            late=state.late,
            late_concurrent=late_at_once,
            shared=None if shared is None else SharedAnswers(shared),
            ended=state.metrics.compiled,
        )


@asynccontextmanager
async def _opened(state: State, work: Work, shared: SharedFile | None) -> AsyncIterator[None]:
    """The application while it serves."""
    state.dropped.open()
    work.place(state, shared)
    await state.keeper.open()
    writing = None if state.numbers is None else asyncio.create_task(state.numbers.keep_writing())
    for pool in (state.compilers, state.late, state.runners):
        pool.open()
    await state.sharing.open()
    try:
        yield
    finally:
        for part in (state.checker, state.reuse, state.dropped, state.sharing, state.runs):
            await part.close()
        for part in (state.runners, state.late, state.compilers, state.keeper):
            await part.close()
        if writing is not None:
            writing.cancel()
        if shared is not None:
            await shared.close()


def _hold(state: State, work: Work, taught: Classroom, store: Store | None) -> None:
    """Put who is served, and what is kept of them, into the application's state."""
    state.classroom, state.students = taught, taught.admission
    is_first = work.among is None or work.among.number == 0
    over_queue = work.broker is not None
    state.keeper = Keeper(store, over_queue, taught.remember, tidies=is_first)
    state.sharing = Alone(taught)
    state.checker = Checker(token_hex(4) if over_queue else "")
    state.sessions = set()
    refused = NO_FILES if over_queue else ""
    state.dropped = DroppedFiles(partial(_reader, work.quiet), partial(_has_page, state), refused)
    state.shown_texts = ShownTexts()
    state.opened = OpenedExamples()


def _include_routers(app: FastAPI) -> None:
    described = health.router, monitoring.router, api.router, dropping.router, runs.router, keeping.router
    app.state.describe = cache(partial(openapi.describe, app.title, app.version, described))
    routers = *described, openapi.router, students.joining, pages.router, guide.router, story.router, heat.router
    for router in (*routers, students.router, collecting.students, desk.entry, desk.router, collecting.router):
        _answer_head(router)
        app.include_router(router)


def _answer_errors(app: FastAPI) -> None:
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, _not_allowed)
    app.add_exception_handler(students.NotInClassError, students.not_in_class)
    app.add_exception_handler(RequestValidationError, _misunderstood)


def _assistant(app: FastAPI) -> MCPServer:
    from explorer.web.assistants import mcp  # which needs a package that nothing else does

    assistant = mcp.endpoint(app)
    app.router.routes.extend(mcp.routes(assistant))
    return assistant


def _compile_refused(offered: bool) -> str:
    """Why runs are not timed beside torch.compile here; "" where they may be."""
    if not offered:
        return "it takes a server that was started with --compile-peers"
    from explorer.runtime.peers.compiled import hindrance

    return hindrance("cpu")


def _reader(quiet: bool, folders: list[Path]) -> WorkerPool:
    """Makes the process that reads a file which anyone may have dropped."""
    return WorkerPool("look", spare=0, memory=limits.COMPILE_MEMORY, quiet=quiet, folders=folders)


def _has_page(state: State, student: str) -> bool:
    return any(session.student == student for session in state.sessions)


def _assisting(assistant: MCPServer | None) -> AbstractAsyncContextManager[None]:
    if assistant is None:
        return nullcontext()
    from explorer.web.assistants import mcp

    return mcp.running(assistant)


def _over_streams(broker: Broker, run_seconds: float) -> StreamQueue:
    from explorer.queue.client import StreamQueue  # which needs redis-py

    return StreamQueue(broker, run_seconds, tell_seconds=limits.TELL_SECONDS)


def _shared(broker: Broker, classroom: Classroom, state: State) -> Shared:
    from explorer.queue.classes import ClassRecords
    from explorer.web.instructor.shared import Shared

    return Shared(ClassRecords(broker), classroom, state)


def _answer_head(router: APIRouter) -> None:
    """Answer HEAD where GET is answered; the server leaves out the body."""
    for route in router.routes:
        if isinstance(route, APIRoute) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")


async def _misunderstood(request: Request, error: Exception) -> Response:
    """A form that is not what the page sends: the field's name, and nothing of what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    what = str(first["msg"])
    answer = refusal(f"The field '{first['loc'][-1]}' is wrong: {what[:1].lower()}{what[1:]}.")
    return JSONResponse(answer, 422)


async def _not_allowed(request: Request, error: Exception) -> Response:
    """A method that a path does not take: those that it does, of which the router knows its first route's alone."""
    assert isinstance(error, HTTPException)
    described = request.app.state.describe()["paths"].get(request.url.path, {})
    methods = {method.upper() for method in described} | ({"HEAD"} if "get" in described else set())
    headers = {"Allow": ", ".join(sorted(methods))} if methods else error.headers
    return JSONResponse({"detail": error.detail}, error.status_code, headers=headers)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of the server's own: a sentence for the client, the traceback for the log."""
    route = request.scope.get("route")
    logging.getLogger(__name__).error("%s failed", getattr(route, "path", "a request"), exc_info=error)
    answer = refusal("The server failed to answer this request.", "It is written in the server's log.")
    return JSONResponse(answer, 500, headers=security_headers(""))
