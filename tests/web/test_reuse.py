"""Reuse distances are computed in a process that can be killed, once for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import WorkerPool
from explorer.web import limits
from explorer.web.reuse import ReuseService


class Counted(WorkerPool):
    """Stands in for a pool: answers, after a moment, with how many were made."""

    made = 0
    at_once = 0

    def __init__(self) -> None:
        super().__init__("reuse", spare=0)
        Counted.made += 1

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        Counted.at_once += 1
        assert Counted.at_once == 1
        await asyncio.sleep(0)
        Counted.at_once -= 1
        if request["data"] == "bad":
            yield events.failed("refused", "It is not there.")
        else:
            yield events.result({"number": Counted.made})


def test_one_at_a_time_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REUSE_KEPT", 2)

    async def main() -> None:
        service = ReuseService(Counted)
        numbers = [await service.find(("a", None, 0)) for _ in range(2)]
        both = await asyncio.gather(service.find(("b", None, 0)), service.find(("b", None, 0)))
        changed = await service.find(("a", None, 1))
        again = await service.find(("a", None, 0))
        assert [each["number"] for each in (*numbers, *both, changed, again)] == [1, 1, 2, 2, 3, 4]
        assert [(await service.find(("bad", None, 0)))["event"] for _ in range(2)] == ["failed", "failed"]
        assert Counted.made == 6
        await service.close()

    asyncio.run(main())


def test_it_has_a_time_limit_and_leaves_no_process() -> None:
    pools: list[WorkerPool] = []

    def new_pool() -> WorkerPool:
        pools.append(WorkerPool("reuse", spare=0))
        return pools[-1]

    async def main() -> Event:
        return await ReuseService(new_pool, seconds=0.01).find(("com-Youtube", None, 0))

    assert asyncio.run(main())["kind"] == "timeout"
    assert [pool.pids for pool in pools] == [[]]
