"""The application: routers, static files, protection, and the processes that compile and run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Container
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

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
    quiet: bool = False,
) -> FastAPI:
    """The web application.

    `data_dir` is a folder of data files that runs may use beside the presets; `hosts` are the names that requests may
    use for the server, None for any. A process for runs may take `run_memory` bytes, half of that for arrays. Runs
    are done by processes of this one, or by workers of `broker`'s queue. `among` says which of several processes this
    is, where the server has several. `classroom` is the class that it is for, where it is for one. `metrics_for` are
    the addresses and networks that `/metrics` answers besides this computer's own. What students do is kept in
    `store`, where there is one. `assistants` may ask at `/mcp`. With
    `compile_peers`, processes for runs may start the compilers of torch.compile. What `quiet` workers write to stderr
    is dropped.
    """
    metrics = Metrics()
    taught = classroom or Classroom()
    assistant: MCPServer | None = None
    concurrent = concurrent_runs or limits.concurrent_runs()
    shared = None if among is None else SharedFile(among.file)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        at_once = max(1, share(limits.concurrent_compiles(), among))
        late_at_once = max(1, share(limits.concurrent_late(), among))
        app.state.dropped.open()
        folders = [*([data_dir.resolve()] if data_dir else []), app.state.dropped.folder]
        settings: dict[str, Any] = {"folders": folders, "quiet": quiet}
        compilers = WorkerPool(
            "compile", concurrent=at_once, spare=share(1, among), memory=limits.COMPILE_MEMORY, **settings
        )
        app.state.compilers = compilers
        app.state.late = late = WorkerPool(
            "compile",
            concurrent=late_at_once,
            spare=0,
            memory=limits.COMPILE_MEMORY,
            niceness=limits.LATE_NICENESS,
            **settings,
        )
        app.state.compiler = CompileService(
            compilers,
            at_once,
            compile_seconds,
            late=late,
            late_concurrent=late_at_once,
            shared=None if shared is None else SharedAnswers(shared),
            ended=metrics.compiled,
        )
        new_pool = partial(WorkerPool, "reuse", spare=0, memory=limits.RUN_MEMORY, **settings)
        app.state.reuse = ReuseService(new_pool, run_seconds)
        if broker is None:
            role: Role = "run" if app.state.compile_refused else "run-compiling"
            runners = WorkerPool(role, concurrent=concurrent, memory=run_memory, **settings)
            app.state.runs = RunQueue(runners, concurrent, run_seconds, runs_waiting, ended=metrics.ran)
            app.state.runners = runners
        else:
            app.state.runs = app.state.runners = _over_streams(broker, run_seconds)
            app.state.sharing = _shared(broker, taught, app.state)
        await app.state.keeper.open()
        writing = None if app.state.numbers is None else asyncio.create_task(app.state.numbers.keep_writing())
        compilers.open()
        late.open()
        app.state.runners.open()
        await app.state.sharing.open()
        try:
            async with _assisting(assistant):
                yield
        finally:
            await app.state.checker.close()
            await app.state.reuse.close()
            await app.state.dropped.close()
            await app.state.sharing.close()
            await app.state.runs.close()
            await app.state.runners.close()
            await late.close()
            await compilers.close()
            await app.state.keeper.close()
            if writing is not None:
                writing.cancel()
            if shared is not None:
                await shared.close()

    app = FastAPI(title="Embedding Compiler Explorer", openapi_url=None, lifespan=lifespan)
    app.state.data_dir = data_dir
    app.state.compile_refused = _compile_refused(compile_peers)
    app.state.classroom = taught
    app.state.students = taught.admission
    is_first = among is None or among.number == 0
    app.state.keeper = Keeper(store, broker is not None, taught.remember, tidies=is_first)
    app.state.sharing = Alone(taught)
    app.state.checker = Checker("" if broker is None else token_hex(4))
    app.state.sessions = set()
    refused = "" if broker is None else NO_FILES
    app.state.dropped = DroppedFiles(partial(_reader, quiet), partial(_has_page, app.state), refused)
    app.state.shown_texts = ShownTexts()
    app.state.metrics, app.state.metrics_for = metrics, tuple(metrics_for)
    app.state.numbers = None
    if among is not None and shared is not None:
        taught.remember(among.secret)  # until the queue has told that of all servers
        app.state.numbers = SharedNumbers(shared, among.number, partial(families, metrics, app.state))
    described = health.router, monitoring.router, api.router, dropping.router, runs.router, keeping.router
    app.state.describe = cache(partial(openapi.describe, app.title, app.version, described))
    routers = *described, openapi.router, students.joining, pages.router, guide.router, story.router, heat.router
    for router in (*routers, students.router, collecting.students, desk.entry, desk.router, collecting.router):
        _answer_head(router)
        app.include_router(router)
    if assistants:
        from explorer.web.assistants import mcp  # which needs a package that nothing else does

        assistant = mcp.endpoint(app)
        app.router.routes.extend(mcp.routes(assistant))
    app.mount("/static", PackedFiles(directory=CHECKOUT / "static", check_dir=False), name="static")
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, _not_allowed)
    app.add_exception_handler(students.NotInClassError, students.not_in_class)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_middleware(GZipMiddleware, minimum_size=limits.PACKED_FROM_BYTES, compresslevel=limits.PACKING_LEVEL)
    app.add_middleware(RequestLimits, streamed={dropping.PATH})
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(CountRequests, metrics=metrics)
    return app


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
