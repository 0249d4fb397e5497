"""`POST /story`: the story of one operation of an edit, as a piece of the page.

It is fetched when a reader asks for it, and computed in a compile worker like any compilation: no edit pays for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, Response

from explorer.web.compiling import Compiled
from explorer.web.edits.sent import SentEdit
from explorer.web.entrance.leaving import while_there
from explorer.web.instructor.students import members_only
from explorer.web.pages import story_of
from explorer.web.story.view import told
from explorer.web.templates.environment import TEMPLATES

router = APIRouter(include_in_schema=False, dependencies=[Depends(members_only)])
LARGEST_NUMBER = 100_000
"""Of an operation; no text has as many."""


@router.post("/story", response_class=HTMLResponse)
async def show_story(
    request: Request,
    edit: SentEdit,
    operation: Annotated[int, Form(ge=0, le=LARGEST_NUMBER)],
    machine_code: Annotated[bool, Form()] = False,
) -> Response:
    """The story of an operation, beside side A's where the reader compares; with PTX and SASS where these are asked
    for, which takes seconds where nobody has made them."""
    asked = replace(edit, panes=())

    async def answer() -> HTMLResponse:
        story = await story_of(request, asked, operation, machine_code)
        other = None
        if edit.against is not None and story["ok"]:
            side = replace(asked, **edit.against.model_dump())
            other = await story_of(request, side, operation, machine_code)
        return await asyncio.to_thread(_rendered, request, story, other, machine_code)

    return await while_there(request, answer())


def _rendered(request: Request, story: Compiled, other: Compiled | None, machine_code: bool) -> HTMLResponse:
    if not story["ok"]:
        problem = str(story["diagnostics"][0]["message"]) if story["diagnostics"] else "The model does not compile."
        return TEMPLATES.TemplateResponse(request, "story/none.html", {"reason": problem})
    if story["story"] is None:
        return TEMPLATES.TemplateResponse(request, "story/none.html", {"reason": "The text has no such operation."})
    before = other["story"] if other is not None and other["ok"] else None
    context = {"story": told(story["story"], before, machine_code), "compared": before is not None}
    return TEMPLATES.TemplateResponse(request, "story/story.html", context)
