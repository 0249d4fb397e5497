"""The log as lines of JSON, one an event, for programs that collect it. No line has what was sent, nor from where: a
request is its route's template, and an error its type and where it was raised."""

from __future__ import annotations

import json
import logging
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""That of the request which is being answered."""


class JsonLines(logging.Formatter):
    """A record as one line: its time, level, logger and message, the request, and the `fields` that it was given."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id.get():
            event["request"] = request_id.get()
        event |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            # Without the error's own words, which may quote a text.
            event["error"] = record.exc_info[0].__name__
            event["raised"] = [f"{at.filename}:{at.lineno}" for at in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(event, ensure_ascii=False)


def write_json() -> None:
    """Have this process write its log so, with a line for each answer."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("explorer").setLevel(logging.INFO)
