"""Turns at compiling: a session after another, its newest first, and a place that is left to what is quick.

A compilation that takes long is slow from then on, and there is a place less for slow ones than there are in all: who
types never waits for more than the quick part of somebody else's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(eq=False)
class Turn:
    """A session's place in line, or at work once it is `ready`."""

    session: str
    slow: bool
    ready: asyncio.Future[None]


class Turns:
    """Hands out so many places; use it inside one event loop."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._slow_places = max(1, places - 1)
        self._waiting: OrderedDict[str, list[Turn]] = OrderedDict()
        self._working: set[Turn] = set()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    @property
    def working(self) -> int:
        """How many have one."""
        return len(self._working)

    @asynccontextmanager
    async def turn(self, session: str, slow: bool) -> AsyncIterator[Turn]:
        """A place for a session, when its turn comes; until then it may be cancelled."""
        turn = Turn(session, slow, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(session, []).append(turn)
        self._admit()
        try:
            await turn.ready
            yield turn
        finally:
            self._leave(turn)

    def becomes_slow(self, turn: Turn) -> bool:
        """Whether one that takes long may go on: it needs a place for slow ones."""
        if not turn.slow and self._slow_left() == 0:
            return False
        turn.slow = True
        return True

    def _slow_left(self) -> int:
        return self._slow_places - sum(turn.slow for turn in self._working)

    def _leave(self, turn: Turn) -> None:
        self._working.discard(turn)
        own = self._waiting.get(turn.session, [])
        if turn in own:  # overtaken: what its session asks for next has its place, if it comes before that is passed by
            own.remove(turn)
        self._admit()

    def _admit(self) -> None:
        while len(self._working) < self._places and (turn := self._next()):
            self._take(turn)
            self._working.add(turn)
            turn.ready.set_result(None)

    def _next(self) -> Turn | None:
        """The newest of the session that has waited for a turn longest, of those that there is a place for."""
        may_be_slow = self._slow_left() > 0
        for session, own in list(self._waiting.items()):
            for turn in reversed(own):
                # One that was cancelled stays in line until its task has run.
                if (may_be_slow or not turn.slow) and not turn.ready.cancelled():
                    return turn
            if not own:
                del self._waiting[session]
        return None

    def _take(self, turn: Turn) -> None:
        """Out of the line; its session goes to the end of it, with what else it waits for."""
        own = self._waiting.pop(turn.session)
        own.remove(turn)
        if own:
            self._waiting[turn.session] = own
