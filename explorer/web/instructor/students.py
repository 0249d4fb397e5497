"""A student's side of a class: the code is given once, and what the instructor sent is opened."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from explorer.queue.job import AwayError
from explorer.web import limits
from explorer.web.compiling import refusal
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.sharing import Sharing
from explorer.web.templates.environment import drawn

_HELD_OFF = "Too many wrong codes came from this address. Wait a minute."


class NotInClassError(Exception):
    """The request comes from nobody in the class."""


async def members_only(request: Request) -> None:
    """Raises NotInClassError where the class has a code and this browser has not given it."""
    sharing: Sharing = request.app.state.sharing
    if not await sharing.may_enter(request):
        raise NotInClassError


async def not_in_class(request: Request, error: Exception) -> Response:
    """For the page the form that asks for the code; for all else a sentence."""
    if request.url.path == "/":
        return _ask(request, "", HTTPStatus.OK)
    return JSONResponse(refusal("This is for the class alone.", "Reload the page and enter the class's code."), 403)


def _ask(request: Request, problem: str, status: HTTPStatus) -> Response:
    return drawn(request, "instructor/join.html", {"problem": problem}, status)


joining = APIRouter(include_in_schema=False)
router = APIRouter(prefix="/class", include_in_schema=False, dependencies=[Depends(members_only)])


@joining.post("/")
async def join(request: Request, code: Annotated[str, Form()] = "", name: Annotated[str, Form()] = "") -> Response:
    """The code from the form, and a name if one was given: back to the page, with the cookie of a student."""
    classroom: Classroom = request.app.state.classroom
    if classroom.code is None:
        raise HTTPException(404, "This server has no class with a code.")
    if not classroom.code.fits(request, code.strip()):
        if classroom.code.is_held_off(request):
            return _ask(request, _HELD_OFF, HTTPStatus.TOO_MANY_REQUESTS)
        return _ask(request, "This is not the class's code.", HTTPStatus.FORBIDDEN)
    query = f"?{request.url.query}" if request.url.query else ""
    response = RedirectResponse(f"/{query}", HTTPStatus.SEE_OTHER)
    session = classroom.admission.known_or_new(request)
    if not await _joins(request, session, name[: limits.NAME_LENGTH]):
        full = f"The class is full: it has {classroom.places} places. Ask the instructor to free one."
        return _ask(request, full, HTTPStatus.SERVICE_UNAVAILABLE)
    classroom.admission.keep(request, response, session)
    return response


async def _joins(request: Request, session: str, name: str) -> bool:
    """Whether there is a place in the class for a student; while nobody else can be asked, at this server."""
    classroom: Classroom = request.app.state.classroom
    sharing: Sharing = request.app.state.sharing
    try:
        return await sharing.on_roll(lambda: classroom.join(session, name))
    except AwayError:
        return classroom.join(session, name)


@router.get("/sent/{number}", response_class=PlainTextResponse)
async def sent_text(request: Request, number: int) -> PlainTextResponse:
    """The text that the instructor sent; 404 for one that another has replaced."""
    classroom: Classroom = request.app.state.classroom
    if classroom.sent is None or classroom.sent.number != number:
        raise HTTPException(404, "The instructor offers this text no more.")
    return PlainTextResponse(classroom.sent.text)


@router.get("/assignment/{number}", response_class=PlainTextResponse)
async def assignment_text(request: Request, number: int) -> PlainTextResponse:
    """The text that an assignment begins with; 404 for one that another has replaced."""
    classroom: Classroom = request.app.state.classroom
    if classroom.assignment is None or classroom.assignment.number != number:
        raise HTTPException(404, "This assignment is over.")
    return PlainTextResponse(classroom.assignment.text)
