"""Where a student's data file comes in. Its bytes are the body, which goes to the disk as it comes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from explorer.web import limits
from explorer.web.compiling import refusal
from explorer.web.description import answers
from explorer.web.description.answers import refused
from explorer.web.dropped.files import DroppedFiles, NotTakenError
from explorer.web.entrance.students import Students, is_student
from explorer.web.instructor.students import members_only

PATH = "/api/data"
_TAKES = {
    "requestBody": {
        "required": True,
        "description": f"Lines of head TAB relation TAB tail, or an .npz archive of arrays, of at most"
        f" {limits.DROPPED_BYTES >> 20} MiB.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
router = APIRouter(dependencies=[Depends(members_only)], responses=answers.ELSEWHERE)


@router.post(
    PATH,
    status_code=201,
    response_model=None,
    openapi_extra=_TAKES,
    responses={
        201: {"model": answers.DroppedInfo},
        **refused(403, "The request comes from no page: it has no cookie of one."),
        **refused(408, "The file took too long to arrive."),
        **refused(409, "This server takes no files: its runs are done elsewhere."),
        **refused(413, "The file is too large."),
        **refused(422, "The file holds no data, and which line or array is wrong."),
        **refused(429, "Another file of this student is being read."),
        **refused(503, "The server keeps as many files as it can."),
    },
)
async def drop(request: Request, name: Annotated[str, Query(max_length=limits.LONGEST_FILE_NAME)] = "") -> Response:
    """Keep a file of triples, or of arrays of lists, for runs and compilations, until its student's pages are closed.
    The answer's `name` is what they give as `data`; `name` in the request is what messages call the file."""
    students: Students = request.app.state.students
    dropped: DroppedFiles = request.app.state.dropped
    student = students.of(request)
    if not is_student(student):
        return JSONResponse(refusal("A file is kept for a page.", "Open the page first, and send its cookie."), 403)
    try:
        kept = await dropped.take(student, shown_name(name), request.stream())
    except NotTakenError as error:
        return JSONResponse(refusal(str(error), error.hint), error.status)
    return JSONResponse(kept, 201)


def shown_name(name: str) -> str:
    """What a student calls a file, to be shown and no more: without folders, and without what is not printed."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable()).strip() or "the file"
