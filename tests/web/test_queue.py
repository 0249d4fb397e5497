"""The fair queue, over a pool whose runs end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web.queue import Job, RunQueue


class HeldPool:
    """Stands in for the worker pool: a run lasts until it is released, and says if it was closed early."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.stopped: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        name = request["name"]
        self.started.append(name)
        gate = self._gates.setdefault(name, asyncio.Event())
        try:
            yield events.started("cpu", "test")
            await gate.wait()
            if name == "broken":
                raise RuntimeError("the pool broke")
            yield events.result({"name": name})
        except asyncio.CancelledError:
            self.stopped.append(name)
            raise

    async def release(self, name: str) -> None:
        self._gates.setdefault(name, asyncio.Event()).set()
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def seen(job: Job) -> list[Event]:
    """What a job has said by now."""
    found = []
    while not job._outbox.empty():
        found.append(job._outbox.get_nowait())
    return found


def with_queue(test: Callable[[HeldPool, RunQueue], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        pool = HeldPool()
        queue = RunQueue(pool, **{"concurrent": 1, **settings})
        await test(pool, queue)
        await queue.close()

    asyncio.run(main())


def test_a_job_runs_to_its_result() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        job = queue.submit("anna", {"name": "a"})
        await pool.release("a")
        assert [event["event"] async for event in job.events()] == ["started", "result"]

    with_queue(test)


def test_sessions_take_turns() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a1"})
        queue.submit("anna", {"name": "a2"})
        queue.submit("ben", {"name": "b1"})
        queue.submit("cleo", {"name": "c1"})
        await settle()
        for name in ("a1", "b1", "c1", "a2"):
            assert pool.started[-1] == name
            await pool.release(name)
        assert pool.started == ["a1", "b1", "c1", "a2"]

    with_queue(test)


def test_one_session_never_runs_two_at_a_time() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a1"})
        queue.submit("anna", {"name": "a2"})
        await settle()
        assert pool.started == ["a1"]
        queue.submit("ben", {"name": "b1"})
        await settle()
        assert pool.started == ["a1", "b1"]

    with_queue(test, concurrent=2)


def test_a_newer_job_takes_the_waiting_ones_place() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("ben", {"name": "b"})
        old = queue.submit("anna", {"name": "old"})
        queue.submit("cleo", {"name": "c"})
        new = queue.submit("anna", {"name": "new"})
        assert (await seen(old))[-1]["kind"] == "superseded"
        await settle()
        await pool.release("b")
        assert pool.started == ["b", "new"]
        assert (await seen(new))[0]["position"] == 1

    with_queue(test)


def test_positions_are_told_and_move_up() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a"})
        queue.submit("ben", {"name": "b"})
        third = queue.submit("cleo", {"name": "c"})
        await settle()
        told = await seen(third)
        assert told[-1]["position"] == 2
        assert "Position 2 in the queue, about" in told[-1]["message"]
        await pool.release("a")
        assert [event["position"] for event in await seen(third)] == [1]

    with_queue(test)


def test_a_full_queue_refuses_with_a_time() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        for name in ("a", "b", "c"):
            queue.submit(name, {"name": name})
        refused = queue.submit("dora", {"name": "d"})
        (event,) = await seen(refused)
        assert event["kind"] == "refused"
        assert "full" in event["message"]
        assert "about" in event["hint"]

    with_queue(test, longest=2)


@pytest.mark.parametrize("wait", [True, False], ids=["running", "not yet begun"])
def test_cancelling_a_running_job_stops_its_worker_and_makes_room(wait: bool) -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        job = queue.submit("anna", {"name": "a"})
        queue.submit("ben", {"name": "b"})
        if wait:
            await settle()
        queue.cancel(job)
        await settle()
        assert (await seen(job))[-1]["kind"] == "cancelled"
        assert pool.stopped == (["a"] if wait else [])
        assert pool.started[-1] == "b"

    with_queue(test)


def test_cancelling_a_waiting_job_takes_it_out_of_the_line() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a"})
        waiting = queue.submit("ben", {"name": "b"})
        held = queue.submit("anna", {"name": "a2"})
        last = queue.submit("cleo", {"name": "c"})
        queue.cancel(waiting)
        queue.cancel(held)
        assert (await seen(last))[-1]["position"] == 1
        await settle()
        await pool.release("a")
        assert pool.started == ["a", "c"]

    with_queue(test)


def test_a_run_that_breaks_the_pool_ends_and_makes_room() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        job = queue.submit("anna", {"name": "broken"})
        queue.submit("ben", {"name": "b"})
        await settle()
        await pool.release("broken")
        assert (await seen(job))[-1]["kind"] == "crashed"
        assert pool.started == ["broken", "b"]

    with_queue(test)


def test_a_script_may_have_several_waiting_and_takes_turns_with_the_others() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        for number in range(4):
            queue.submit("script", {"name": f"s{number}"}, waiting=3)
        (event,) = await seen(queue.submit("script", {"name": "more"}, waiting=3))
        assert event["kind"] == "refused"
        assert "3 runs from this address" in event["message"]
        anna = queue.submit("anna", {"name": "a"})
        assert (await seen(anna))[-1]["position"] == 1
        await settle()
        for name in ("s0", "a", "s1", "s2", "s3"):
            assert pool.started[-1] == name
            await pool.release(name)

    with_queue(test)


def test_the_longest_wait_counts_what_the_running_job_may_still_take() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a"})
        second, third = queue.submit("ben", {"name": "b"}), queue.submit("cleo", {"name": "c"})
        assert "at most 30 s" in (await seen(second))[-1]["message"]
        assert "at most 60 s" in (await seen(third))[-1]["message"]

    with_queue(test, seconds=30.0)
