"""Work for a client who may leave before it is done: a page that types on gives up the request before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response

LOOK_SECONDS = 0.25
CLOSED = 499
"""Nobody reads it: nginx logs such requests by this status."""


async def while_there(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer; the work is cancelled, and with it what nobody else waits for, once the client is gone."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
            if not task.done() and await request.is_disconnected():
                return Response(status_code=CLOSED)
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
