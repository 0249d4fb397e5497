"""The JSON API for scripts: compile, and what there is to compile for and run on. Runs are in `runs`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from explorer.compiler.pipeline import STAGES
from explorer.runtime.data.lists import available_lists, whole_matrices
from explorer.runtime.data.offered import AVAILABLE
from explorer.runtime.data.triples import InputError
from explorer.runtime.targets.table import TARGETS
from explorer.web.compiling import compile_cached, find_data, refusal
from explorer.web.description import answers
from explorer.web.description.answers import refused
from explorer.web.description.openapi import takes
from explorer.web.entrance.leaving import while_there
from explorer.web.entrance.students import Students, address
from explorer.web.examples import examples
from explorer.web.messages import CompileMessage, MessageError, parse_body
from explorer.web.reuse import ReuseService

router = APIRouter(responses=answers.ELSEWHERE)
EXAMPLE = {
    "text": "score TransE(h: entity, r: relation, t: entity):\n    param E[entity, 8], R[relation, 8]\n"
    "    return norm(E[h] + R[r] - E[t], 1)\n"
}


@router.post(
    "/api/compile",
    openapi_extra=takes(CompileMessage, EXAMPLE),
    responses={
        200: {"model": answers.Compilation | answers.Refusal},
        **answers.BODIES,
        **refused(422, "The body is no such message, or names a stage or data that there is not."),
        **answers.LEFT,
    },
)
async def compile_model(request: Request) -> Response:
    """Compile a model: the same JSON as `explorer compile --json`. A bad model answers 200 with `ok` false."""
    try:
        message = parse_body(await request.body(), CompileMessage)
        _check_stages(message.stages)
        locks = request.app.state.classroom.locks
        if told := locks.told(message.options, message.stages or ()):
            raise MessageError(told)
        if locks.stages and message.stages is None:
            message.stages = locks.open_stages(stage.name for stage in STAGES)
        if message.data and await find_data(request.app, message.data) is None:
            raise MessageError(f"There is no data '{message.data}' here to compile for; see /api/data?family=layer.")
    except MessageError as error:
        return JSONResponse(refusal(str(error)), 422)
    return await while_there(request, _compiled(request, message))


async def _compiled(request: Request, message: CompileMessage) -> Response:
    compiled = await compile_cached(
        request.app,
        message.text,
        sizes=message.sizes,
        default_sizes=message.default_sizes,
        options=message.options,
        schedule=message.schedule,
        edited=message.edited,
        name=message.name,
        stages=message.stages,
        data=message.data,
        session=address(request),
    )
    return JSONResponse(compiled)


def _check_stages(names: list[str] | None) -> None:
    known = [stage.name for stage in STAGES]
    for name in names or ():
        if name not in known:
            raise MessageError(f"There is no stage '{name}'; there are {', '.join(known)}.")


@router.get("/api/stages", response_model=list[answers.StageInfo])
async def list_stages() -> list[dict[str, Any]]:
    """The pipeline, in order."""
    return [
        {
            "name": stage.name,
            "title": stage.title,
            "summary": stage.summary,
            "source": stage.source,
            "targets": list(stage.targets),
        }
        for stage in STAGES
    ]


@router.get("/api/examples", response_model=list[answers.ExampleInfo])
async def list_examples() -> list[dict[str, str]]:
    """The example models with their texts."""
    return [{"name": example.name, "folder": example.folder, "text": example.text} for example in examples()]


@router.get(
    "/api/data",
    response_model=None,
    responses={
        200: {"model": list[answers.DataInfo]},
        **refused(422, "There is no such family."),
        **refused(500, "The server's folder of data cannot be read."),
    },
)
async def list_data(request: Request, family: Literal["score", "layer", "op"] = "score") -> Response:
    """The data sets that a run of a family may name: the files that this student has dropped, those of the server's
    data directory, which layers take with inverse triples, then generated ones. Those of ops say which kind of op they
    are for; whole graphs are among them where there is a GPU."""
    students: Students = request.app.state.students
    dropped = request.app.state.dropped.offered(students.of(request), family)
    whole = whole_matrices() if family == "op" and not TARGETS["gpu"].missing() else []
    try:
        offered = await asyncio.to_thread(AVAILABLE[family], request.app.state.data_dir)
    except InputError as error:
        return JSONResponse(refusal(str(error)), 500)
    return JSONResponse([*dropped, *offered, *whole])


@router.get(
    "/api/locality",
    response_model=None,
    responses={
        200: {"model": answers.ReuseDistances},
        **refused(404, "There is no such data set for ops."),
        **refused(422, "No data set is named."),
        **refused(500, "The process that counts has failed."),
        **refused(504, "Counting takes longer than it may."),
    },
)
async def reuse_distances(
    request: Request, data: Annotated[str, Query(max_length=200, examples=["RM1:L0"])]
) -> Response:
    """The reuse distances of the rows that a data set of ops picks, as a cumulative distribution (Ember Table 1)."""
    students: Students = request.app.state.students
    own = request.app.state.dropped.offered(students.of(request), "op")
    offered = [*own, *await asyncio.to_thread(available_lists, request.app.state.data_dir)]
    found = await find_data(request.app, data)
    if found is None or data not in [entry["name"] for entry in offered]:
        return JSONResponse(refusal(f"There is no data set '{data[:80]}' for ops here."), 404)
    service: ReuseService = request.app.state.reuse
    answer = await service.find(found)
    if answer["event"] == "failed":
        return JSONResponse(refusal(answer["message"], answer["hint"]), 504 if answer["kind"] == "timeout" else 500)
    return JSONResponse({name: value for name, value in answer.items() if name != "event"})
