"""NVRTC whose best forms wait until a test lets them go, and a pool of this process, which such an NVRTC is in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from explorer.compiler.codegen.binary import nvrtc
from explorer.compiler.codegen.binary.kept import VARIABLE
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.pool import Role, WorkerPool
from explorer.runtime.workers.worker import compile_for_data
from tests.web.serving import NoWorkers

COMPILE = nvrtc._compile


class Held:
    """NVRTC, whose best forms wait until they are let go; `compiled` are the forms of what it was asked for."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.compiled: list[str] = []

    def compile(self, bindings: Any, text: str, flags: tuple[str, ...]) -> Any:
        is_first = nvrtc.FAST[0] in flags
        self.compiled.append("first" if is_first else "best")
        if not is_first:
            assert self.may_end.wait(60)
        return COMPILE(bindings, text, flags)


@contextmanager
def hold_best(folder: Path) -> Iterator[Held]:
    """NVRTC with nothing kept in the process, nor on disk but in an empty `folder`."""
    held = Held()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        patch.setattr(nvrtc, "_compile", held.compile)
        nvrtc.compile_text.cache_clear()
        yield held
        held.may_end.set()
    nvrtc.compile_text.cache_clear()


class InThisProcess(NoWorkers):
    """A pool that does a worker's work in a thread, so that a test can hold it back, without a worker's alarm."""

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        answers = compile_for_data({name: value for name, value in request.items() if name != "seconds"})
        while (event := await asyncio.to_thread(next, answers, None)) is not None:
            yield event


@contextmanager
def without_processes() -> Iterator[None]:
    """Servers that begin here compile in this process and run nothing: those that they have else take two seconds of a
    core to come up. What was dropped is read in a process of its own, as ever."""

    def pool(role: Role, **settings: Any) -> Any:
        return {"look": WorkerPool, "compile": InThisProcess}.get(role, NoWorkers)(role, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorer.web.app.WorkerPool", pool)
        yield
