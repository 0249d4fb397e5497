"""Runs over the queue: the server's side and workers together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from explorer.queue import bodies, client, supervisor
from explorer.queue.broker import Broker
from explorer.queue.job import Job
from explorer.queue.line import CANCELLED
from explorer.queue.records import Held, Posted, Waits
from explorer.queue.supervisor import Offer
from explorer.runtime.runs.events import Event
from explorer.web.queue import RunQueue
from tests.queue.holding import ALL, TestPool, eventually, in_time, queue_of, request, rest, until, worker_of

New = Callable[..., Broker]


class Embedded(TestPool):
    """The same runs for a server's own queue."""

    stream = TestPool.stream_or_lose


def test_a_run_says_the_same_as_in_the_servers_own_queue(new_broker: New) -> None:
    async def main() -> None:
        own = RunQueue(Embedded(), 1)
        expected = await rest(own.submit("anna", request("a")))
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), TestPool()):
            assert await rest(queue.submit("anna", request("a"))) == expected
        assert len(expected) == 5

    in_time(main)


def test_sessions_take_turns_though_one_has_ten_waiting(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue:
            anna = [queue.submit("anna", request(f"a{number}")) for number in range(10)]
            await in_line(queue, 10)
            ben = [queue.submit("ben", request(f"b{number}")) for number in range(3)]
            await in_line(queue, 13)
            async with worker_of(new_broker(), pool):
                for job in [*anna, *ben]:
                    assert (await rest(job))[-1]["event"] == "result"
        assert pool.started[:7] == ["a0", "b0", "a1", "b1", "a2", "b2", "a3"]
        assert pool.started[7:] == [f"a{number}" for number in range(4, 10)]

    in_time(main)


async def in_line(queue: client.StreamQueue, count: int) -> None:
    while len((await queue._broker.state()).line) != count:
        await asyncio.sleep(0.01)


def test_one_session_never_runs_two_at_a_time(new_broker: New) -> None:
    async def main() -> None:
        one, other = TestPool(), TestPool()
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), one), worker_of(new_broker(), other):
            first = queue.submit("anna", request("held"))
            await until(first, "sample")
            queue.submit("anna", request("a2"))
            ben = queue.submit("ben", request("b"))
            assert (await rest(ben))[-1]["event"] == "result"
            assert sorted([*one.started, *other.started]) == ["b", "held"]

    in_time(main)


def test_a_worker_takes_only_what_it_runs_and_a_run_for_none_says_so(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), TestPool(), Offer(("cpu",))):
            gpu = queue.submit("anna", request("g", on="gpu"))
            assert (await rest(queue.submit("ben", request("b"))))[-1]["event"] == "result"
            told = await until(gpu, "queued")
            while "No worker that runs 'gpu'" not in told["message"]:
                told = await until(gpu, "queued")
            async with worker_of(new_broker(), TestPool(), Offer(("gpu",))):
                assert (await rest(gpu))[-1]["event"] == "result"

    in_time(main)


def test_a_replay_is_done_by_a_worker_of_any_target(new_broker: New) -> None:
    """Though it is of a GPU's times: it would wait for one for ever."""

    async def main() -> None:
        replay = {**request("r", on="gpu"), "tune": {"trials": 4, "replay": "spmm/dense-32"}}
        async with queue_of(new_broker()) as queue:
            job = queue.submit("anna", replay)
            told = await until(job, "queued")
            while "No worker is there" not in told["message"]:
                told = await until(job, "queued")
            async with worker_of(new_broker(), TestPool(), Offer(("cpu",))):
                assert (await rest(job))[-1]["event"] == "result"

    in_time(main)


def test_a_newer_run_takes_the_waiting_ones_place(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue:
            old = queue.submit("anna", request("old"), "page 1")
            other = queue.submit("anna", request("other"), "page 2")
            await in_line(queue, 2)
            new = queue.submit("anna", request("new"), "page 1")
            assert (await rest(old))[-1]["kind"] == "superseded"
            async with worker_of(new_broker(), pool):
                await rest(new)
                await rest(other)
        assert pool.started == ["new", "other"]

    in_time(main)


def test_a_full_line_refuses_and_makes_room(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker(longest=3, of_one=3)) as queue:
            anna = [queue.submit("anna", request(f"a{number}")) for number in range(3)]
            await in_line(queue, 3)
            (event,) = await rest(queue.submit("anna", request("more")))
            assert "3 runs of yours" in event["message"]
            ben = queue.submit("ben", request("b"))
            (event,) = await rest(anna[2])
            assert "made room" in event["message"]
            assert (await until(ben, "queued"))["position"] == 2

    in_time(main)


def test_cancelling_frees_the_worker(new_broker: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the worker's first look that finds it, of ten a second, and not only for being unwatched."""

    async def main() -> None:
        pool, broker, found = TestPool(), new_broker(), list[str]()
        standing = broker.standing

        async def noted(held: Held) -> tuple[bool, str, bool]:
            answer = await standing(held)
            found.extend([answer[1]] if answer[1] else [])
            return answer

        monkeypatch.setattr(broker, "standing", noted)
        async with queue_of(new_broker()) as queue, worker_of(broker, pool):
            for _ in range(5):
                job = queue.submit("anna", request("held"))
                await until(job, "sample")
                queue.cancel(job)
                assert (await rest(job))[-1]["kind"] == "cancelled"
                after = queue.submit("anna", request("after"))
                await until(after, "started")
                await rest(after)
            assert found == [CANCELLED] * 5
            assert pool.stopped == ["held"] * 5
            assert await queue._broker.redis.keys("explorer:session:*") == []

    in_time(main)


def test_cancelling_a_waiting_run_takes_it_out_of_the_line(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue:
            jobs = [queue.submit(name, request(name)) for name in ("anna", "ben")]
            await in_line(queue, 2)
            queue.cancel(jobs[0])
            await in_line(queue, 1)
            assert (await until(jobs[1], "queued"))["position"] in (1, 2)
            pool = TestPool()
            async with worker_of(new_broker(), pool):
                await rest(jobs[1])
            assert pool.started == ["ben"]

    in_time(main)


def test_a_paused_queue_begins_nothing_until_it_goes_on(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue, queue_of(new_broker()) as other, worker_of(new_broker(), pool):
            runs = queue.submit("anna", request("held"))
            await until(runs, "sample")
            await other.pause()
            assert 0 < await other._broker.redis.ttl("explorer:orders") <= 600  # nobody may be left to take it back
            queue.cancel(runs)
            waits = queue.submit("ben", request("b"))
            assert "The instructor has paused runs. This one is number 1" in (await until(waits, "queued"))["message"]
            await eventually(lambda: queue.paused)
            assert (await queue.look()).waiting == (await other.look()).waiting == {"ben": 1}
            assert pool.started == ["held"]
            await queue.go_on()
            assert (await rest(waits))[-1]["event"] == "result"

    in_time(main)


def test_all_runs_of_a_session_are_stopped_and_told_why(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue, queue_of(new_broker()) as other, worker_of(new_broker(), pool):
            hers = [queue.submit("anna", request(name)) for name in ("held", "a1", "a2")]
            await until(hers[0], "sample")
            his = queue.submit("ben", request("b"))
            await in_line(queue, 3)
            await other.stop("anna", "Time is up.")
            await other.stop("nobody", "Time is up.")
            assert {(await rest(job))[-1]["message"] for job in hers} == {"Time is up."}
            assert (await rest(his))[-1]["event"] == "result"
            assert pool.stopped == ["held"]

    in_time(main)


def test_so_many_runs_of_a_session_may_wait_as_was_said_at_any_server(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue, queue_of(new_broker()) as other:
            await other.let_wait(2)
            jobs = [queue.submit("anna", request(f"a{number}")) for number in range(3)]
            assert "2 runs of yours wait" in (await rest(jobs[2]))[-1]["message"]
            assert (await queue.look()).of_one == 2

    in_time(main)


def test_a_run_whose_process_dies_is_done_once_more_and_says_so(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool(deaths=1)
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), pool):
            found = await rest(queue.submit("anna", request("dies")))
        kinds = [event["event"] for event in found]
        assert kinds.count("repeated") == 1
        assert kinds[kinds.index("repeated") + 1 :] == ["started", "sample", "sample", "sample", "result"]
        assert found[-1]["repeated"] is True
        assert pool.started == ["dies"] * 2

    in_time(main)


def test_a_run_that_kills_every_process_is_begun_twice_and_no_more(new_broker: New) -> None:
    async def main() -> None:
        pool = TestPool(deaths=10)
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), pool):
            last = (await rest(queue.submit("anna", request("dies"))))[-1]
            assert last["kind"] == "crashed"
            assert "Two workers died" in last["message"]
            assert (await rest(queue.submit("anna", request("a"))))[-1]["event"] == "result"
        assert pool.started == ["dies", "dies", "a"]

    in_time(main)


def test_a_run_of_a_worker_that_falls_silent_is_anothers_and_ends_once(new_broker: New) -> None:
    """The first one is only slow: it comes back when its run is another's, and what it says no longer counts."""

    async def main() -> None:
        broker = new_broker()
        async with queue_of(new_broker()) as queue:
            job = queue.submit("anna", request("a"))
            await in_line(queue, 1)
            slow = await broker.take("slow", ("cpu",), set())
            assert slow is not None
            await broker.post(slow, 1, {"event": "started", "of": "slow"})
            async with worker_of(new_broker(), TestPool(), lease_seconds=0.4):
                found = await rest(job)
            assert found[0] == {"event": "started", "of": "slow"}
            assert [event["event"] for event in found].count("result") == 1
            assert found[-1]["repeated"] is True
            await broker.post(slow, 2, {"event": "progress", "of": "slow"})
            assert not await broker.finish(slow, 3, {"event": "result", "of": "slow"})
        await broker.redis.aclose()

    in_time(main)


def test_a_page_that_comes_back_gets_the_rest_and_nothing_twice(new_broker: New) -> None:
    async def main() -> None:
        expected = await rest(RunQueue(Embedded(), 1).submit("anna", request("a")))
        async with worker_of(new_broker(), TestPool()):
            for stops_after in range(len(expected)):
                seen: list[Event] = []
                async with queue_of(new_broker()) as queue:
                    job = queue.submit("anna", request("a"))
                    async for event in job.events():
                        if event["event"] != "queued":
                            seen.append(event)
                        if len(seen) >= stops_after:  # a free worker leaves no time for a 'queued'
                            break
                    at = job.at
                # The page has lost its connection, and its server has been replaced by another.
                async with queue_of(new_broker()) as queue:
                    seen += await rest(queue.resume("anna with a new cookie", at))
                assert seen == expected, stops_after

    in_time(main)


def test_a_page_that_comes_back_while_its_run_is_read_misses_nothing(
    new_broker: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        expected = await rest(RunQueue(Embedded(), 1).submit("anna", request("a")))
        broker = new_broker()
        events_after, read, back = broker.events_after, list[str](), asyncio.Event()

        async def one_by_one(at: dict[str, str], block_ms: int) -> dict[str, list[Posted]]:
            """An event a time; what is read as the fourth arrives once the page is back."""
            found = {run: posted[:1] for run, posted in (await events_after(at, block_ms)).items()}
            read.extend(found)
            if len(read) == 4:
                await back.wait()
            return found

        monkeypatch.setattr(broker, "events_after", one_by_one)
        async with queue_of(broker) as queue, worker_of(new_broker(), TestPool()):
            job = queue.submit("anna", request("a"))
            seen = [await first_of(job)]
            at = job.at
            await eventually(lambda: len(read) == 4)
            again = queue.resume("anna", at)
            await asyncio.sleep(0)
            back.set()
            seen += await rest(again)
        assert seen == expected

    in_time(main)


async def first_of(job: Job) -> Event:
    """The first event of a run itself."""
    async for event in job.events():
        if event["event"] != "queued":
            return event
    raise AssertionError


def test_a_page_that_comes_back_as_somebody_else_can_stop_its_runs(new_broker: New) -> None:
    """A server that starts anew gives out new cookies."""

    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), pool):
            runs = queue.submit("anna", request("held"))
            await until(runs, "sample")
            waits = queue.submit("anna", request("waits"))
            await in_line(queue, 1)
            for job in (waits, runs):
                queue.leave(job)
                queue.cancel(again := queue.resume("ben", job.at))
                assert (await rest(again))[-1]["kind"] == "cancelled"
            await eventually(lambda: pool.stopped == ["held"])
            await in_line(queue, 0)
            assert pool.started == ["held"]

    in_time(main)


def test_what_is_no_place_in_a_run_is_refused(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue:
            for at in ("", "a/b", f"{'0' * 32}/0-0/0/0", "explorer:line/0-0/0/0"):
                (event,) = await rest(queue.resume("anna", at))
                assert "no longer knows this run" in event["message"]

    in_time(main)


def test_a_run_that_nobody_waits_for_is_stopped(new_broker: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.queue.broker.WATCH_SECONDS", 1)
    monkeypatch.setattr("explorer.queue.client.WATCH_SECONDS", 1)
    monkeypatch.setattr(supervisor, "UNWATCHED_SECONDS", 0.5)

    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue:
            waits = queue.submit("anna", request("waits"))
            await in_line(queue, 1)
            queue.leave(waits)
            await in_line(queue, 0)
            async with worker_of(new_broker(), pool):
                held = queue.submit("anna", request("held"))
                await until(held, "sample")
                queue.leave(held)
                await eventually(lambda: pool.stopped == ["held"])
            assert pool.started == ["held"]

    in_time(main)


def test_a_run_of_another_version_is_refused_with_a_sentence(new_broker: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "version", lambda: "0123456789ab")

    async def main() -> None:
        pool = TestPool()
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), pool):
            (event,) = await rest(queue.submit("anna", request("a")))
            assert event["kind"] == "refused"
            assert "version 0123456789ab of the explorer and this worker is version" in event["message"]
            with pytest.raises(supervisor.WorkerError, match="both must be the same one"):
                await supervisor.Supervisor(new_broker(), pool, ALL).check()
            # A server that has gone keeps no newer worker away.
            assert 0 < await queue._broker.redis.ttl("explorer:version") <= 15
        assert pool.started == []

    in_time(main)


def test_what_is_no_job_is_refused_and_the_next_one_runs(new_broker: New) -> None:
    async def main() -> None:
        broker = new_broker()
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), TestPool()):
            for text in ("", "[]", "no JSON", '{"version": 1}', "[" * 100_000, "x" * (bodies.LARGEST_JOB + 1)):
                run = Waits("mallory", "", f"{len(text):032x}", "cpu")
                assert await broker.submit(run, text, queue._pace) is None
                last = await rest(queue.resume("mallory", f"{run.run}/0-0/0/0"))
                assert last[-1]["kind"] == "refused", text[:20]
            last = await rest(queue.submit("anna", {**request("a"), "data": "/etc/passwd"}))
            assert "has no data set '/etc/passwd'" in last[-1]["message"]
            assert (await rest(queue.submit("anna", request("a"))))[-1]["event"] == "result"
        await broker.redis.aclose()

    in_time(main)


def test_what_is_no_event_ends_its_run_alone(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), TestPool()):
            job = queue.submit("anna", request("held"))
            run = job.at.partition("/")[0]
            await until(job, "sample")
            for told in ({"what": "ever"}, {"attempt": 1, "number": 9, "event": "[1"}):
                await queue._broker.redis.xadd(f"explorer:run:{run}", told)
                last = (await rest(queue.resume("anna", f"{run}/0-0/0/0")))[-1]
                assert "no event" in last["message"]
            await queue._broker.cancel(run)
            assert (await rest(queue.submit("ben", request("b"))))[-1]["event"] == "result"

    in_time(main)


def test_a_request_that_is_too_long_does_not_reach_the_queue(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue:
            (event,) = await rest(queue.submit("anna", {**request("a"), "text": "x" * bodies.LARGEST_JOB}))
            assert "more than the" in event["message"]
            assert await queue._broker.redis.exists("explorer:turns") == 0

    in_time(main)


def test_a_runs_stream_is_trimmed_and_what_is_too_long_is_refused(
    new_broker: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.queue.broker.EVENTS_KEPT", 50)
    monkeypatch.setattr(bodies, "LINE_BYTES", 1000)

    async def main() -> None:
        broker = new_broker()
        async with queue_of(new_broker()) as queue:
            job = queue.submit("anna", request("a"))
            await in_line(queue, 1)
            held = await broker.take("w", ("cpu",), set())
            assert held is not None
            for number in range(1, 1001):
                await broker.post(held, number, {"event": "sample", "index": number})
            # A stream is trimmed by whole nodes, of a hundred entries each.
            assert 50 <= await broker.redis.xlen(f"explorer:run:{held.run}") <= 150
            assert await broker.finish(held, 1001, {"event": "result", "rows": "x" * 1000})
            assert "more than the" in (await rest(job))[-1]["message"]
        await broker.redis.aclose()

    in_time(main)


def test_nothing_is_left_of_runs_but_their_events_for_a_while(new_broker: New) -> None:
    async def main() -> None:
        async with queue_of(new_broker()) as queue, worker_of(new_broker(), TestPool()):
            jobs: list[Job] = [queue.submit(name, request(name)) for name in ("anna", "ben", "anna")]
            for job in jobs:
                await rest(job)
            redis = queue._broker.redis
            for kind in ("session", "job", "cancel"):
                assert await redis.keys(f"explorer:{kind}:*") == []
            assert await redis.exists("explorer:turns", "explorer:running") == 0
            kept = await redis.keys("explorer:run:*")
            assert len(kept) == 3
            for key in kept:
                assert 0 < await redis.ttl(key) <= 600

    in_time(main)
