"""What is so at the moment when somebody looks: who waits, what works, what is kept, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import State

if TYPE_CHECKING:
    from explorer.web.compiling import CompileService
    from explorer.web.runs import Session


@runtime_checkable
class Line(Protocol):
    """A queue of this server's own, which knows how many wait and run."""

    @property
    def waiting(self) -> Mapping[str, int]: ...
    @property
    def running(self) -> Collection[str]: ...


@runtime_checkable
class Workers(Protocol):
    """Processes of this server's own."""

    @property
    def pids(self) -> list[int]: ...
    @property
    def retired(self) -> int: ...


class StateCollector(Collector):
    """An application's state, with what its processes take of memory."""

    def __init__(self, state: State, memory: Mapping[str, int]) -> None:
        self._state = state
        self._memory = memory

    def collect(self) -> Iterable[Metric]:
        if isinstance(self._state.runs, Line):
            yield from _of_runs(self._state.runs)
        yield from _of_compiler(self._state.compiler)
        pools = {"compile": self._state.compilers, "late": self._state.late, "run": self._state.runners}
        yield from _of_workers({role: pool for role, pool in pools.items() if isinstance(pool, Workers)})
        yield from _of_students(self._state.sessions)
        yield _labelled("explorer_memory_bytes", "Memory of the process tree.", "process", self._memory)


def _of_runs(runs: Line) -> Iterator[Metric]:
    yield GaugeMetricFamily("explorer_runs_waiting", "Runs in the queue.", value=sum(runs.waiting.values()))
    yield GaugeMetricFamily("explorer_runs_running", "Runs under way.", value=len(runs.running))


def _of_compiler(compiler: CompileService) -> Iterator[Metric]:
    waiting, running = "Compilations that wait for a place.", "Compilations under way."
    yield GaugeMetricFamily("explorer_compilations_waiting", waiting, value=compiler.waiting)
    yield GaugeMetricFamily("explorer_compilations_running", running, value=compiler.running)
    kept, hits = "Compilations that are kept, in bytes of their JSON.", "Compilations answered by what is kept."
    yield GaugeMetricFamily("explorer_compile_cache_bytes", kept, value=compiler.kept_bytes)
    yield CounterMetricFamily("explorer_compile_cache_hits", hits, value=compiler.hits)
    if compiler.shared_hits is not None:
        hits = "Compilations answered by what another process has made."
        yield CounterMetricFamily("explorer_compile_shared_hits", hits, value=compiler.shared_hits)


def _of_workers(pools: Mapping[str, Workers]) -> Iterator[Metric]:
    alive = {role: len(pool.pids) for role, pool in pools.items()}
    yield _labelled("explorer_workers", "Worker processes that are alive.", "role", alive)
    retired = CounterMetricFamily(
        "explorer_workers_retired", "Worker processes that were ended or were found dead.", labels=["role"]
    )
    for role, pool in pools.items():
        retired.add_metric([role], pool.retired)
    yield retired


def _of_students(sessions: set[Session]) -> Iterator[Metric]:
    students = len({session.student for session in sessions})
    yield GaugeMetricFamily("explorer_students", "Students with an open page.", value=students)
    yield GaugeMetricFamily("explorer_pages", "Open pages.", value=len(sessions))


def _labelled(name: str, about: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
