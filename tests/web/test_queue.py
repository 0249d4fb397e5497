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
        found.append(job._outbox.get_nowait()[1])
    return found


def with_queue(test: Callable[[HeldPool, RunQueue], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        pool = HeldPool()
        queue = RunQueue(pool, **{"concurrent": 1, "tell_seconds": 0.0, **settings})
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
        old = queue.submit("anna", {"name": "old"}, "page 1")
        other = queue.submit("anna", {"name": "other"}, "page 2")
        queue.submit("cleo", {"name": "c"})
        new = queue.submit("anna", {"name": "new"}, "page 1")
        assert (await seen(old))[-1]["kind"] == "superseded"
        assert not any(event["event"] == "failed" for event in await seen(other))
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
        await settle()
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
            queue.submit("script", {"name": f"s{number}"})
        (event,) = await seen(queue.submit("script", {"name": "more"}))
        assert event["kind"] == "refused"
        assert "3 runs of yours" in event["message"]
        anna = queue.submit("anna", {"name": "a"})
        assert (await seen(anna))[-1]["position"] == 1
        await settle()
        for name in ("s0", "a", "s1", "s2", "s3"):
            assert pool.started[-1] == name
            await pool.release(name)

    with_queue(test, of_one=3)


def test_who_has_most_in_a_full_queue_makes_room_for_who_has_less() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        jobs = [queue.submit("crowd", {"name": f"c{number}"}) for number in range(4)]  # one runs, three wait
        anna = queue.submit("anna", {"name": "a"})
        assert (await seen(jobs[3]))[-1]["kind"] == "refused"
        assert (await seen(anna))[-1]["position"] == 1
        ben = queue.submit("ben", {"name": "b"})
        assert (await seen(jobs[2]))[-1]["kind"] == "refused"
        assert (await seen(ben))[-1]["event"] == "queued"
        # Now everybody has one, and nobody has to go.
        assert (await seen(queue.submit("cleo", {"name": "c"})))[-1]["kind"] == "refused"

    with_queue(test, longest=3)


def test_a_crowd_that_comes_is_told_its_places_seldom() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        jobs = [queue.submit(f"session {number}", {"name": str(number)}) for number in range(101)]
        told = [await seen(job) for job in jobs[1:]]
        assert [own[-1]["position"] for own in told] == list(range(1, 101))
        assert sum(map(len, told)) <= 200  # each of the 101 would otherwise tell all before it

    with_queue(test, tell_seconds=60.0)


def test_a_queue_that_stops_lets_runs_end_and_takes_no_more() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        runs, waits = queue.submit("anna", {"name": "a"}), queue.submit("ben", {"name": "b"})
        await settle()
        queue.stop_taking()
        assert "about to stop" in (await seen(waits))[-1]["message"]
        assert "about to stop" in (await seen(queue.submit("cleo", {"name": "c"})))[-1]["message"]
        assert queue.busy
        await pool.release("a")
        assert (await seen(runs))[-1]["event"] == "result"
        assert not queue.busy
        assert pool.started == ["a"]

    with_queue(test)


def test_the_longest_wait_counts_what_the_running_job_may_still_take() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        queue.submit("anna", {"name": "a"})
        second, third = queue.submit("ben", {"name": "b"}), queue.submit("cleo", {"name": "c"})
        assert "at most 30 s" in (await seen(second))[-1]["message"]
        assert "at most 60 s" in (await seen(third))[-1]["message"]

    with_queue(test, seconds=30.0)


def test_a_paused_queue_begins_nothing_until_it_goes_on() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        runs, waits = queue.submit("anna", {"name": "a"}), queue.submit("ben", {"name": "b"})
        await settle()
        await queue.pause()
        assert (await seen(waits))[-1]["message"].startswith("The instructor has paused runs")
        await pool.release("a")
        assert (await seen(runs))[-1]["event"] == "result"
        late = queue.submit("cleo", {"name": "c"})
        assert (await seen(late))[-1]["position"] == 2
        assert pool.started == ["a"]
        await queue.go_on()
        await pool.release("b")
        await pool.release("c")
        assert [(await seen(job))[-1]["event"] for job in (waits, late)] == ["result", "result"]

    with_queue(test)


def test_all_jobs_of_a_session_are_stopped_and_told_why() -> None:
    async def test(pool: HeldPool, queue: RunQueue) -> None:
        hers = [queue.submit("anna", {"name": f"a{number}"}) for number in range(3)]
        his = queue.submit("ben", {"name": "b"})
        await settle()
        await queue.stop("anna", "Time is up.")
        await queue.stop("nobody", "Time is up.")
        await settle()
        assert {(await seen(job))[-1]["message"] for job in hers} == {"Time is up."}
        assert pool.stopped == ["a0"]
        await pool.release("b")
        assert (await seen(his))[-1]["event"] == "result"
        assert queue.waiting == {}

    with_queue(test)
