"""Runs of pages over real servers, while whatever takes part is killed at random: web processes, the queue, workers,
the processes of runs and those that compile.

By hand:  python -m tests.queue.whole --runs 10000 --faults 200
Two `explorer serve` share a store and a queue that writes all down; pages order one run after another over WebSockets,
come back when a connection is lost, and go on with a run that the queue had taken in. Runs are those of `faults.py`.
Prints one line; status 1 where a run was lost, or was begun more often than may be, or what was kept is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import WebSocketException

from explorer.queue.broker import Broker, connect
from tests.queue.conftest import PROGRAM, Server
from tests.queue.faults import children, workers_of

GONE = (OSError, WebSocketException, httpx.HTTPError, TimeoutError)
AGAIN_SECONDS, ANSWER_SECONDS, START_SECONDS = 0.1, 60.0, 120.0
TEXT = "score S{0}(h: entity, r: relation, t: entity):\n    param E[entity, 8]\n    return norm(E[h] - E[t], 1)\n"
WEIGHTS = {"worker": 5, "run process": 5, "web process": 2, "queue itself": 3, "compile process": 5}
"""How often each is killed beside the others."""


@dataclass
class Web:
    """A server on a port of its own, which it has again when it is started anew."""

    queue: str
    store: Path
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as found:
                self.port = found.getsockname()[1]
        asked = ["--port", str(self.port), "--queue", self.queue, "--store", str(self.store)]
        command = [sys.executable, "-m", "explorer.cli", "serve", *asked]
        out, err = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=err)
        assert self.process.stdout is not None
        assert b"http://" in await asyncio.wait_for(self.process.stdout.readline(), START_SECONDS)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass
class Ended:
    """What a page saw of one of its runs: the last event, how often it was told that it is repeated, and events of it
    that came after the last."""

    last: dict[str, Any] = field(default_factory=dict)
    repeated: int = 0
    late: int = 0


@dataclass
class Page:
    """A student's page, on whichever server answers."""

    webs: list[Web]
    draw: random.Random
    cookies: str = ""
    ended: dict[int, Ended] = field(default_factory=dict)

    async def work(self, runs: list[int]) -> None:
        """Order these runs, one after another."""
        todo, at = list(runs), ""
        while todo:
            try:
                web = self.draw.choice(self.webs)
                await self._greet(web)
                headers = {"Cookie": self.cookies}
                async with open_socket(f"ws://127.0.0.1:{web.port}/ws", additional_headers=headers) as page:
                    while todo:
                        is_done = await self._one(page, todo[0], at)
                        todo, at = todo[is_done:], ""
            except Interrupted as error:
                at = error.at
                await asyncio.sleep(AGAIN_SECONDS)
            except GONE:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _greet(self, web: Web) -> None:
        if not self.cookies:
            async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
                found = (await client.get(f"http://127.0.0.1:{web.port}/")).cookies
                self.cookies = "; ".join(f"{name}={value}" for name, value in found.items())

    async def _one(self, page: Any, number: int, at: str) -> bool:
        """One run to its end; False where the queue did not take it in."""
        order = {"type": "run", "run": number, "edit": 1, "text": TEXT.format(1), "on": "cpu", "name": str(number)}
        ended = self.ended.setdefault(number, Ended())
        try:
            await page.send(json.dumps({"type": "resume", "run": number, "edit": 1, "at": at} if at else order))
            while True:
                event = json.loads(await asyncio.wait_for(page.recv(), ANSWER_SECONDS))
                if event.get("run") != number:
                    before = self.ended.get(event.get("run", -1))
                    if before is not None:
                        before.late += 1
                    continue
                at = event.get("at", at)
                ended.repeated += event["event"] == "repeated"
                if event["event"] in ("result", "failed"):
                    if not at and event["event"] == "failed":
                        await asyncio.sleep(AGAIN_SECONDS)
                        return False
                    ended.last = event
                    return True
        except GONE:
            raise Interrupted(at) from None


class Interrupted(Exception):
    """The connection was lost; `at` is where the page had got to."""

    def __init__(self, at: str) -> None:
        super().__init__(at)
        self.at = at


async def type_on(webs: list[Web], answers: Counter[str]) -> None:
    """Compiles one new text after another, at the servers in turns."""
    number = 0
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as client:
        while True:
            number += 1
            try:
                body = {"text": TEXT.format(number), "stages": ["graph", "loops"]}
                answer = await client.post(f"http://127.0.0.1:{webs[number % len(webs)].port}/api/compile", json=body)
                told = answer.json()
                answers["compiled" if told["ok"] else told["diagnostics"][0]["message"]] += 1
            except GONE:
                answers["no server"] += 1
            await asyncio.sleep(0.2)


class Killer:
    """Kills one of what takes part, and starts it again."""

    def __init__(self, queue: Server, webs: list[Web], workers: list[Any], start: Any, draw: random.Random) -> None:
        self.killed: Counter[str] = Counter()
        self._queue, self._webs, self._workers, self._start, self._draw = queue, webs, workers, start, draw

    async def kill(self, faults: int, seconds_between: float) -> None:
        while self.killed.total() < faults:
            await asyncio.sleep(self._draw.uniform(0.0, 2 * seconds_between))
            (kind,) = self._draw.choices(list(WEIGHTS), list(WEIGHTS.values()))
            self.killed[kind] += await getattr(self, f"_{kind.replace(' ', '_')}")()

    async def _worker(self) -> bool:
        worker = self._draw.choice(self._workers)
        worker.kill()
        self._workers.remove(worker)
        await worker.wait()
        self._workers.append(await self._start())
        return True

    async def _run_process(self) -> bool:
        return self._one_of(self._draw.choice(self._workers).pid)

    async def _web_process(self) -> bool:
        web = self._draw.choice(self._webs)
        await web.kill()
        await web.start()
        return True

    async def _compile_process(self) -> bool:
        web = self._draw.choice(self._webs)
        return self._one_of(web.process.pid) if web.process is not None else False

    async def _queue_itself(self) -> bool:
        await asyncio.to_thread(self._queue.kill)
        await asyncio.to_thread(self._queue.start)
        return True

    def _one_of(self, pid: int) -> bool:
        own = children(pid)
        if own:
            with suppress(ProcessLookupError):
                os.kill(self._draw.choice(own), signal.SIGKILL)
                return True
        return False


async def endure(runs: int, faults: int, *, pages: int = 30, workers: int = 3, between: float, seed: int = 0) -> Any:
    """What became of so many runs while so many were killed."""
    draw, began, answers = random.Random(seed), perf_counter(), Counter[str]()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whole-")))
        queue = Server(folder)
        await asyncio.to_thread(queue.start)
        stack.callback(queue.kill)
        webs = [Web(queue.url, folder / "store.db") for _ in range(2)]
        for web in webs:
            stack.push_async_callback(web.kill)
            await web.start()
        processes, start = await stack.enter_async_context(workers_of(queue.url, workers))
        students = [Page(webs, random.Random(f"{seed} {number}")) for number in range(pages)]
        link = await shared(webs[0])
        killer = Killer(queue, webs, processes, start, draw)
        beside = [asyncio.create_task(killer.kill(faults, between)), asyncio.create_task(type_on(webs, answers))]
        await asyncio.gather(*(page.work(list(range(own, runs, pages))) for own, page in enumerate(students)))
        for task in beside:
            task.cancel()
        failed = await asyncio.gather(*beside, return_exceptions=True)
        for each in failed:
            if isinstance(each, Exception):
                raise each
        left = await Broker(connect(queue.url)).state()
        kept = await what_is_kept(webs, students, link)
    return figures(runs, students, killer.killed, answers) | {
        "left": len(left.line) + len(left.running),
        **kept,
        "seconds": round(perf_counter() - began, 1),
    }


async def shared(web: Web) -> str:
    """The path of a text that was shared."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{web.port}", timeout=ANSWER_SECONDS) as client:
        await client.get("/")
        return str((await client.post("/api/share", json={"text": TEXT.format(0)})).json()["path"])


async def what_is_kept(webs: list[Web], pages: list[Page], link: str) -> dict[str, Any]:
    """Whether the link still leads somewhere, and the states of the runs in the students' histories."""
    states: Counter[str] = Counter()
    for web in webs:
        if web.process is None or web.process.returncode is not None:
            await web.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{webs[0].port}", timeout=ANSWER_SECONDS) as client:
        found = (await client.get(link)).status_code
        for page in pages:
            entries = (await client.get("/api/runs", headers={"Cookie": page.cookies})).json()["entries"]
            states.update(entry["state"] for entry in entries)
    return {"link": found, "history": dict(states)}


def figures(runs: int, pages: list[Page], killed: Counter[str], answers: Counter[str]) -> dict[str, Any]:
    """The runs' ends, counted."""
    ended = {number: own for page in pages for number, own in page.ended.items()}
    last = [own.last for own in ended.values()]
    results = [each for each in last if each.get("event") == "result"]
    return {
        "runs": runs,
        "killed": dict(killed),
        "results": len(results),
        "given up after two deaths": sum(each.get("kind") == "crashed" for each in last),
        "repeated": sum(own.repeated > 0 for own in ended.values()),
        "begun more than twice": sum(own.repeated > 1 for own in ended.values()),
        "marked": sum(bool(each.get("repeated")) for each in last),
        "another's": sum(own.last.get("name", str(number)) != str(number) for number, own in ended.items()),
        "late": sum(own.late for own in ended.values()),
        "said": sorted({each["message"] for each in last if each.get("event") == "failed"}),
        "compilations": dict(answers),
    }


def is_well(found: dict[str, Any]) -> bool:
    """Whether each run that was taken in has ended once, as its own, and what was kept is there."""
    ended = found["results"] + found["given up after two deaths"]
    none = all(found[name] == 0 for name in ("another's", "late", "begun more than twice"))
    kept = found["link"] == 200 and "lost" not in found["history"]
    return bool(ended == found["runs"] and none and kept and found["marked"] >= found["repeated"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--between", type=float, default=1.5, help="seconds from one fault to the next, in the mean")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if PROGRAM is None:
        parser.error("there is neither valkey-server nor redis-server")
    found = asyncio.run(endure(asked.runs, asked.faults, workers=asked.workers, between=asked.between, seed=asked.seed))
    print(json.dumps(found))
    return 0 if is_well(found) else 1


if __name__ == "__main__":
    sys.exit(main())
