"""The numbers at `/metrics`, for Prometheus on this computer or where the server was told that it is."""

from __future__ import annotations

import asyncio
import os

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from starlette.datastructures import State

from explorer.web.compiling import refusal
from explorer.web.description import answers
from explorer.web.entrance.addresses import is_local, is_of
from explorer.web.monitoring.memory import bytes_of_several, tree_bytes
from explorer.web.monitoring.metrics import Metrics
from explorer.web.monitoring.several import SharedNumbers
from explorer.web.monitoring.state import StateCollector

router = APIRouter(responses=answers.refused(403, "The numbers are for other addresses."))
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """The application's numbers as text. What came through a proxy is refused whatever it says: a proxy on this
    computer, of which the server was not told, would else make everybody local."""
    address = request.client.host if request.client else ""
    state = request.app.state
    through_a_proxy = any(name in request.headers for name in _OF_PROXIES)
    if through_a_proxy or not (is_local(address) or is_of(address, state.metrics_for)):
        hint = "Ask from the server's own computer, not through a proxy, or name your address with --metrics-for."
        return JSONResponse(refusal("This server's numbers are not for this address.", hint), 403)
    text = await (_of_this_process(state) if state.numbers is None else _of_all(state.numbers))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def _of_this_process(state: State) -> bytes:
    counted: Metrics = state.metrics
    # In a thread, since the kernel takes some milliseconds to count the memory of each process.
    memory = await asyncio.to_thread(tree_bytes)
    return generate_latest(counted.registry) + _as_text(StateCollector(state, memory))


async def _of_all(numbers: SharedNumbers) -> bytes:
    memory = await asyncio.to_thread(bytes_of_several, os.getppid())
    return _as_text(await numbers.of_all(memory))


def _as_text(collector: Collector) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
