"""Compilations and runs in processes of their own, which can be killed, limited and replaced.

`WorkerPool` keeps warm workers and streams a request's events. Whatever happens to a worker, the caller gets
a last event that says so in a sentence; leaving the stream early kills the worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Literal, Protocol

from pydantic_core import from_json

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.allowed import Allowed

Role = Literal["compile", "run", "run-compiling", "run-once", "reuse", "look"]
"""What a worker is for: `run` is warmed by a rehearsal, and `run-compiling` may start compilers for peers besides;
`run-once`, `reuse` and `look` start at once, and load what they need."""

GIB = 1 << 30
RUN_MEMORY = 4 * GIB
RUN_SECONDS = 120.0
"""Wall-clock limit of a run on the command line; the web's is in `explorer.web.limits`."""

_START_SECONDS = 600.0
"""The first rehearsal on a computer compiles the simulator: 15 s of one core's time, many times as long where others
share it. One that is ended before has kept nothing, and the next would begin again."""
_STARTING: dict[Role, str] = {
    "compile": "starting a process for compilations",
    "run": "starting a process for runs (the first on a computer compiles the simulator: 15 s of a core's time)",
    "run-compiling": "starting a process for runs",
    "run-once": "starting a process for the run",
    "reuse": "starting a process for reuse distances",
    "look": "starting a process that reads the file",
}
LINE_BYTES = 64 << 20
"""The longest event: a compilation with every stage and every pass, with room to spare."""
_REQUESTS_PER_WORKER: dict[Role, int] = {
    **{"compile": 4_000, "run": 4_000, "run-compiling": 4_000},
    **{"run-once": 200, "reuse": 200, "look": 200},
}
"""A worker is replaced after so many, or once it ends because it keeps too much (`MOST_KERNELS` in `.worker`)."""


_NICENESS: dict[Role, int] = {"compile": 1, "run": 10, "run-compiling": 10, "run-once": 0, "reuse": 10, "look": 10}
"""Where all cores are busy, the server answers first, then who types; who runs has what they leave, and a tenth of a
core at the least. Time without a core is not counted in what a run may take. Alone, it is as fast as ever."""


class WorkerLostError(Exception):
    """The worker ended, or never came up; the message is a sentence for the user."""


class NeverTakenError(WorkerLostError):
    """The worker ended while it waited for work: no fault of the request, which another may take."""


class Worker:
    """One process that answers one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._reading = asyncio.Lock()
        self.answered = 0
        self.last_line = b""
        """The last event as the process wrote it."""

    @classmethod
    async def start(
        cls, role: Role, memory: int, quiet: bool, folders: Sequence[Path] = (), niceness: int | None = None
    ) -> Worker:
        """Start a process and wait until it is warm. Its stderr is dropped if `quiet`, else inherited; it may read the
        `folders`. It makes way for others by its `niceness`, or by what is usual for its role.

        Raises WorkerLostError when it ends or stays silent.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "explorer.runtime.workers.worker",
            role,
            str(memory),
            str(_NICENESS[role] if niceness is None else niceness),
            *map(str, folders),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if quiet else None,
            start_new_session=True,
            limit=LINE_BYTES,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await worker._read()
        except TimeoutError:
            await worker.end()
            raise WorkerLostError(f"A worker process did not start within {_START_SECONDS:.0f} s.") from None
        except BaseException:
            await worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> None:
        """Wait until the process is gone."""
        await self._process.wait()

    def kill(self) -> None:
        """End the process and all that it started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill the process and wait until it is gone and its pipes are closed."""
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with suppress(BrokenPipeError, ConnectionResetError):
            await self._process.stdin.wait_closed()
        async with self._reading:  # whoever waits for an answer reads first that none comes
            while await self._process.stdout.read(1 << 16):
                pass
        await self._process.wait()

    async def answer(self, request: Mapping[str, Any], allowed: Allowed) -> AsyncGenerator[Event, None]:
        """The events of one request, each as it comes, up to the last.

        Raises TimeoutError once it has had what is `allowed`, WorkerLostError if the process ends, of which
        NeverTakenError if it did so before it took the request.
        """
        assert self._process.stdin is not None
        self.answered += 1
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        try:
            await self._read_within(allowed)  # that it has taken the request
        except WorkerLostError as error:
            raise NeverTakenError(str(error)) from None
        while True:
            event = await self._read_within(allowed)
            yield event
            if events.is_last(event):
                return

    async def end_of_answer(self, allowed: Allowed) -> Event:
        """The last event of a request whose answer nobody reads any more. Raises TimeoutError and WorkerLostError as
        `answer` does."""
        while not events.is_last(event := await self._read_within(allowed)):
            pass
        return event

    async def _read_within(self, allowed: Allowed) -> Event:
        while True:
            left = allowed.left
            try:
                async with asyncio.timeout(left):
                    event = await self._read()
            except TimeoutError:
                if allowed.left <= 0:  # else it has waited for a core meanwhile
                    raise
                continue
            if left <= 0 and not events.is_last(event):  # there is always one to read of who sends them fast enough
                raise TimeoutError
            return event

    async def _read(self) -> Event:
        assert self._process.stdout is not None
        try:
            async with self._reading:
                line = await self._process.stdout.readline()
            self.last_line = line
            event = _read_event(line)
        except ValueError:
            self.kill()
            raise WorkerLostError(_how_it_ended(await self._process.wait())) from None
        return event


def _read_event(line: bytes) -> Event:
    """An event's JSON, in a quarter of the time that `json.loads` takes, which reads what is rare: names of files that
    are no Unicode."""
    event: Event
    try:
        event = from_json(line)
    except ValueError:
        event = json.loads(line)
    return event


def _how_it_ended(status: int) -> str:
    if status < 0:
        return f"The worker process was ended by {signal.Signals(-status).name} before it finished."
    return f"The worker process ended with status {status} before it finished."


def _closed() -> WorkerLostError:
    return WorkerLostError("No worker process is left: they are being ended.")


def _crashed(error: WorkerLostError) -> Event:
    hint = "Most often the machine is short of memory. Try again, with smaller sizes or a smaller batch."
    return events.failed("crashed", str(error), hint)


class Pool(Protocol):
    """What the web asks of a pool of workers."""

    def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        """A request's events, the last of them `result` or `failed`; closing it early stops the work."""


class WorkerPool:
    """Warm workers of one role: `concurrent` that may be busy at once and `spare` to take a killed one's place. They
    may read the `folders` besides what they compute with. What nobody waits for any more may take `to_its_end` seconds
    of a core, rather than its worker be killed.

    Use it inside one event loop: `open()` (or let the first request start workers), then `stream`
    requests, then `await close()`.
    """

    def __init__(
        self,
        role: Role,
        *,
        concurrent: int = 1,
        spare: int = 1,
        memory: int = RUN_MEMORY,
        quiet: bool = False,
        folders: Sequence[Path] = (),
        niceness: int | None = None,
        to_its_end: float = 0.0,
    ) -> None:
        self.role: Role = role
        self._to_its_end = to_its_end
        self._folders = folders
        self._niceness = niceness
        self._total = concurrent + spare
        self._memory = memory
        self._quiet = quiet
        self._ready: asyncio.LifoQueue[Worker | WorkerLostError] = asyncio.LifoQueue()
        self._workers: set[Worker] = set()
        self._busy: set[Worker] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._left: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._closed = False
        self.retired = 0
        """How many workers were ended, or found dead."""

    @property
    def pids(self) -> list[int]:
        """The live workers' process ids."""
        return [worker.pid for worker in self._workers if worker.alive]

    @property
    def warm(self) -> bool:
        """Whether a worker has come up: a request is then taken at once, or after the one that is running."""
        return bool(self.pids)

    def open(self) -> None:
        """Begin to start workers until there are enough, unless it was closed; returns at once."""
        if self._closed:
            return
        for _ in range(self._total - len(self._workers) - len(self._starting)):
            self._starting.add(asyncio.get_running_loop().create_task(self._start_one()))

    async def close(self) -> None:
        """Kill every worker and wait until they are gone. Who waits for one is told, and none is started any more."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        self._starting.clear()
        self._ready.put_nowait(_closed())
        for worker in list(self._workers):
            self._discard(worker)
        await asyncio.gather(*self._ending, *self._watching, *self._left)

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        """The events of a request, the last of them `result` or `failed`, whatever happens.

        The time limit counts from the moment a worker takes the request, but for the time that it waits for a core.
        Closing the iterator early kills the worker, unless it may go on to its end.
        """
        try:
            async with aclosing(self.stream_or_lose(request, seconds)) as stream:
                async for event in stream:
                    yield event
        except WorkerLostError as error:
            yield _crashed(error)

    async def stream_or_lose(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        """As `stream`, for whoever can have a run done again. Raises WorkerLostError if its process ends without a last
        event, or none can be had."""
        if self._ready.empty():
            yield events.progress(_STARTING[self.role], 0, 1)
        try:
            async with aclosing(self._attempt(request, seconds)) as attempt:
                async for event in attempt:
                    yield event
        except NeverTakenError:
            async with aclosing(self._attempt(request, seconds)) as attempt:
                async for event in attempt:
                    yield event

    async def _attempt(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        """One worker's answer to a request. Raises WorkerLostError if it ends or none can be had."""
        worker = await self._take()
        finished = is_left = False
        allowed = Allowed(worker.pid, seconds)
        try:
            async with aclosing(worker.answer(request, allowed)) as answers:
                async for event in answers:
                    finished = events.is_last(event) and not events.is_end_of_worker(event)
                    if finished:
                        self._give_back(worker)
                    yield {**event, "line": worker.last_line} if self.role == "compile" else event
        except TimeoutError:
            waited = allowed.waited
            without = f", and {waited:.0f} s in which others had the cores" if waited >= 1 else ""
            yield events.failed(
                "timeout",
                f"Stopped after {seconds:g} s, the time limit{without}.",
                "Make the model smaller."
                if self.role == "compile"
                else "Make the batch, the sizes or the number of repeats smaller.",
            )
        except (GeneratorExit, asyncio.CancelledError):
            is_left = self._to_its_end > 0
            raise
        finally:
            if is_left and not finished:
                self._leave(worker)
            elif not finished:
                self._discard(worker)
                self.open()

    def _leave(self, worker: Worker) -> None:
        """Let a worker go on whose answer nobody waits for: it is ready again sooner than another one would be, or
        killed after all."""

        async def see_its_end() -> None:
            try:
                event = await worker.end_of_answer(Allowed(worker.pid, self._to_its_end))
            except (TimeoutError, WorkerLostError):
                event = None
            if event is not None and not events.is_end_of_worker(event):
                self._give_back(worker)
            else:
                self._discard(worker)
                self.open()

        task = asyncio.get_running_loop().create_task(see_its_end())
        self._left.add(task)
        task.add_done_callback(self._left.discard)

    async def _start_one(self) -> None:
        started: Worker | WorkerLostError
        try:
            # On few cores, the first is ready sooner if the next does not start beside it.
            async with self._one_at_a_time:
                started = await Worker.start(self.role, self._memory, self._quiet, self._folders, self._niceness)
            self._workers.add(started)
            self._watch(started)
        except OSError as error:
            started = WorkerLostError(f"A worker process could not be started: {error.strerror}.")
        except WorkerLostError as error:
            started = error
        task = asyncio.current_task()
        assert task is not None
        self._starting.discard(task)
        self._ready.put_nowait(started)

    def _watch(self, worker: Worker) -> None:
        """Have a worker replaced that ends while it waits; one that ends at work is, by who reads its answer."""

        async def replace_when_ended() -> None:
            await worker.ended()
            if worker in self._workers and worker not in self._busy:
                self._discard(worker)
                self.open()

        task = asyncio.get_running_loop().create_task(replace_when_ended())
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _take(self) -> Worker:
        self.open()
        while True:
            worker = await self._ready.get()
            if self._closed:
                self._ready.put_nowait(_closed())  # for the next who waits
                raise _closed()
            if isinstance(worker, Worker):
                if worker.alive:
                    self._busy.add(worker)
                    return worker
                self._discard(worker)
                self.open()
            elif self._ready.empty() and not self._starting:
                raise worker

    def _give_back(self, worker: Worker) -> None:
        if worker.answered < _REQUESTS_PER_WORKER[self.role]:
            self._busy.discard(worker)
            self._ready.put_nowait(worker)
        else:
            self._discard(worker)
            self.open()

    def _discard(self, worker: Worker) -> None:
        """Kill a worker now; the rest of its end may take its time."""
        if worker not in self._workers:
            return
        worker.kill()
        self.retired += 1
        self._workers.discard(worker)
        self._busy.discard(worker)
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def stream_here(
    request: Mapping[str, Any], *, role: Role = "run-once", seconds: float = RUN_SECONDS, memory: int = RUN_MEMORY
) -> Iterator[Event]:
    """The events of one request, in a worker of its own that ends with it and may take so many bytes of this machine's
    memory; for callers with no event loop.

    The event loop has a thread of its own, so that Ctrl-C stops the caller, never the loop halfway through a step.
    """

    async def events_of_one() -> AsyncGenerator[Event, None]:
        pool = WorkerPool(role, spare=0, memory=memory, quiet=True)
        try:
            async with aclosing(pool.stream(request, seconds)) as stream:
                async for event in stream:
                    yield event
        finally:
            await pool.close()

    stream = events_of_one()
    reading: asyncio.Task[Any] | None = None

    async def next_event() -> Event | None:
        nonlocal reading
        reading = asyncio.current_task()
        return await anext(stream, None)

    async def end() -> None:
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
        await stream.aclose()

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="events of one request", daemon=True)
    thread.start()
    try:
        while (event := asyncio.run_coroutine_threadsafe(next_event(), loop).result()) is not None:
            yield event
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
