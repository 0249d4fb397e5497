"""What is counted as it happens, in a registry of one application. A label's values are few and known before: nothing
that was sent is ever one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

_STAGE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """The numbers of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "explorer_requests",
            "Answers by the route's template and the status; a WebSocket that was taken is 101.",
            ("route", "status"),
            registry=self.registry,
        )
        self._compilations = Counter(
            "explorer_compilations",
            "Compilations that workers ended: ok, diagnostics of a bad text, stopped in a stage, or why there is none.",
            ("outcome",),
            registry=self.registry,
        )
        self._stage_seconds = Histogram(
            "explorer_compile_stage_seconds",
            "Seconds that a stage's passes took, by outcome: made, refused, or stopped by a limit.",
            ("stage", "outcome"),
            buckets=_STAGE_SECONDS,
            registry=self.registry,
        )
        self._runs = Counter(
            "explorer_runs",
            "Runs that have ended, by target and outcome: result, or the kind of failure.",
            ("target", "outcome"),
            registry=self.registry,
        )

    def answered(self, route: str, status: int) -> None:
        """A request was answered."""
        self._requests.labels(route, status).inc()

    def compiled(self, event: Mapping[str, Any]) -> None:
        """A compilation ended with this event."""
        self._compilations.labels(_outcome_of_compilation(event)).inc()
        for stage in event.get("stages", ()):
            outcome = "made" if stage["available"] else "stopped" if stage["stopped"] else "refused"
            self._stage_seconds.labels(stage["name"], outcome).observe(stage["ms"] / 1e3)

    def ran(self, request: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """A run that was asked for ended with this event."""
        self._runs.labels(request["on"], _outcome(event)).inc()


def _outcome(event: Mapping[str, Any]) -> str:
    return "result" if event["event"] == "result" else event["kind"]


def _outcome_of_compilation(event: Mapping[str, Any]) -> str:
    if event["event"] == "failed":
        return str(event["kind"])
    if event.get("stopped"):
        return "stopped"
    return "ok" if event["ok"] else "diagnostics"
