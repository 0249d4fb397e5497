"""What whoever runs the server asks it: whether it answers, and whether it is ready for work."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from explorer.queue.job import Queue
from explorer.store.store import Store
from explorer.web.description import answers

router = APIRouter(responses=answers.ELSEWHERE)


@router.get("/healthz", response_model=answers.Health)
async def health(request: Request) -> dict[str, str | bool]:
    """Whether the server answers, and whether a process for runs, or a worker of the queue, is there (`warm`)."""
    return {"status": "ok", "warm": request.app.state.runners.warm}


@router.get(
    "/readyz",
    responses={200: {"model": answers.Readiness}, 503: {"model": answers.Readiness, "description": "Not now."}},
)
async def ready(request: Request) -> JSONResponse:
    """Whether to send work here: 200 once processes for compilations and runs have come up, 503 before that and while
    the server lets its last runs end. `store` says what is wrong with it; everything else goes on without."""
    status = readiness(request.app)
    store: Store | None = request.app.state.keeper.store
    told = {} if store is None else {"store": store.trouble or "ok"}
    return JSONResponse({"status": status, **told}, 200 if status == "ready" else 503)


def readiness(app: FastAPI) -> str:
    """Whether the server is starting, ready, or stopping."""
    runs: Queue = app.state.runs
    if not runs.taking:
        return "stopping"
    return "ready" if app.state.compilers.warm and app.state.runners.warm else "starting"
