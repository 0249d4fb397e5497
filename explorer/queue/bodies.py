"""What crosses the queue: JSON, checked for its version and its length by whoever takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import LINE_BYTES
from explorer.version import version

LARGEST_JOB = 1 << 20
"""Bytes of a request: four times what a server lets in, since JSON may write a letter as six."""


class BodyError(Exception):
    """What came is no job for this worker; the text is a sentence for whoever asked for the run."""


@dataclass(frozen=True)
class Body:
    """A run as it is asked for: what a worker process takes, and how long it may."""

    version: str
    request: Mapping[str, Any]
    seconds: float

    def text(self) -> str:
        """As JSON. Raises BodyError where it is too long."""
        text = json.dumps(asdict(self), allow_nan=False)
        if len(text) > LARGEST_JOB:
            raise BodyError(f"The request takes {len(text)} bytes, more than the {LARGEST_JOB} that the queue takes.")
        return text


def read_body(text: str | None) -> Body:
    """A job's body. Raises BodyError for one that is gone, is none, or is of another version."""
    if text is None:
        raise BodyError("The run waited for so long that the queue no longer has what was asked for.")
    if len(text) > LARGEST_JOB:
        raise BodyError(f"The request is longer than the {LARGEST_JOB} bytes that a worker takes.")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BodyError("The request in the queue is not JSON.") from None
    if not isinstance(found, dict) or not isinstance(found.get("version"), str):
        raise BodyError("The request in the queue is no run's.")
    if found["version"] != version():
        raise BodyError(other_version(found["version"]))
    if not isinstance(found.get("request"), dict) or not isinstance(found.get("seconds"), int | float):
        raise BodyError("The request in the queue is no run's.")
    return Body(found["version"], found["request"], found["seconds"])


def other_version(servers: str) -> str:
    """That server and worker are not the same explorer."""
    return (
        f"The server is version {servers[:20]} of the explorer and this worker is version {version()}: "
        "both must be the same one."
    )


def event_text(event: Event) -> str:
    """An event as JSON; one that is longer than a worker process may send is a refusal."""
    text = json.dumps(event)
    if len(text) <= LINE_BYTES:
        return text
    most = f"{LINE_BYTES >> 20} MB"
    return json.dumps(events.failed("refused", f"The run's result takes more than the {most} that a queue takes."))
