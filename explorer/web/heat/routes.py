"""`POST /heat`: where the time of an edit goes, by operation, as JSON.

It is fetched when a reader shows the column of times, and computed in a compile worker like any compilation: no edit
pays for it."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from explorer.compiler.heat.heat import MACHINE_CODE
from explorer.compiler.heat.recordings import has_recordings
from explorer.web.edits.sent import SentEdit
from explorer.web.entrance.leaving import while_there
from explorer.web.heat.view import Heat, shown
from explorer.web.instructor.students import members_only
from explorer.web.pages import heat_of

router = APIRouter(include_in_schema=False, dependencies=[Depends(members_only)])


@router.post("/heat")
async def show_heat(request: Request, edit: SentEdit) -> Response:
    """The figures of each operation of an edit, and why there are none where there are none. Where a pane shows the
    machine code, what was measured of its kernels too."""
    shows_machine_code = any(pane.stage == MACHINE_CODE for pane in edit.panes)

    async def answer() -> JSONResponse:
        found = await heat_of(request, replace(edit, panes=()), shows_machine_code and has_recordings())
        return JSONResponse(shown(found["heat"]) if found["ok"] else Heat(reason=_problem(found["diagnostics"])))

    return await while_there(request, answer())


def _problem(diagnostics: list[dict[str, str]]) -> str:
    return diagnostics[0]["message"] if diagnostics else "The model does not compile."
