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

from explorer.runtime.data.graphs import available_graphs
from explorer.runtime.data.lists import available_lists
from explorer.runtime.data.triples import InputError, available, data_files
from explorer.runtime.runs.events import sentence_diagnostic
from explorer.runtime.workers.pool import Pool
from explorer.web import limits

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
    default_sizes: tuple[tuple[str, int], ...] = ()
    data: str = ""
    data_dir: str | None = None
    data_changed: int = 0
    """The data that it is compiled for; if it is a file, where that is and when it changed."""
    costs: tuple[str, ...] | None = None
    """Where only the kernels' costs are asked for: the kernels whose machine code is made for them."""
    first: bool = field(default=False, compare=False)
    """Whether somebody wants to see the first form of what takes long before the best one."""

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "name": self.name,
            "sizes": dict(self.sizes),
            "default_sizes": dict(self.default_sizes),
            "options": dict(self.options),
            "schedule": json.loads(self.schedule),
            "stages": self.stages,
            "data": self.data,
            "data_dir": self.data_dir,
            "costs": self.costs,
            "first": self.first,
        }


@dataclass(frozen=True)
class Flight:
    """A compilation under way: its answer, and before it, where there is one, that in its first form."""

    best: asyncio.Task[Compiled]
    first: asyncio.Future[Compiled]


def refusal(message: str, detail: str = "") -> Compiled:
    """The JSON of a compilation that did not happen, in the shape of one that did."""
    said = [sentence_diagnostic(message, detail)]
    return {"ok": False, "diagnostics": said, "operations": [], "stages": [], "data": "", "sizes_from": {}}


class CompileService:
    """Compiles in a pool of workers, with single flight and a least-recently-used cache by content."""

    def __init__(self, pool: Pool, concurrent: int, seconds: float = limits.COMPILE_SECONDS) -> None:
        self._pool = pool
        self._seconds = seconds
        self._turn = asyncio.Semaphore(concurrent)
        self._cache: OrderedDict[CompileRequest, Compiled] = OrderedDict()
        self._in_flight: dict[CompileRequest, Flight] = {}

    async def compile(self, request: CompileRequest) -> Compiled:
        """The compilation's JSON; `ok` is false for a bad model, and for one that hit a limit. What comes in a first
        form before is that where `first` is asked for; the next time that is asked, it may be the best."""
        cached = self._cache.get(request)
        if cached is not None:
            self._cache.move_to_end(request)
            return cached
        flight = self._in_flight.get(request)
        if flight is None:
            if len(self._in_flight) >= limits.COMPILES_WAITING:
                return refusal("The server is compiling as many models as it can.", "Try again in a few seconds.")
            first: asyncio.Future[Compiled] = asyncio.get_running_loop().create_future()
            flight = Flight(asyncio.create_task(self._compile(request, first)), first)
            self._in_flight[request] = flight
            flight.best.add_done_callback(lambda _: self._in_flight.pop(request, None))
        if request.first:
            await asyncio.wait({flight.best, flight.first}, return_when=asyncio.FIRST_COMPLETED)
            if not flight.best.done():
                return flight.first.result()
        # A client that leaves must not take the answer from the others who wait for it.
        return await asyncio.shield(flight.best)

    async def _compile(self, request: CompileRequest, first: asyncio.Future[Compiled]) -> Compiled:
        answer: Compiled = {}
        async with self._turn, aclosing(self._pool.stream(request.to_json(), self._seconds)) as stream:
            async for event in stream:
                answer = event
                if event["event"] == "first":
                    first.set_result(event)
        if answer.pop("event") == "failed":
            return refusal(answer["message"], answer["hint"])
        self._cache[request] = answer
        if len(self._cache) > limits.COMPILE_CACHE:
            self._cache.popitem(last=False)
        return answer


async def find_data(app: FastAPI, name: str) -> tuple[str, str | None, int] | None:
    """Data that the server offers: its name, the folder that it is in, and when it changed.

    None for any other, which a worker would open as a path.
    """
    folder: Path | None = app.state.data_dir
    if name in preset_data():
        return name, None, 0
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
    return frozenset(entry["name"] for family in AVAILABLE.values() for entry in family(None))


AVAILABLE: dict[str, Callable[[Path | None], list[dict[str, Any]]]] = {
    "score": available,
    "layer": available_graphs,
    "op": available_lists,
}
"""What each family of definitions runs on."""


async def compile_cached(
    app: FastAPI,
    text: str,
    *,
    sizes: Mapping[str, int],
    options: Mapping[str, str | int | bool],
    schedule: Mapping[str, str | int | bool],
    default_sizes: Mapping[str, int] | None = None,
    name: str | None = None,
    stages: Iterable[str] | None = None,
    data: str = "",
    costs: tuple[str, ...] | None = None,
    first: bool = False,
) -> Compiled:
    """Compile for the page: the JSON of `runtime.fitting.Fitted.to_json(stages)`, from the application's service; or
    that of its `first` form, as `CompileService.compile` has it.

    With `costs`, what its kernels cost in its place (`runtime.runs.costs`), in registers those named. A layer or an op
    is compiled for `data`, or for none where the server has none of that name.
    """
    service: CompileService = app.state.compiler
    # A score is the same for all data, and kept once.
    found = await find_data(app, data) if data and runs_on_data(text) else None
    request = CompileRequest(
        text,
        name,
        tuple(sorted(sizes.items())),
        tuple(sorted(options.items())),
        json.dumps(schedule, sort_keys=True),
        None if stages is None else tuple(stages),
        tuple(sorted((default_sizes or {}).items())),
        *(found or ("", None, 0)),
        costs=costs,
        first=first,
    )
    return await service.compile(request)
