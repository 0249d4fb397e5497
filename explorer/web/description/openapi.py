"""The OpenAPI description of the JSON API, made of the routes themselves."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from explorer.web.description.events import messages

ABOUT = """Compiles models of relational and embedding operations through all stages, and runs them.

What a request gets wrong is told in sentences, never by a traceback. What passes over the WebSocket `/ws` is described
by the JSON Schema at `/api/messages.json`."""
_IN_COMPONENTS = "#/components/schemas/{model}"

router = APIRouter(include_in_schema=False)


@router.get("/api/openapi.json")
async def openapi(request: Request) -> Response:
    """What the JSON API takes and answers."""
    return JSONResponse(request.app.state.describe())


@router.get("/api/messages.json")
async def message_schema() -> Response:
    """What passes over the WebSocket."""
    return JSONResponse(messages())


def takes(message: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """What a route says of its body, which it reads itself: a fault of it is told in a sentence."""
    _TAKEN.append(message)
    schema = {"$ref": _IN_COMPONENTS.format(model=message.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}


_TAKEN: list[type[BaseModel]] = []
"""The bodies that routes read by themselves, of which FastAPI knows nothing."""


def describe(title: str, version: str, routers: Iterable[APIRouter]) -> dict[str, Any]:
    """The description of these routers' routes: as GET those that answer HEAD too."""
    routes = [copy(route) for router in routers for route in router.routes if isinstance(route, APIRoute)]
    for route in routes:
        route.methods = (route.methods or set()) - {"HEAD"}
    described = get_openapi(
        title=title, version=version, description=ABOUT, routes=routes, separate_input_output_schemas=False
    )
    _, taken = models_json_schema([(body, "validation") for body in _TAKEN], ref_template=_IN_COMPONENTS)
    described["components"]["schemas"].update(taken["$defs"])
    return described
