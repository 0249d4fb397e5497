"""Links, a student's history and runs, as JSON. Who has no cookie of the page has a history of nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from explorer.store.database import StoreError
from explorer.store.store import Kind, Store, TooLongError
from explorer.web.compiling import refusal
from explorer.web.description import answers
from explorer.web.description.answers import refused
from explorer.web.description.openapi import takes
from explorer.web.entrance.students import Students
from explorer.web.instructor.students import members_only
from explorer.web.keeping.keeper import Keeper
from explorer.web.keeping.messages import Entries, Entry, Shared, ShareMessage, settings_of
from explorer.web.messages import MessageError, parse_body

_KEPT = {**answers.ELSEWHERE, **refused(404, "This server keeps nothing."), **refused(503, "The store fails.")}
router = APIRouter(prefix="/api", dependencies=[Depends(members_only)], responses=_KEPT)

Answer = Callable[[Store, str], Awaitable[Response]]
EXAMPLE = {"text": "op Sum(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n"}


async def _from_store(request: Request, answer: Answer) -> Response:
    """What the store answers to a student; a sentence where there is none, or it fails."""
    keeper: Keeper = request.app.state.keeper
    students: Students = request.app.state.students
    if keeper.store is None:
        return JSONResponse(refusal("This server keeps nothing.", "Start it with --store."), 404)
    try:
        return await answer(keeper.store, students.of(request))
    except StoreError as error:
        return JSONResponse(refusal(str(error), "Try again later."), 503)


@router.post(
    "/share",
    openapi_extra=takes(ShareMessage, EXAMPLE),
    responses={
        200: {"model": Shared},
        **answers.BODIES,
        **refused(413, "The body, or what would be kept of it, is longer than it may be."),
        **refused(422, "The body is no such message."),
    },
)
async def share(request: Request) -> Response:
    """Keep a text with its settings: `Shared`, whose path opens the page with them."""
    try:
        message = parse_body(await request.body(), ShareMessage)
    except MessageError as error:
        return JSONResponse(refusal(str(error)), 422)

    async def kept(store: Store, student: str) -> Response:
        try:
            name = await store.share(student, message.text, settings_of(message))
        except TooLongError as error:
            return JSONResponse(refusal(str(error)), 413)
        return JSONResponse(Shared(id=name, path=f"/s/{name}").model_dump())

    return await _from_store(request, kept)


async def _entries(request: Request, kind: Kind) -> Response:
    async def listed(store: Store, student: str) -> Response:
        found = [Entry.of(item) for item in await store.items(student, kind)]
        return JSONResponse(Entries(entries=found).model_dump())

    return await _from_store(request, listed)


@router.get("/history", responses={200: {"model": Entries}})
async def history(request: Request) -> Response:
    """The texts that this student compiled: `Entries`. The state is 'ran' where one was run as well."""
    return await _entries(request, "history")


@router.get("/runs", responses={200: {"model": Entries}})
async def runs(request: Request) -> Response:
    """This student's runs: `Entries`, 'queued', 'running', 'ended' (the body has the `last` event) or 'lost'."""
    return await _entries(request, "run")


@router.get(
    "/runs/{name}",
    responses={
        200: {"model": Entry},
        **refused(404, "You have no such run, or this server keeps nothing."),
        **refused(422, "The request is none that is described here."),
    },
)
async def run(request: Request, name: str) -> Response:
    """One of this student's runs: `Entry`."""

    async def found(store: Store, student: str) -> Response:
        item = await store.item(student, "run", name)
        if item is None:
            return JSONResponse(refusal("You have no such run."), 404)
        return JSONResponse(Entry.of(item).model_dump())

    return await _from_store(request, found)


@router.delete("/history", status_code=204, response_class=Response)
async def forget(request: Request) -> Response:
    """Delete all that is kept of this student: texts, runs and links."""

    async def forgotten(store: Store, student: str) -> Response:
        await store.forget(student)
        return Response(status_code=204)

    return await _from_store(request, forgotten)
