"""Worker processes: what happens to a request when its process dies, hangs, runs out of memory or is let go."""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from explorer.checkout import CHECKOUT
from explorer.runtime.runs.events import Event
from explorer.runtime.runs.request import RunRequest
from explorer.runtime.workers.allowed import Allowed
from explorer.runtime.workers.pool import Worker, WorkerPool, stream_here
from explorer.runtime.workers.worker import LARGEST_ANSWER, line_of, run_model

GCN = (CHECKOUT / "examples/rgnn/gcn.emb").read_text()
TRANSE = """dim D = 64
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""


def compile_request(text: str = TRANSE) -> dict[str, Any]:
    return {"text": text, "name": None, "sizes": {}, "options": {}, "stages": ["graph"]}


def joined(operands: int) -> str:
    """A text that takes longer than in proportion to these: the graph of 3,000 0.3 s, all stages of 5,000 minutes."""
    many = ", ".join(["E[h]"] * operands)
    return TRANSE.replace("norm(E[h] + R[r] - E[t], 1)", f"norm(concat({many}), 2)")


def run_request(**changes: Any) -> dict[str, Any]:
    return {"text": TRANSE, "on": "cpu", "repeat": 3, **changes}


LONG = run_request(batch=60_000, repeat=10_000_000)
"""Repeats without end, on any host."""
ROLE_ARGUMENTS = ["run-once", str(1 << 32), "0"]
PATIENCE = 30
"""How long, in s, a test waits for what takes a moment, and far less than it takes where it does not come."""


def with_pool(role: Any, test: Callable[[WorkerPool], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        pool = WorkerPool(role, **{"spare": 0, "quiet": True, **settings})
        try:
            await test(pool)
        finally:
            await pool.close()

    asyncio.run(main())


async def last_of(pool: WorkerPool, request: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
    """A request's last event."""
    return [event async for event in pool.stream(request, seconds)][-1]


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it is opened, or before it is read
        return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)


def test_one_worker_answers_one_request_after_another() -> None:
    async def test(pool: WorkerPool) -> None:
        first = await last_of(pool, compile_request())
        pids = pool.pids
        second = await last_of(pool, compile_request())
        assert first["ok"]
        assert second["ok"]
        assert pool.pids == pids

    with_pool("compile", test)


def test_a_bad_model_is_an_answer_not_a_failure() -> None:
    async def test(pool: WorkerPool) -> None:
        answer = await last_of(pool, compile_request("score ("))
        assert answer["event"] == "result"
        assert answer["ok"] is False
        assert answer["diagnostics"]

    with_pool("compile", test)


def test_a_run_streams_its_events() -> None:
    events = list(stream_here(run_request()))
    kinds = [event["event"] for event in events]
    assert kinds.count("sample") == 3
    assert kinds.index("started") < kinds.index("sample") < kinds.index("result") == len(kinds) - 1
    assert events[-1]["matches_reference"] is True


def test_scores_that_are_no_numbers_still_make_json() -> None:
    text = TRANSE.replace("norm(E[h] + R[r] - E[t], 1)", "sum(log(E[h])) / (0.0 * sum(R[r]))")
    for target in ("cpu", "dae"):
        last = list(stream_here(run_request(text=text, on=target, batch=16)))[-1]
        assert last["matches_reference"] is True, last


def test_a_file_whose_name_is_no_unicode_is_named_in_the_answer() -> None:
    async def ask(pool: WorkerPool) -> None:
        last = await last_of(pool, {**run_request(text=GCN, on="dae"), "data": "none\udce9.tsv"})
        assert (last["event"], last["kind"]) == ("failed", "refused"), last
        assert "none\udce9.tsv" in last["message"]

    with_pool("run", ask)


def test_a_killed_worker_is_reported_and_replaced() -> None:
    async def test(pool: WorkerPool) -> None:
        seen = []
        async with aclosing(pool.stream(LONG, 600)) as stream:
            async for event in stream:
                seen.append(event)
                if event["event"] == "sample" and len(pool.pids) == 1:
                    os.kill(pool.pids[0], signal.SIGKILL)
        assert seen[-1]["kind"] == "crashed"
        assert "SIGKILL" in seen[-1]["message"]
        assert (await last_of(pool, run_request()))["event"] == "result"

    with_pool("run-once", test)


def test_a_kernel_that_breaks_the_device_ends_its_worker_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "tests" / "fake_cuda"), str(root)]))
    monkeypatch.setenv("FAKE_CUDA_BREAKS", "transe")

    async def test(pool: WorkerPool) -> None:
        await last_of(pool, run_request())
        (first,) = pool.pids
        answer = await last_of(pool, run_request(on="gpu", batch=4))
        assert (answer["kind"], answer["message"]) == (
            "crashed",
            "The GPU stopped the kernels: an illegal memory access was encountered.",
        )
        wait_until_gone(first)
        assert (await last_of(pool, run_request()))["event"] == "result"
        assert pool.pids != [first]

    with_pool("run-once", test)


def test_a_compilation_whose_worker_dies_is_not_tried_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[Worker, str]] = []
    read = Worker._read

    async def noted(worker: Worker) -> Event:
        event = await read(worker)
        said.append((worker, event["event"]))
        return event

    monkeypatch.setattr(Worker, "_read", noted)

    async def test(pool: WorkerPool) -> None:
        compiling = asyncio.create_task(last_of(pool, {**compile_request(joined(5_000)), "stages": ["slc.opt3"]}))
        while "taken" not in [event for _, event in said]:
            await asyncio.sleep(0.01)
        next(worker for worker, event in said if event == "taken").kill()
        assert (await compiling)["kind"] == "crashed"
        assert [event for _, event in said].count("taken") == 1

    with_pool("compile", test)


def until_taken(monkeypatch: pytest.MonkeyPatch, pool: WorkerPool, text: str) -> Awaitable[None]:
    """Has a worker of the pool take a text, and leaves it at that."""
    taken = asyncio.Event()
    read = Worker._read

    async def noted(worker: Worker) -> Event:
        event = await read(worker)
        if event["event"] == "taken":
            taken.set()
        return event

    monkeypatch.setattr(Worker, "_read", noted)

    async def leave() -> None:
        asked = asyncio.create_task(last_of(pool, compile_request(text)))
        await taken.wait()
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()

    return leave()


def test_a_worker_that_is_left_near_its_end_answers_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(pool: WorkerPool) -> None:
        await last_of(pool, compile_request())
        pids = pool.pids
        await until_taken(monkeypatch, pool, joined(3_000))  # else it may have ended when this process looks
        answer = await last_of(pool, compile_request())
        assert (answer["name"], pool.pids, pool.retired) == ("TransE", pids, 0)

    with_pool("compile", test, to_its_end=PATIENCE)


def test_a_worker_that_is_left_for_longer_than_another_takes_to_start_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(pool: WorkerPool) -> None:
        await last_of(pool, compile_request())
        pids = pool.pids
        await until_taken(monkeypatch, pool, joined(5_000))
        async with asyncio.timeout(PATIENCE):
            answer = await last_of(pool, compile_request())
        assert (answer["name"], pool.retired) == ("TransE", 1)
        assert pids != pool.pids

    with_pool("compile", test, to_its_end=0.1)


def test_a_request_that_no_worker_took_goes_to_another() -> None:
    async def test(pool: WorkerPool) -> None:
        await last_of(pool, compile_request())
        os.kill(pool.pids[0], signal.SIGKILL)  # while it waits
        assert (await last_of(pool, compile_request()))["ok"]

    with_pool("compile", test)


@pytest.mark.parametrize(("most", "answers"), [(0, 1), (100, 2)])
def test_a_worker_ends_after_its_answer_once_it_keeps_more_kernels_than_it_may(most: int, answers: int) -> None:
    """It has two requests, and ends by itself after the first, or when its stdin is closed."""
    program = "from explorer.runtime.workers import worker\n"
    program += f"worker.MOST_KERNELS = {most}\nworker.main({ROLE_ARGUMENTS})"
    asked = "".join(json.dumps(run_request(batch=8)) + "\n" for _ in range(2))
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked.encode())
        process.stdin.flush()
        results = 0
        for line in process.stdout:
            results += json.loads(line)["event"] == "result"
            if results == answers == 2:
                break
        process.stdin.close()
        assert (process.wait(PATIENCE), results) == (0, answers)


def test_a_run_after_a_worker_that_ended_by_itself_is_had_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether it has ended when the next run comes, or is about to."""
    python = tmp_path / "python"  # in the place of `python -m explorer.runtime.workers.worker`
    program = (
        "import sys; from explorer.runtime.workers import worker; worker.MOST_KERNELS = 0; worker.main(sys.argv[1:])"
    )
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" -c "{program}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    async def test(pool: WorkerPool) -> None:
        for ended in range(3):
            assert (await last_of(pool, run_request()))["event"] == "result"
            assert pool.retired <= ended + 1
        async with asyncio.timeout(PATIENCE):
            while pool.retired < 3:
                await asyncio.sleep(0.02)

    with_pool("run-once", test)


def test_workers_that_end_while_they_wait_are_replaced_though_nobody_asks() -> None:
    async def test(pool: WorkerPool) -> None:
        async def all_are_up(but: set[int]) -> None:
            async with asyncio.timeout(4 * PATIENCE):
                while len(set(pool.pids) - but) < 2:
                    await asyncio.sleep(0.02)

        pool.open()
        await all_are_up(set())
        first = set(pool.pids)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        await all_are_up(first)
        assert pool.retired == 2
        assert (await last_of(pool, compile_request()))["ok"]
        assert pool.retired == 2

    with_pool("compile", test, spare=1)


def test_runs_make_way_for_compilations_and_these_for_the_server() -> None:
    niceness: list[int] = [os.getpriority(os.PRIO_PROCESS, 0)]

    async def test(pool: WorkerPool) -> None:
        pool.open()
        async with asyncio.timeout(8 * PATIENCE):
            while not pool.pids:
                await asyncio.sleep(0.02)
        niceness.append(os.getpriority(os.PRIO_PROCESS, pool.pids[0]))
        grouped = Path(f"/proc/{pool.pids[0]}/autogroup")
        if grouped.exists():  # then sessions share the cores, and a process's niceness counts within its own alone
            assert grouped.read_text().split()[-1] == str(niceness[-1] - niceness[0])

    with_pool("compile", test)
    with_pool("reuse", test)
    with_pool("run-once", test)
    own, compiling, counting, once = niceness
    assert once == own, "on the command line nobody is waited for"
    assert own < compiling < counting or counting == 19, niceness


def test_a_worker_over_its_time_is_killed() -> None:
    async def test(pool: WorkerPool) -> None:
        await last_of(pool, compile_request())
        (pid,) = pool.pids
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        answer = await last_of(pool, compile_request(), seconds=0.3)
        assert time.monotonic() - began < PATIENCE  # of a worker that does nothing any more
        assert answer["kind"] == "timeout"
        assert "0.3 s" in answer["message"]
        wait_until_gone(pid)

    with_pool("compile", test)


def test_leaving_the_stream_kills_the_worker() -> None:
    async def test(pool: WorkerPool) -> None:
        async with aclosing(pool.stream(LONG, 600)) as stream:
            async for event in stream:
                if event["event"] == "sample":
                    (pid,) = pool.pids
                    break
        wait_until_gone(pid)

    with_pool("run-once", test)


@pytest.mark.parametrize("when", ["while it starts", "before it is taken", "while it runs"])
def test_a_pool_closes_while_somebody_waits_for_an_answer(when: str) -> None:
    """As a server that is told to end while a page waits for SASS: who waits reads that the worker is gone, and the
    pool is not read from by two at once, nor begins another worker."""

    async def test(pool: WorkerPool) -> None:
        runs = asyncio.Event()

        async def last() -> Event:
            async for event in pool.stream(LONG, 600):
                if event["event"] == "sample":
                    runs.set()
            return event

        waiting = asyncio.create_task(last())
        await asyncio.sleep(0)
        async with asyncio.timeout(8 * PATIENCE):
            while when != "while it starts" and not pool.pids:
                await asyncio.sleep(0.001)
            if when == "while it runs":
                await runs.wait()
        await pool.close()
        async with asyncio.timeout(PATIENCE):
            assert (await waiting)["kind"] == "crashed"
        assert not pool.pids
        assert not pool._starting
        assert (await last_of(pool, LONG))["kind"] == "crashed", "as for who asks later"

    with_pool("run-once", test)


def test_a_run_beyond_the_memory_limit_fails_with_a_sentence() -> None:
    async def test(pool: WorkerPool) -> None:
        answer = await last_of(pool, run_request(sizes={"D": 16_000}, memory=2 << 30))
        assert answer["kind"] == "memory"
        assert "memory" in answer["message"]

    with_pool("run-once", test, memory=700 << 20)


def test_a_worker_that_cannot_start_is_reported() -> None:
    async def test(pool: WorkerPool) -> None:
        answer = await last_of(pool, compile_request())
        assert answer["kind"] == "crashed"

    with_pool("compile", test, memory=1 << 20)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_their_parent(how: signal.Signals) -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        from explorer.runtime.workers.pool import WorkerPool

        async def main():
            pool = WorkerPool("compile", spare=0)
            request = {"text": "", "name": None, "sizes": {}, "options": {}, "stages": []}
            async for _ in pool.stream(request, 60):
                pass
            print(pool.pids[0], flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_running(worker)
        parent.send_signal(how)
    wait_until_gone(worker)


def test_a_compilation_too_large_to_show_is_refused_where_it_is_made() -> None:
    """While each line named all operations that it comes of, a score of 220 had 61 MB, which stopped the server."""
    large = {"event": "result", "ok": True, "stages": ["x" * LARGEST_ANSWER]}
    answer = json.loads(line_of(large, "compile"))
    assert (answer["event"], answer["kind"]) == ("failed", "refused")
    assert "take 8 MB, more than the 8 MB" in answer["message"]
    assert json.loads(line_of(large, "run")) == large


def test_an_event_is_written_as_the_json_that_it_is() -> None:
    """What JSON has no number for is null; names of files that are no Unicode go there and back by their codes."""
    event = {"event": "result", "text": 'é "\n', "numbers": (0.1, 1e-7, -0.0, 3, 1 << 70, True, None), 5: {"a": []}}
    assert json.loads(line_of(event, "run")) == json.loads(json.dumps(event))
    odd = {"event": "result", "names": ["\udcff"], "numbers": (math.nan, [math.inf], {"low": -math.inf})}
    for shown in (odd, {**odd, "names": []}):
        answer = json.loads(line_of(shown, "run"))
        assert answer == {**shown, "numbers": [None, [None], {"low": None}]}
        assert b"\n" not in line_of(shown, "run")


def test_arrays_may_take_half_of_what_their_process_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[RunRequest] = []
    monkeypatch.setattr("explorer.runtime.run.execute", lambda request: asked.append(request) or iter(()))
    monkeypatch.setattr("explorer.runtime.workers.worker.stack_bytes", lambda: 0)  # of which test_memory.py is
    for limit in (3 << 30, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        list(run_model({"text": TRANSE, "on": "cpu"}))
    list(run_model({"text": TRANSE, "on": "cpu", "memory": 5}))
    assert [request.memory for request in asked] == [3 << 29, None, 5]


@pytest.mark.parametrize(("last", "ends"), [("sample", True), ("result", False)])
def test_a_worker_that_tells_more_than_is_read_has_no_more_time(last: str, ends: bool) -> None:
    """There is always an event to read, so that no wait for one is ever too long."""

    async def read_all() -> str:
        stdout = asyncio.StreamReader()
        stdout.feed_data(b'{"event":"sample"}\n' * 500 if ends else b"")
        stdout.feed_data(f'{{"event":"{last}"}}\n'.encode())
        worker: Any = Worker(SimpleNamespace(stdout=stdout, pid=os.getpid()))  # type: ignore[arg-type]
        allowed = Allowed(os.getpid(), 0.0)
        for _ in range(500):
            event = await worker._read_within(allowed)
            if event["event"] == "result":
                break
        return str(event["event"])

    with pytest.raises(TimeoutError) if ends else nullcontext():
        assert asyncio.run(read_all()) == "result"
