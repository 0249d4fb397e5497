"""Assignments: set one, take what students hand in, have it checked, and download all of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from explorer.queue.job import AwayError
from explorer.web import limits
from explorer.web.compiling import refusal
from explorer.web.entrance.students import is_student
from explorer.web.instructor import checking
from explorer.web.instructor.checking import Checker
from explorer.web.instructor.classroom import Assignment, Classroom, Locks
from explorer.web.instructor.desk import OPTIONS, STAGE_NAMES, answer, chosen_text, done, instructor_only
from explorer.web.instructor.handins import HandIn, HandInError
from explorer.web.instructor.sharing import Sharing
from explorer.web.instructor.students import members_only
from explorer.web.instructor.token import PATH
from explorer.web.messages import HandInMessage, MessageError, parse_body

LockedOption = Literal[OPTIONS]  # type: ignore[valid-type]
LockedStage = Literal[STAGE_NAMES]  # type: ignore[valid-type]

router = APIRouter(prefix=PATH, include_in_schema=False, dependencies=[Depends(instructor_only)])
students = APIRouter(prefix="/class", include_in_schema=False, dependencies=[Depends(members_only)])


@router.post("/assign", response_class=HTMLResponse)
async def assign(
    request: Request,
    title: Annotated[str, Form(max_length=limits.NAME_LENGTH)] = "",
    example: Annotated[str, Form(max_length=200)] = "",
    text: Annotated[str, Form()] = "",
    reference: Annotated[str, Form()] = "",
    seeds: Annotated[int, Form(ge=1, le=limits.CHECK_SEEDS)] = 3,
    locked_option: Annotated[list[LockedOption], Form()] = [],  # noqa: B006  # FastAPI copies it
    locked_stage: Annotated[list[LockedStage], Form()] = [],  # noqa: B006
) -> Response:
    """Set an assignment; its reference is run against itself at once, so that a broken one is seen before a class."""
    text = chosen_text(example, text)
    reference = reference.replace("\r\n", "\n").strip()
    title = " ".join(title.split())
    if not title or not text.strip():
        return await answer(request, "Nothing was set: an assignment has a title and a text to begin with.")
    if any(len(each.encode("utf-8", "replace")) > limits.SENT_BYTES for each in (text, reference)):
        return await answer(request, f"Nothing was set: a text has more than {limits.SENT_BYTES // 1024} KiB.")
    state = request.app.state
    classroom: Classroom = state.classroom
    locks = Locks(frozenset(locked_option), frozenset(locked_stage))

    async def set_it() -> None:
        assignment = await state.sharing.on_desk(lambda: classroom.assign(title, text, reference, seeds, locks))
        if reference:
            state.checker.begin(_try_reference(request, assignment))

    return await done(request, set_it(), f"Set '{title}'. Students hand in until it is over.")


@router.post("/unassign", response_class=HTMLResponse)
async def unassign(request: Request) -> Response:
    """Take no more hand-ins; those that there are stay."""
    state = request.app.state
    return await done(request, state.sharing.on_desk(state.classroom.unassign), "The assignment is over.")


@router.post("/recheck", response_class=HTMLResponse)
async def recheck(request: Request, number: Annotated[int, Form(ge=1)]) -> Response:
    """Check a hand-in again, by the assignment that is set now."""
    classroom: Classroom = request.app.state.classroom
    found, assignment = await _find(request, number), classroom.assignment
    if assignment is None or not assignment.reference or assignment.title != found.assignment:
        said = f"Hand-in {number} is not of the assignment that is set now, or that has no reference."
        return await answer(request, said)
    request.app.state.checker.begin(_check(request, found, assignment))
    return await answer(request, f"Hand-in {number} is checked again.")


@router.get("/hand-ins/{number}.json")
async def one_hand_in(request: Request, number: int) -> Response:
    """One hand-in, as a file."""
    return _file((await _find(request, number)).to_json().encode(), f"hand-in-{number:05d}.json", "application/json")


@router.get("/hand-ins.zip")
async def all_hand_ins(request: Request) -> Response:
    """All of them, as one archive."""
    sharing: Sharing = request.app.state.sharing
    try:
        return _file(await sharing.archive(), "hand-ins.zip", "application/zip")
    except HandInError as error:
        raise HTTPException(503, str(error)) from None


@students.post("/hand-in")
async def hand_in(request: Request) -> Response:
    """Take a student's work for the assignment; what its check says is for the instructor."""
    classroom: Classroom = request.app.state.classroom
    sharing: Sharing = request.app.state.sharing
    session: str = request.app.state.students.of(request)
    try:
        message = parse_body(await request.body(), HandInMessage)
        assignment = _fitting(classroom, message, session)
        if message.name.strip():
            await sharing.on_roll(lambda: classroom.name(session, message.name))
        student = await sharing.on_roll(lambda: classroom.called(session))
        work = message.model_dump(exclude={"assignment", "name"})
        found = await sharing.hand_in(session, student, assignment.title, work)
    except (MessageError, HandInError, AwayError) as error:
        return JSONResponse(refusal(str(error)), 422)
    if assignment.reference:
        request.app.state.checker.begin(_check(request, found, assignment))
    return JSONResponse({"number": found.number, "at": found.at, "student": found.student})


def _fitting(classroom: Classroom, message: HandInMessage, session: str) -> Assignment:
    """The assignment that a message is for. Raises HandInError."""
    if not is_student(session):
        raise HandInError("Your browser keeps no cookies for this page, so nobody could tell whose this is.")
    if classroom.assignment is None or classroom.assignment.number != message.assignment:
        raise HandInError("This assignment is over; nothing was handed in.")
    if len(message.text.encode()) > limits.SENT_BYTES:
        raise HandInError(f"The text has more than {limits.SENT_BYTES // 1024} KiB.")
    return classroom.assignment


async def _find(request: Request, number: int) -> HandIn:
    sharing: Sharing = request.app.state.sharing
    try:
        found = await sharing.hand_in_of(number)
    except HandInError as error:
        raise HTTPException(503, str(error)) from None
    if found is None:
        raise HTTPException(404, f"There is no hand-in {number}.")
    return found


def _file(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


async def _check(request: Request, found: HandIn, assignment: Assignment) -> None:
    state = request.app.state
    checker: Checker = state.checker
    sharing: Sharing = state.sharing
    await sharing.note_check(found, checking.waits())
    await sharing.note_check(found, await checker.check(state.runs, found.work, assignment))


async def _try_reference(request: Request, assignment: Assignment) -> None:
    state = request.app.state
    classroom: Classroom = state.classroom
    sharing: Sharing = state.sharing
    with suppress(AwayError):
        await sharing.on_desk(lambda: classroom.note_reference(assignment, checking.waits()))
        found = await state.checker.check(state.runs, {"text": assignment.reference}, replace(assignment, seeds=1))
        await sharing.on_desk(lambda: classroom.note_reference(assignment, found))
