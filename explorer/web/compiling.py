"""Compilations for the page and the API: in worker processes, each distinct text once, the last ones kept."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from explorer.compiler.pipeline import STAGES
from explorer.runtime.data.offered import offered_names
from explorer.runtime.data.triples import InputError, data_files
from explorer.runtime.runs.events import Event, sentence_diagnostic
from explorer.runtime.workers.pool import Pool
from explorer.web import limits
from explorer.web.shared.answers import SharedAnswers
from explorer.web.turns import Turn, Turns

ON_DEMAND = frozenset(spec.name for spec in STAGES if spec.on_demand)
Compiled = dict[str, Any]
"""A compilation's JSON. Shared between requests: read it, never change it."""


@dataclass(frozen=True)
class CompileRequest:
    """What decides a compilation's JSON, hashable: the key of the cache."""

    text: str
    name: str | None
    sizes: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, str | int | bool], ...]
    schedule: str
    """As JSON: of 1 and true, which are equal, each is another value."""
    stages: tuple[str, ...] | None
    snapshots: tuple[str, ...] | None = None
    """The stages of which the lines before and after each pass are asked for; None for all."""
    effects: tuple[str, ...] | None = None
    """The same of what each pass changed in figures."""
    default_sizes: tuple[tuple[str, int], ...] = ()
    data: str = ""
    data_dir: str | None = None
    data_changed: int = 0
    """The data that it is compiled for; if it is a file, where that is and when it changed."""
    or_usual: bool = False
    """Whether it is compiled for what such a model usually runs on, where it does not run on that data."""
    costs: tuple[str, ...] | None = None
    """Where only the kernels' costs are asked for: the kernels whose machine code is made for them."""
    edited: tuple[tuple[str, str], ...] = ()
    """Texts of stages in the place of the compiler's."""
    flips: bool = False
    """Whether only what each option would change is asked for."""
    recordings: bool = False
    """Whether only which recorded spaces are of it is asked for."""
    story: int | None = None
    """Where only the story of an operation is asked for: its number."""
    heat: bool = False
    """Whether only where the time goes is asked for."""
    first: bool = field(default=False, compare=False)
    """Whether somebody wants to see the first form of what takes long before the best one."""

    @property
    def is_late(self) -> bool:
        """Whether stages are asked for that are made on demand, which take longer than all others."""
        return self.flips or self.recordings or not ON_DEMAND.isdisjoint(self.stages or ())

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as JSON: the same for requests that are equal."""
        return {**self.to_json(), "first": False, "data_changed": self.data_changed}

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "name": self.name,
            "sizes": dict(self.sizes),
            "default_sizes": dict(self.default_sizes),
            "options": dict(self.options),
            "schedule": json.loads(self.schedule),
            "edited": dict(self.edited),
            "stages": self.stages,
            "snapshots": self.snapshots,
            "effects": self.effects,
            "data": self.data,
            "data_dir": self.data_dir,
            "or_usual": self.or_usual,
            "costs": self.costs,
            "flips": self.flips,
            "recordings": self.recordings,
            "story": self.story,
            "heat": self.heat,
            "first": self.first,
        }


@dataclass(eq=False)
class Flight:
    """A compilation that waits or is under way, for a session that asked first: its answer, and before it, where there
    is one, that in its first form; and how many wait for them."""

    request: CompileRequest
    session: str
    best: asyncio.Task[Compiled] = field(init=False)
    first: asyncio.Future[Compiled] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    waiting: int = 0
    has_begun: bool = False


def refusal(message: str, detail: str = "") -> Compiled:
    """The JSON of a compilation that did not happen, in the shape of one that did."""
    said = [sentence_diagnostic(message, detail)]
    return {"ok": False, "diagnostics": said, "operations": [], "stages": [], "data": "", "sizes_from": {}}


class CompileService:
    """Compiles in a pool of workers, with single flight and a least-recently-used cache by content.

    Sessions take turns, and what nobody waits for any more ends. What is made on demand is compiled by the
    workers of `late`, which make way for the others; where there are none, in a slow place among these. Several
    processes look first at what they have `shared`, and one of them compiles what is not there."""

    def __init__(
        self,
        pool: Pool,
        concurrent: int,
        seconds: float = limits.COMPILE_SECONDS,
        *,
        late: Pool | None = None,
        late_concurrent: int = 1,
        shared: SharedAnswers | None = None,
        ended: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """`ended` is told the last event of each compilation that a worker was asked for."""
        self._pool, self._late, self._shared = pool, late, shared
        self._seconds = seconds
        self._ended = ended
        self.hits = 0
        """Answers out of the cache."""
        self._turns = Turns(concurrent)
        self._late_turns = Turns(late_concurrent)
        self._cache: OrderedDict[CompileRequest, tuple[Compiled, int]] = OrderedDict()
        self._kept_bytes = 0
        self._in_flight: dict[CompileRequest, Flight] = {}
        self._slow: OrderedDict[str, None] = OrderedDict()

    @property
    def kept_bytes(self) -> int:
        """The length of the JSON of what is kept, and of what it answers."""
        return self._kept_bytes

    @property
    def shared_hits(self) -> int | None:
        """Answers that the processes share; None where there is but one."""
        return None if self._shared is None else self._shared.hits

    @property
    def waiting(self) -> int:
        """How many compilations wait for a place."""
        return self._turns.waiting + self._late_turns.waiting

    @property
    def running(self) -> int:
        """How many are under way."""
        return self._turns.working + self._late_turns.working

    async def compile(self, request: CompileRequest, session: str = "") -> Compiled:
        """The compilation's JSON; `ok` is false for a bad model, and for one that hit a limit. What comes in a first
        form before is that where `first` is asked for; the next time that is asked, it may be the best."""
        cached = self._cache.get(request)
        if cached is not None:
            self.hits += 1
            self._cache.move_to_end(request)
            return cached[0]
        flight = self._in_flight.get(request)
        if flight is None:
            if len(self._in_flight) >= limits.COMPILES_WAITING:
                return refusal("The server is compiling as many models as it can.", "Try again in a few seconds.")
            flight = self._in_flight[request] = Flight(request, session)
            flight.best = asyncio.create_task(self._compile(flight))
            flight.best.add_done_callback(lambda _: self._land(flight))
        flight.waiting += 1
        try:
            if request.first:
                await asyncio.wait({flight.best, flight.first}, return_when=asyncio.FIRST_COMPLETED)
                if not flight.best.done():
                    return flight.first.result()
            # A client that leaves must not take the answer from the others who wait for it.
            return await asyncio.shield(flight.best)
        finally:
            flight.waiting -= 1
            self._end_if_alone(flight)

    def _end_if_alone(self, flight: Flight) -> None:
        """End what nobody waits for: at once if it has not begun, else unless somebody asks for it again soon."""
        if flight.waiting or flight.best.done():
            return

        def end() -> None:
            if not flight.waiting and not flight.best.done():
                self._land(flight)  # at once: who asks now is not to wait for what ends
                flight.best.cancel()

        if flight.has_begun:
            asyncio.get_running_loop().call_later(limits.ALONE_SECONDS, end)
        else:
            end()

    def _land(self, flight: Flight) -> None:
        if self._in_flight.get(flight.request) is flight:
            del self._in_flight[flight.request]

    async def _compile(self, flight: Flight) -> Compiled:
        """As another process has made it, or here."""
        if self._shared is None:
            return await self._compile_here(flight)
        content = flight.request.content
        try:
            answer = await self._made_elsewhere(self._shared, content, flight)
            return answer or await self._compile_here(flight)
        finally:
            self._shared.let_go(content)

    async def _made_elsewhere(
        self, shared: SharedAnswers, content: Mapping[str, Any], flight: Flight
    ) -> Compiled | None:
        """The answer that another process has made or makes now; None where it is to be made here."""
        end = asyncio.get_running_loop().time() + limits.CLAIM_SECONDS
        while True:
            found = await shared.look(content, not flight.first.done())
            if found.first is not None:
                flight.first.set_result(found.first)
            if found.answer is not None:
                found.answer.pop("event", None)
                self._keep(flight.request, found.answer, found.size)
                return found.answer
            if found.is_ours or asyncio.get_running_loop().time() > end:
                return None
            await asyncio.sleep(limits.LOOK_AGAIN_SECONDS)

    async def _compile_here(self, flight: Flight) -> Compiled:
        """In a quick place, unless the session's last was slow; what turns out to be slow there, and finds no place
        among the slow, begins again when it is their turn."""
        apart = flight.request.is_late and self._late is not None
        turns = self._late_turns if apart else self._turns
        is_slow = flight.session in self._slow or flight.request.is_late
        answer = None
        while answer is None:
            async with turns.turn(flight.session, is_slow) as turn:
                flight.has_begun = True
                answer = await self._answer_in(turn, turns, flight)
                is_slow = turn.slow or answer is None
        self._ended(answer)
        if not apart:
            self._remember(flight.session, is_slow)
        line: bytes = answer.pop("line", b"")
        if answer.pop("event") == "failed":
            return refusal(answer["message"], answer["hint"])
        if not answer.get("stopped"):  # another time there may be more of it
            self._keep(flight.request, answer, len(line))
            if self._shared is not None:
                self._shared.keep(flight.request.content, line)
        return answer

    async def _answer_in(self, turn: Turn, turns: Turns, flight: Flight) -> Compiled | None:
        """The last event, or None where it is slow and has to make room for what is quick."""
        began = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._ask(flight))
        try:
            await asyncio.wait({task}, timeout=None if turn.slow else limits.QUICK_SECONDS)
            if not task.done() and not turns.becomes_slow(turn):
                return None
            answer = await task
            turn.slow = asyncio.get_running_loop().time() - began > limits.QUICK_SECONDS
            return answer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ask(self, flight: Flight) -> Compiled:
        answer: Compiled = {}
        asked = {**flight.request.to_json(), "seconds": self._seconds * limits.STAGES_SHARE}
        pool = self._late if self._late is not None and flight.request.is_late else self._pool
        async with aclosing(pool.stream(asked, self._seconds)) as stream:
            async for event in stream:
                answer = event
                if event["event"] == "first" and not flight.first.done():
                    line: bytes = event.pop("line", b"")
                    flight.first.set_result(event)
                    if self._shared is not None:
                        self._shared.keep_first(flight.request.content, line)
        return answer

    def _remember(self, session: str, is_slow: bool) -> None:
        self._slow.pop(session, None)
        if is_slow:
            self._slow[session] = None
            if len(self._slow) > limits.SLOW_SESSIONS:
                self._slow.popitem(last=False)

    def _keep(self, request: CompileRequest, answer: Compiled, size: int) -> None:
        """Keep an answer, and forget what was not asked for longest until all have room. What was asked counts too: a
        text of 64 KiB may have an answer of one sentence."""
        size += len(json.dumps(request.to_json()))
        self._cache[request] = answer, size
        self._kept_bytes += size
        while self._kept_bytes > limits.COMPILE_CACHE_BYTES:
            self._kept_bytes -= self._cache.popitem(last=False)[1][1]


async def find_data(app: FastAPI, name: str) -> tuple[str, str | None, int] | None:
    """Data that the server offers: its name, the folder that it is in, and when it changed.

    None for any other, which a worker would open as a path.
    """
    folder: Path | None = app.state.data_dir
    if name in preset_data():
        return name, None, 0
    dropped: tuple[str, str, int] | None = app.state.dropped.find(name)
    if dropped is not None:
        return dropped
    if folder is None:
        return None
    with suppress(InputError, OSError):
        files = {path.name: path for path in await asyncio.to_thread(data_files, folder)}
        if name in files:
            return name, str(folder), files[name].stat().st_mtime_ns
    return None


def runs_on_data(text: str) -> bool:
    """Whether a text might define a layer or an op, whose compilation depends on data: cheaper than compiling it."""
    return re.search(r"^[ \t]*(layer|op)\b", text, re.MULTILINE) is not None


@cache
def preset_data() -> frozenset[str]:
    """The names of all generated data that is offered to models of some family."""
    return frozenset(offered_names(None))


async def compile_cached(
    app: FastAPI,
    text: str,
    *,
    sizes: Mapping[str, int],
    options: Mapping[str, str | int | bool],
    schedule: Mapping[str, str | int | bool],
    edited: Mapping[str, str] | None = None,
    default_sizes: Mapping[str, int] | None = None,
    name: str | None = None,
    stages: Iterable[str] | None = None,
    snapshots: Iterable[str] | None = None,
    effects: Iterable[str] | None = None,
    data: str = "",
    or_usual: bool = False,
    costs: tuple[str, ...] | None = None,
    flips: bool = False,
    recordings: bool = False,
    story: int | None = None,
    heat: bool = False,
    first: bool = False,
    session: str = "",
) -> Compiled:
    """Compile for the page: the JSON of `runtime.fitting.Fitted.to_json(stages, snapshots, effects)`, from the
    application's service, in a turn of the `session`; or that of its `first` form, as `CompileService.compile` has it.

    With `costs`, what its kernels cost in its place (`runtime.runs.costs`), in registers those named; with `story`,
    that of an operation through the `stages` (`compiler.story`); with `heat`, where its time goes (`compiler.heat`). A
    layer or an op is compiled for `data`, or for none where the server has none of that name, or it does not run on
    that; with `or_usual`, for what it usually runs on then.
    """
    service: CompileService = app.state.compiler
    # A score is the same for all data, and kept once.
    depends = runs_on_data(text)
    found = await find_data(app, data) if data and depends else None
    request = CompileRequest(
        text,
        name,
        tuple(sorted(sizes.items())),
        tuple(sorted(options.items())),
        json.dumps(schedule, sort_keys=True),
        None if stages is None else tuple(stages),
        None if snapshots is None else tuple(snapshots),
        None if effects is None else tuple(effects),
        tuple(sorted((default_sizes or {}).items())),
        *(found or ("", None, 0)),
        or_usual=or_usual and depends,
        edited=tuple(sorted((edited or {}).items())),
        costs=costs,
        flips=flips,
        recordings=recordings,
        story=story,
        heat=heat,
        first=first,
    )
    return await service.compile(request, session)
