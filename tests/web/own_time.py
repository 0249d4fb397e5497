"""An event loop with a time of its own, for what waits for nothing outside it: there no host is slow, and none busy."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

MOST_SECONDS = 60.0


class _AtOnce(selectors.DefaultSelector):
    """Looks what has come, and has the time that the loop would wait for more pass instead."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if not timeout:
            return super().select(timeout)
        self.passed += timeout
        return super().select(0)


class _OwnTime(asyncio.SelectorEventLoop):
    """Its clock stands still as long as there is anything to do, and then goes on at once to what waits for it."""

    def __init__(self) -> None:
        self._passing = _AtOnce()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.passed


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, which fails where it would wait for more than a minute."""
    with asyncio.Runner(loop_factory=_OwnTime) as runner:
        runner.run(asyncio.wait_for(main, MOST_SECONDS))
