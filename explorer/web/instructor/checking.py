"""Holds hand-ins against their assignment's reference: by runs on the processor, one after another, from the queue.

All checks of a server take turns as one session, so that those of a hundred hand-ins hold up nobody's run for longer
than one run takes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any

from explorer.queue.job import Queue
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.instructor.classroom import Assignment
from explorer.web.instructor.sharing import UNCHECKED, WAITS

SESSION = "the class's checks"
_LONGEST = 400
"""Characters of what is said of a check."""
_AT_FAULT = ("error", "timeout", "memory")
"""Failures that are the text's own; after any other it may be checked again."""

Check = dict[str, Any]


def waits() -> Check:
    return {"state": WAITS, "message": ""}


class Checker:
    """Checks in the order in which they were asked for; `server` is the name of one of several with the same queue."""

    def __init__(self, server: str = "") -> None:
        self._session = f"{SESSION} {server}".strip()
        self._waiting: deque[tuple[Queue, dict[str, Any], Assignment, asyncio.Future[Check]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._begun: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that waits for a check, which nobody waits for."""
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    async def close(self) -> None:
        """End all that is left."""
        left = [*self._begun, *filter(None, [self._task])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def check(self, queue: Queue, work: Mapping[str, Any], assignment: Assignment) -> Check:
        """What is to be said of a work for an assignment with a reference, once its turn has come."""
        answer: asyncio.Future[Check] = asyncio.get_running_loop().create_future()
        self._waiting.append((queue, dict(work), assignment, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            queue, work, assignment, answer = self._waiting.popleft()
            found = await _checked(self._session, queue, work, assignment)
            if not answer.done():
                answer.set_result(found)


async def _checked(session: str, queue: Queue, work: Mapping[str, Any], assignment: Assignment) -> Check:
    for seed in range(assignment.seeds):
        last = await _run(session, queue, work, assignment.reference, seed)
        if last["event"] == "failed":
            state = "failed" if last["kind"] in _AT_FAULT else UNCHECKED
            return {"state": state, "message": str(last["message"])[:_LONGEST]}
        if not last.get("matches_reference"):
            return {"state": "failed", "message": str(last.get("message") or "The run is wrong.")[:_LONGEST]}
    inputs = "input" if assignment.seeds == 1 else "inputs"
    return {"state": "passed", "message": f"The results are equal on {assignment.seeds} {inputs}."}


async def _run(session: str, queue: Queue, work: Mapping[str, Any], reference: str, seed: int) -> Event:
    request = {
        "text": work["text"],
        "options": work.get("options", {}),
        "on": "cpu",
        "expected": reference,
        "data": "",
        "batch": limits.CHECK_BATCH,
        "repeat": 1,
        "seed": seed,
    }
    last: Event = {}
    async for event in queue.submit(session, request).events():
        last = event
    return last
