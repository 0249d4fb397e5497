"""The JSON API for scripts: compile, and what there is to compile for and run on. Runs are in `runs`."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from explorer.compiler.pipeline import STAGES
from explorer.runtime.data.lists import available_lists
from explorer.runtime.data.triples import InputError
from explorer.web.compiling import AVAILABLE, compile_cached, find_data, refusal
from explorer.web.entrance.leaving import while_there
from explorer.web.entrance.students import address
from explorer.web.examples import examples
from explorer.web.messages import CompileMessage, MessageError, parse_body
from explorer.web.reuse import ReuseService

router = APIRouter()


@router.post("/api/compile")
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


@router.get("/api/stages")
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


@router.get("/api/examples")
async def list_examples() -> list[dict[str, str]]:
    """The example models with their texts."""
    return [{"name": example.name, "folder": example.folder, "text": example.text} for example in examples()]


@router.get("/api/data", response_model=None)
async def list_data(request: Request, family: Literal["score", "layer", "op"] = "score") -> Response:
    """The data sets that a run of a family may name: presets, and the files of the server's data directory, which
    layers take with inverse triples. Those of ops say which kind of op they are for."""
    try:
        return JSONResponse(await asyncio.to_thread(AVAILABLE[family], request.app.state.data_dir))
    except InputError as error:
        return JSONResponse(refusal(str(error)), 500)


@router.get("/api/locality", response_model=None)
async def reuse_distances(request: Request, data: str) -> Response:
    """The reuse distances of the rows that a data set of ops picks, as a cumulative distribution (Ember Table 1)."""
    offered = await asyncio.to_thread(available_lists, request.app.state.data_dir)
    found = await find_data(request.app, data)
    if found is None or data not in [entry["name"] for entry in offered]:
        return JSONResponse(refusal(f"There is no data set '{data[:80]}' for ops here."), 404)
    service: ReuseService = request.app.state.reuse
    answer = await service.find(found)
    if answer["event"] == "failed":
        return JSONResponse(refusal(answer["message"], answer["hint"]), 504 if answer["kind"] == "timeout" else 500)
    return JSONResponse({name: value for name, value in answer.items() if name != "event"})
