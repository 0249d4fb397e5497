"""Work for a client who may leave before it is done: a page that types on gives up the request before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response

CLOSED = 499
"""Nobody reads it: nginx logs such requests by this status."""


async def while_there(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer; the work is cancelled, and with it what nobody else waits for, once the client is gone."""
    answered = asyncio.create_task(work)
    gone = asyncio.create_task(_leave(request))
    try:
        await asyncio.wait({answered, gone}, return_when=asyncio.FIRST_COMPLETED)
        return answered.result() if answered.done() else Response(status_code=CLOSED)
    finally:
        for task in (answered, gone):
            task.cancel()
        await asyncio.gather(answered, gone, return_exceptions=True)


async def _leave(request: Request) -> None:
    """Ends when the client has gone; what it sends before is nothing that anybody waits for."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
