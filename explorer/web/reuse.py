"""Reuse distances of data sets, each computed once and in a process of its own: it can be killed, and is gone after."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerPool
from explorer.web import limits

Asked = tuple[str, str | None, int]
"""Data, the folder that its file is in, and when that changed."""


class ReuseService:
    """Computes one data set at a time, for all who ask for it, and keeps the last answers."""

    def __init__(self, new_pool: Callable[[], WorkerPool], seconds: float = limits.RUN_SECONDS) -> None:
        self._new_pool = new_pool
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[Asked, Event] = OrderedDict()
        self._in_flight: dict[Asked, asyncio.Task[Event]] = {}

    async def find(self, asked: Asked) -> Event:
        """The last event of the computation: a `result` with the distribution, or `failed` and why."""
        if asked in self._kept:
            self._kept.move_to_end(asked)
            return self._kept[asked]
        task = self._in_flight.get(asked)
        if task is None:
            task = self._in_flight[asked] = asyncio.create_task(self._compute(asked))
            task.add_done_callback(lambda _: self._in_flight.pop(asked))
        # A client that leaves must not take the answer from the others who wait for it.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Stop what is being computed."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(self, asked: Asked) -> Event:
        data, folder, _ = asked
        request: dict[str, Any] = {"data": data, "data_dir": folder}
        last: Event = {}
        async with self._turn:
            pool = self._new_pool()
            try:
                async with aclosing(pool.stream(request, self._seconds)) as stream:
                    async for event in stream:
                        last = event
            finally:
                await pool.close()
        if last["event"] == "result":
            self._kept[asked] = last
            if len(self._kept) > limits.REUSE_KEPT:
                self._kept.popitem(last=False)
        return last
