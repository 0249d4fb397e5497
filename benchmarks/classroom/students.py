"""One simulated student: a tab that asks for what the page asks for, when the page would.

An edit is posted; the newest wins, as in the page: where its answer has not come before the next edit, it is given up,
and its reader waits until a later one's answer. What follows an edit after a pause of 0.4 s where a pane shows PTX
(`/late`, then `/best` behind a first form) is asked for too. As the page does, it tells which texts it
has. Runs go over the WebSocket, which some students drop.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from benchmarks.classroom import texts

IDLE = 0.4
"""Seconds without an edit after which the page asks for what takes longer."""
PATIENCE = 120.0
"""Seconds after which an answer is lost."""
GRADIENTS, PTX_PANES = 0.05, 0.1
"""The shares of edits with a backward pass, and of students who have a pane of PTX open."""
PANES = ("graph", "loops", "slc", "cuda")
RUNS = ("cpu", "dae")
_VERSION = re.compile(r'data-text="([^"]*)"')
_TARGET = re.compile(r'id="dock"[^>]* data-target="(\w+)"')


@dataclass(frozen=True)
class Habits:
    """How students work: seconds between edits and between runs, shares of students who send bombs, and seconds after
    which a tab is closed and opened again, or its socket dropped."""

    think: float = 3.0
    between_runs: float = 60.0
    bombs: float = 0.0
    stays: float = 120.0


@dataclass
class Ordered:
    """A run: when it was ordered, what it should be of, and what came of it."""

    student: int
    name: str
    begun: float
    wait: float | None = None
    """Seconds until its turn came. What it takes from then on, its own compilation first, is not for others."""
    ends: list[str] = field(default_factory=list)
    crossed: bool = False
    dropped: bool = False
    """Its socket was dropped, or its tab closed, before it ended: the server stops it."""


@dataclass
class Log:
    """What all students saw: seconds from an edit to its answer, of each kind of later request, and their runs."""

    edits: list[float] = field(default_factory=list)
    overtaken: int = 0
    later: dict[str, list[float]] = field(default_factory=dict)
    runs: list[Ordered] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Student:
    """A tab, from its first request to its last."""

    def __init__(
        self, number: int, address: str, examples: Sequence[tuple[str, str]], habits: Habits, log: Log
    ) -> None:
        self.number, self.address, self.habits, self.log = number, address, habits, log
        self.random = Random(number)
        self.key, self.example = examples[number % len(examples)]
        self.panes = [*PANES[:3], "ptx"] if self.random.random() < PTX_PANES else list(PANES)
        self.is_bomber = self.random.random() < habits.bombs
        self.edit = 1
        self.good = 1
        self.shown: list[list[str]] = []
        """By pane the versions of the texts there, which the server sends changes of."""
        self.on = ""
        """The target that the page has chosen, or the student's last run."""
        self.run = 0
        self.waiting: list[float] = []
        self.cookies = httpx.Cookies()
        """Of the student's browser: by these the server knows that all tabs are one's."""

    async def work(self, until: float) -> None:
        """Edits and runs until that time of `perf_counter`; tabs of some are closed and opened again meanwhile."""
        await asyncio.sleep(self.random.uniform(0, self.habits.think))
        while perf_counter() < until:
            ends = min(until, perf_counter() + self.random.uniform(0.5, 1.5) * self.habits.stays)
            try:
                await self._tab(ends)
            except (httpx.HTTPError, WebSocketException, OSError) as error:
                self.log.faults.append(f"{type(error).__name__}: {error}"[:120])
                await asyncio.sleep(1)

    async def _tab(self, until: float) -> None:
        limits = httpx.Limits(max_connections=6)  # as a browser's
        base, cookies = self.address, self.cookies
        async with httpx.AsyncClient(base_url=base, timeout=PATIENCE, limits=limits, cookies=cookies) as client:
            page = await self._count(await client.get("/", params={"example": self.key}))
            self.on = "".join(_TARGET.findall(page.text))
            self.shown = []
            self.cookies.update(client.cookies)
            sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            address = self.address.replace("http", "ws", 1) + "/ws"
            socket = await connect(address, max_size=None, additional_headers={"Cookie": sent})
            try:
                await asyncio.gather(self._edits(client, until), self._runs(socket, until))
            finally:
                if self.random.random() < 0.5:
                    await socket.close()
                else:
                    socket.transport.abort()

    async def _count(self, answer: httpx.Response) -> httpx.Response:
        self.log.statuses[answer.status_code] = self.log.statuses.get(answer.status_code, 0) + 1
        return answer

    async def _edits(self, client: httpx.AsyncClient, until: float) -> None:
        asked: asyncio.Task[None] | None = None
        while (wait := self.habits.think * self.random.uniform(0.5, 1.5)) + perf_counter() < until:
            await asyncio.sleep(wait)
            if asked is not None and not asked.done():
                asked.cancel()
                with suppress(asyncio.CancelledError):
                    await asked
            asked = asyncio.create_task(self._type(client))
        if asked is not None:
            await asked

    async def _type(self, client: httpx.AsyncClient) -> None:
        self.edit += 1
        form = self._form()
        begun = perf_counter()
        self.waiting.append(begun)
        answer = await self._count(await client.post("/compile", data=form))
        self.log.edits += [perf_counter() - each for each in self.waiting]
        self.log.overtaken += len(self.waiting) - 1
        self.waiting = []
        if answer.headers.get("HX-Reswap") == "none" or answer.status_code != 200:
            return  # the panes keep what they show
        self.good = self.edit
        self.shown = [_VERSION.findall(pane) for pane in answer.text.split('<section class="pane"')[1:]]
        if "ptx" not in self.panes:
            return
        await asyncio.sleep(IDLE)
        text = await self._later(client, "/late", form)
        if "data-first" in text:
            await self._later(client, "/best", form)

    async def _later(self, client: httpx.AsyncClient, path: str, form: Mapping[str, str]) -> str:
        begun = perf_counter()
        answer = await self._count(await client.post(path, data=dict(form)))
        self.log.later.setdefault(path, []).append(perf_counter() - begun)
        return answer.text

    def _form(self) -> dict[str, str]:
        text = texts.own_text(self.example, self.number, self.edit)
        if self.is_bomber:
            text = texts.bomb(self.number, self.edit)
        elif self.random.random() < texts.BROKEN:
            text = texts.broken(text, self.random)
        options = {"grad": True} if self.random.random() < GRADIENTS else {}
        return {
            "text": text,
            "edit": str(self.edit),
            "good": str(self.good),
            "options": json.dumps(options),
            "panes": json.dumps([{"stage": stage} for stage in self.panes]),
            "shown": json.dumps(self.shown),
            "on": self.on,
        }

    async def _runs(self, socket: ClientConnection, until: float) -> None:
        """A run a minute, as long as the last one has ended; what comes of each."""
        orders: dict[int, Ordered] = {}
        reader = asyncio.create_task(self._read(socket, orders))
        try:
            while (wait := self.habits.between_runs * self.random.uniform(0.5, 1.5)) + perf_counter() < until:
                await asyncio.sleep(wait)
                self.run += 1
                text = texts.own_text(self.example, self.number, 1_000_000 + self.run)
                self.on = RUNS[self.run % len(RUNS)]
                order = {"type": "run", "run": self.run, "edit": self.edit, "text": text, "on": self.on, "batch": 64}
                data = "" if "\nop " in f"\n{text}" else "small" if "\nlayer " in f"\n{text}" else "FB15k-237"
                orders[self.run] = ordered = Ordered(self.number, texts.name_of(text), perf_counter())
                self.log.runs.append(ordered)
                await socket.send(json.dumps({**order, "repeat": 5, "data": data}))
            await asyncio.sleep(max(0.0, until - perf_counter()))
        finally:
            reader.cancel()
            for ordered in orders.values():
                ordered.dropped = not ordered.ends

    async def _read(self, socket: ClientConnection, orders: Mapping[int, Ordered]) -> None:
        async for message in socket:
            event: dict[str, Any] = json.loads(message)
            ordered = orders.get(event.get("run", -1))
            if ordered is None:
                self.log.faults.append(f"an event of a run that nobody ordered: {str(event)[:80]}")
                continue
            if event["event"] != "queued" and ordered.wait is None:
                ordered.wait = perf_counter() - ordered.begun
            if event["event"] in ("result", "failed"):
                ordered.ends.append(event.get("kind", "result"))
                ordered.crossed |= event.get("name", ordered.name) != ordered.name
