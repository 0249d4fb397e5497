"""Counts every answer of the application by the template of its route, and gives it a line in the log."""

from __future__ import annotations

import logging
import secrets
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorer.web.monitoring.logs import request_id
from explorer.web.monitoring.metrics import Metrics

NO_ROUTE = "none"
"""What leads nowhere, and what is refused before its route is looked for."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "WEBSOCKET")
_LOG = logging.getLogger("explorer.requests")
_SWITCHED, _REFUSED, _FAILED = 101, 403, 500


class CountRequests:
    """Goes around everything else, so that refusals count too. Each answer has a number, which its lines have."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        begun, answered = perf_counter(), False
        identity = secrets.token_hex(8)
        request_id.set(identity)

        def count(status: int) -> None:
            nonlocal answered
            answered = True
            self._metrics.answered(_template(scope), status)
            ms = round((perf_counter() - begun) * 1e3, 1)
            method = scope.get("method", "WEBSOCKET")
            fields = {"method": method if method in _METHODS else "", "route": _template(scope), "status": status}
            _LOG.info("answered", extra={"fields": {**fields, "ms": ms}})

        async def send_and_count(message: Message) -> None:
            status = None if answered else _status(message)
            if status is not None:
                count(status)
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = identity
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        except Exception:
            if not answered:  # the handler further out answers
                count(_FAILED)
            raise


def _status(message: Message) -> int | None:
    """The status that a message is the first to tell: a socket that is closed before it is taken is refused."""
    match message["type"]:
        case "http.response.start":
            return int(message["status"])
        case "websocket.accept":
            return _SWITCHED
        case "websocket.close":
            return _REFUSED
    return None


def _template(scope: Scope) -> str:
    if "route" in scope:
        return str(scope["route"].path)
    root: str = scope.get("root_path", "")  # that of the files, which are mounted
    return f"{root}/{{path}}" if root else NO_ROUTE
