"""The application: routers, static files, protection, and the processes that compile and run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from explorer.checkout import CHECKOUT
from explorer.runtime.workers.pool import WorkerPool
from explorer.web import api, limits, pages, runs
from explorer.web.compiling import CompileService, refusal
from explorer.web.protection import LOOPBACK_NAMES, KnownHosts, RequestLimits, SecurityHeaders, security_headers
from explorer.web.queue import RunQueue


class VersionedFiles(StaticFiles):
    """Static files: kept for good under a URL with a query (`?v=...`), else asked about each time (304)."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        versioned = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if versioned else "no-cache"
        return response


def create_app(
    data_dir: Path | None = None,
    *,
    hosts: frozenset[str] | None = LOOPBACK_NAMES,
    concurrent_runs: int | None = None,
    run_seconds: float = limits.RUN_SECONDS,
    compile_seconds: float = limits.COMPILE_SECONDS,
    runs_waiting: int = limits.RUNS_WAITING,
) -> FastAPI:
    """The web application.

    `data_dir` is a folder of data files that runs may use beside the presets; `hosts` are the names that requests may
    use for the server, None for any.
    """
    concurrent = concurrent_runs or limits.concurrent_runs()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        at_once = limits.concurrent_compiles()
        compilers = WorkerPool("compile", concurrent=at_once, spare=0, memory=limits.COMPILE_MEMORY)
        runners = WorkerPool("run", concurrent=concurrent, memory=limits.RUN_MEMORY)
        app.state.compiler = CompileService(compilers, at_once, compile_seconds)
        app.state.runs = RunQueue(runners, concurrent, run_seconds, runs_waiting)
        app.state.runners = runners
        compilers.open()
        runners.open()
        try:
            yield
        finally:
            await app.state.runs.close()
            await runners.close()
            await compilers.close()

    app = FastAPI(title="Embedding Compiler Explorer", openapi_url=None, lifespan=lifespan)
    app.state.data_dir = data_dir
    app.state.sessions = set()
    for router in (api.router, runs.router, pages.router):
        _answer_head(router)
        app.include_router(router)
    app.mount("/static", VersionedFiles(directory=CHECKOUT / "static", check_dir=False), name="static")
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_middleware(RequestLimits)
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(SecurityHeaders)
    return app


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


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of the server's own: a sentence for the client, the traceback for the log."""
    logging.getLogger(__name__).error("%s failed", request.url.path, exc_info=error)
    answer = refusal("The server failed to answer this request.", "It is written in the server's log.")
    return JSONResponse(answer, 500, headers=security_headers(""))
