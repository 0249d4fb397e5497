"""Workers and servers that die, over a real queue."""

from __future__ import annotations

import asyncio

import pytest

from explorer.queue.broker import Broker, connect
from tests.queue import whole
from tests.queue.conftest import Server
from tests.queue.faults import endure, is_well
from tests.queue.holding import TestPool, in_time, queue_of, request, rest, until, worker_of


def test_no_run_is_lost_and_none_doubled_while_workers_are_killed(server: Server) -> None:
    figures = asyncio.run(endure(server.url, runs=50, faults=8, each=0.2))  # so that all faults find a run, on any host
    print(figures)
    assert is_well(figures), figures
    assert figures["repeated"] > 0


@pytest.mark.parametrize(
    ("runs", "faults"),
    [
        pytest.param(1_000, 20, marks=pytest.mark.sweep),
        pytest.param(10_000, 200, marks=pytest.mark.exhaustive),
    ],
)
def test_thousands_of_runs_and_a_fault_in_every_fifty(server: Server, runs: int, faults: int) -> None:
    figures = asyncio.run(endure(server.url, runs=runs, faults=faults, workers=4, seconds_between=0.8))
    print(figures)
    assert is_well(figures), figures
    assert sum(figures["killed"].values()) == faults


@pytest.mark.sweep
def test_pages_lose_no_run_while_whatever_takes_part_is_killed(server: Server) -> None:
    figures = asyncio.run(whole.endure(runs=300, faults=20, between=1.0))
    print(figures)
    assert whole.is_well(figures), figures
    assert sum(figures["killed"].values()) > 0


def test_a_queue_that_is_away_is_told_and_used_again_when_it_is_back(server: Server) -> None:
    def broker() -> Broker:
        return Broker(connect(server.url), 10, 10)

    async def main() -> None:
        pool = TestPool()
        async with queue_of(broker()) as queue, worker_of(broker(), pool):
            going = queue.submit("anna", request("held"))
            await until(going, "sample")
            server.kill()
            (event,) = await rest(queue.submit("ben", request("b")))
            assert event["message"] == "The queue of runs cannot be reached."
            assert "away" in (await until(going, "progress"))["what"]
            server.start()
            # What ran goes on and was not begun again; what comes now is taken.
            queue.cancel(going)
            last = (await rest(queue.submit("ben", request("b"))))[-1]
            assert last == {"event": "result", "name": "b"}
        assert pool.started == ["held", "b"]

    try:
        in_time(main)
    finally:
        if server.process is not None and server.process.poll() is not None:
            server.start()


def test_a_run_that_waits_outlives_its_queues_death(server: Server) -> None:
    async def main() -> None:
        async with queue_of(Broker(connect(server.url), 10, 10)) as queue:
            job = queue.submit("anna", request("a"))
            await until(job, "queued")
            server.kill()
            server.start()
            async with worker_of(Broker(connect(server.url)), TestPool()):
                assert (await rest(job))[-1] == {"event": "result", "name": "a"}

    in_time(main)


def test_an_outage_that_lasts_ends_what_waits_with_a_sentence(server: Server) -> None:
    async def main() -> None:
        async with queue_of(Broker(connect(server.url), 10, 10), away_seconds=0.5) as queue:
            job = queue.submit("anna", request("a"))
            await until(job, "queued")
            server.kill()
            last = (await rest(job))[-1]
            assert last["message"] == "The queue of runs cannot be reached."
            assert last["hint"]

    try:
        in_time(main)
    finally:
        server.start()
