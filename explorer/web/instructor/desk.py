"""The instructor's pages: who is here, what runs and waits, and what the instructor does about it.

Whoever opens `/instructor` shows the server's token once, in the address that `explorer serve` printed or in a form,
and has a cookie from then on. Every POST answers with the newest state, which the page also fetches by itself.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from dataclasses import fields
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from explorer.compiler.language.names.builtins import RUNNING_KINDS
from explorer.compiler.options import Options
from explorer.compiler.pipeline import STAGES
from explorer.queue.job import AwayError, Queue
from explorer.web import limits
from explorer.web.compiling import CompileService
from explorer.web.entrance.protection import LOOPBACK_NAMES
from explorer.web.examples import examples
from explorer.web.health import readiness
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.sharing import Sharing
from explorer.web.instructor.token import PATH, Instructor
from explorer.web.templates.environment import drawn

STOPPED = "The instructor stopped this run."
OPTIONS = tuple(sorted(entry.name for entry in fields(Options)))
_DEFINITION = re.compile(rf"^(?:{'|'.join(RUNNING_KINDS)})[ \t]+(\w+)[ \t]*\(", re.MULTILINE)
STAGE_NAMES = tuple(stage.name for stage in STAGES)
"""What an assignment may lock."""
_HELD_OFF = "Too many wrong tokens came from this address. Wait a minute."


def find_instructor(request: Request) -> Instructor:
    """The server's instructor; 404 where it has none."""
    classroom: Classroom = request.app.state.classroom
    if classroom.instructor is None:
        raise HTTPException(404, "This server was started without an instructor's side.")
    return classroom.instructor


def instructor_only(request: Request) -> None:
    """403 for everybody else; a page whose cookie has run out is told to come again."""
    if not find_instructor(request).is_here(request):
        raise HTTPException(403, "This is the instructor's; open /instructor first.", {"HX-Refresh": "true"})


entry = APIRouter(prefix=PATH, include_in_schema=False, dependencies=[Depends(find_instructor)])
router = APIRouter(prefix=PATH, include_in_schema=False, dependencies=[Depends(instructor_only)])


@entry.get("", response_class=HTMLResponse)
async def desk(request: Request, token: Annotated[str | None, "as `explorer serve` printed it"] = None) -> Response:
    """The instructor's page, or the form that asks for the token."""
    if token is not None:
        return _let_in(request, token)
    if find_instructor(request).is_here(request):
        return _drawn(request, "desk.html", {**await _live(request), **_offered()})
    return _ask(request, "", HTTPStatus.OK)


@entry.post("/enter", response_class=HTMLResponse)
async def enter(request: Request, token: Annotated[str, Form()] = "") -> Response:
    """The token from the form."""
    return _let_in(request, token.strip())


def _let_in(request: Request, token: str) -> Response:
    """To the page, at an address without the token, which then is in no history and no screenshot."""
    instructor = find_instructor(request)
    if instructor.secret.fits(request, token):
        return RedirectResponse(PATH, HTTPStatus.SEE_OTHER, {"Set-Cookie": instructor.cookie(request)})
    if instructor.secret.is_held_off(request):
        return _ask(request, _HELD_OFF, HTTPStatus.TOO_MANY_REQUESTS)
    return _ask(request, "This is not the server's token.", HTTPStatus.FORBIDDEN)


def _ask(request: Request, problem: str, status: HTTPStatus) -> Response:
    return _drawn(request, "enter.html", {"problem": problem}, status)


def _drawn(request: Request, name: str, context: dict[str, Any], status: int = HTTPStatus.OK) -> Response:
    return drawn(request, f"instructor/{name}", context, status)


async def _live(request: Request, said: str = "") -> dict[str, Any]:
    """What changes while the page is open."""
    state = request.app.state
    classroom: Classroom = state.classroom
    queue: Queue = state.runs
    sharing: Sharing = state.sharing
    compiler: CompileService = state.compiler
    standing, elsewhere = await queue.look(), await sharing.look()
    rows = classroom.rows(state.sessions, standing, elsewhere.students)
    # A queue that others work for has as many workers as runs that may go on; nobody knows of more.
    runners = standing.concurrent if state.runners is queue else len(state.runners.pids)
    return {
        "address": str(request.base_url).rstrip("/"),
        "is_local": request.base_url.hostname in {*LOOPBACK_NAMES, "0.0.0.0", "::"},
        "rows": rows,
        "here": sum(row.pages > 0 for row in rows),
        "class": classroom,
        "sharing": sharing,
        "servers": elsewhere.servers + 1,
        "queue": standing,
        "waiting": sum(standing.waiting.values()),
        "health": readiness(request.app),
        "workers": {"runs": runners, "compilations": len(state.compilers.pids)},
        "compiling": compiler.waiting + compiler.running + elsewhere.compiling,
        "hand_ins": list(classroom.hand_ins)[::-1][: limits.HAND_INS_SHOWN],
        "said": said,
        "now": datetime.now().astimezone(),
    }


def _offered() -> dict[str, Any]:
    return {"examples": examples(), "lockable": {"locked_option": OPTIONS, "locked_stage": STAGE_NAMES}}


async def answer(request: Request, said: str = "") -> Response:
    """The newest state, with a sentence on what was done."""
    return _drawn(request, "live.html", await _live(request, said))


async def done(request: Request, work: Awaitable[object], said: str) -> Response:
    """Do what the instructor asks for and show all pages what has changed; or say why it could not be done."""
    try:
        await work
    except AwayError as error:
        return await answer(request, str(error))
    classroom: Classroom = request.app.state.classroom
    classroom.tell(request.app.state.sessions, request.app.state.runs)
    return await answer(request, said)


@router.get("/live", response_class=HTMLResponse)
async def live(request: Request) -> Response:
    """The newest state, for the page that asks every two seconds."""
    return await answer(request)


@router.get("/projector", response_class=HTMLResponse)
async def projector(request: Request) -> Response:
    """What a class may see of it, in large type."""
    return _drawn(request, "projector.html", await _live(request))


@router.get("/projector/live", response_class=HTMLResponse)
async def projector_live(request: Request) -> Response:
    """The newest state of that."""
    return _drawn(request, "projected.html", await _live(request))


@router.post("/pause", response_class=HTMLResponse)
async def pause(request: Request) -> Response:
    """Begin no more runs."""
    queue: Queue = request.app.state.runs
    return await done(request, queue.pause(), "Runs are paused: those that run go on, all others wait.")


@router.post("/resume", response_class=HTMLResponse)
async def resume(request: Request) -> Response:
    """Let runs begin again."""
    queue: Queue = request.app.state.runs
    return await done(request, queue.go_on(), "Runs go on.")


@router.post("/stop", response_class=HTMLResponse)
async def stop(request: Request, number: Annotated[int, Form(ge=1)]) -> Response:
    """Stop what a student runs and what waits for a turn."""
    queue: Queue = request.app.state.runs
    return await done(request, queue.stop(_session(request, number), STOPPED), f"Student {number}'s runs are stopped.")


@router.post("/remove", response_class=HTMLResponse)
async def remove(request: Request, number: Annotated[int, Form(ge=1)]) -> Response:
    """Take a student out of a class with a code: the place is free, and the student's pages ask for the code."""
    state, session = request.app.state, _session(request, number)
    classroom: Classroom = state.classroom

    async def let_go() -> None:
        await state.runs.stop(session, STOPPED)
        await state.sharing.on_roll(lambda: classroom.remove(session))
        classroom.close_removed(state.sessions)

    return await done(request, let_go(), f"Student {number} is no longer in the class.")


@router.post("/limit", response_class=HTMLResponse)
async def limit(request: Request, most: Annotated[int, Form(ge=1, le=limits.RUNS_WAITING_PER_STUDENT)]) -> Response:
    """How many runs of a student may wait from now on."""
    queue: Queue = request.app.state.runs
    said = f"Of one student, {most} {'run' if most == 1 else 'runs'} may wait."
    return await done(request, queue.let_wait(most), said)


@router.post("/send", response_class=HTMLResponse)
async def send(
    request: Request,
    example: Annotated[str, Form(max_length=200)] = "",
    name: Annotated[str, Form(max_length=limits.NAME_LENGTH)] = "",
    text: Annotated[str, Form()] = "",
) -> Response:
    """Offer a text to all pages: an example, or one that was pasted. Theirs stays until they open it."""
    text = chosen_text(example, text)
    name = " ".join(name.split()) or example.rpartition("/")[2] or defined_in(text)
    if not text.strip():
        return await answer(request, "Nothing was sent: choose an example or write a text.")
    if len(text.encode("utf-8", "replace")) > limits.SENT_BYTES:
        return await answer(request, f"Nothing was sent: the text has more than {limits.SENT_BYTES // 1024} KiB.")
    state = request.app.state
    classroom: Classroom = state.classroom
    sending = state.sharing.on_desk(lambda: classroom.send(name, text))
    return await done(request, sending, f"Sent '{name}'. Students open it when they like.")


@router.post("/unsend", response_class=HTMLResponse)
async def unsend(request: Request) -> Response:
    """Offer it no more."""
    state = request.app.state
    return await done(request, state.sharing.on_desk(state.classroom.unsend), "The text is offered no more.")


def chosen_text(example: str, text: str) -> str:
    """An example's text, or where there is none of that name the other."""
    found = next((each.text for each in examples() if f"{each.folder}/{each.name}" == example), text)
    return found.replace("\r\n", "\n")  # as a form ends its lines


def defined_in(text: str) -> str:
    """What the definition that runs is called, the last of its kinds; of a text that has none, what it is."""
    names = _DEFINITION.findall(text)
    return names[-1][: limits.NAME_LENGTH] if names else "a text"


def _session(request: Request, number: int) -> str:
    classroom: Classroom = request.app.state.classroom
    session = classroom.session(number)
    if session is None:
        raise HTTPException(404, f"There is no student {number}.")
    return session
