"""What a run says while it goes: one JSON object an event, printed by the command line, drawn by the page.

A run is a sequence of these that ends with exactly one `result` or `failed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from explorer.runtime.targets.table import TARGETS, Source, TargetName

Event = dict[str, Any]

GIVEN, OF_TEXT = "given", "the text"
"""Where a result's sizes are from that no data fixes."""

Metric = Literal["cycles", "ms"]
TrialStatus = Literal["timed", "same", "stopped", "invalid", "wrong", "faulted"]
"""What became of a trial: timed; the same program as one before; stopped because it was slow; not valid; of a wrong
result; or it broke what ran it."""

FailureKind = Literal["error", "timeout", "memory", "cancelled", "superseded", "refused", "crashed", "away"]


def queued(position: int, message: str) -> Event:
    """The run waits behind `position - 1` others."""
    return {"event": "queued", "position": position, "message": message}


def started(target: TargetName, device: str, source: Source | None = None) -> Event:
    """Work has begun. `source` says whether the times to come are of a real device, and of now; None for what is usual
    on the target."""
    return {"event": "started", "target": target, "device": device, "source": source or TARGETS[target].source}


def progress(what: str, done: int, total: int) -> Event:
    """`done` of `total` steps of what the sentence `what` names."""
    return {"event": "progress", "what": what, "done": done, "total": total}


def repeated(message: str) -> Event:
    """The run begins anew: what it said before counts no more, and its result says `repeated`."""
    return {"event": "repeated", "message": message}


def timed_sample(index: int, milliseconds: float, of: str = "") -> Event:
    """One repeat's time, as it was measured: ours, or that `of` a peer."""
    return {"event": "sample", "index": index, "ms": milliseconds, **({"of": of} if of else {})}


def machine_sample(sample: Mapping[str, Any]) -> Event:
    """The simulated machine's state at one cycle."""
    return {"event": "sample", **sample}


def space(
    points: int,
    genes: Sequence[Mapping[str, Any]],
    metric: Metric,
    source: Source,
    budget: int,
    by: str,
    expected: Sequence[float] | None = None,
    part: str = "",
) -> Event:
    """What a search chooses from: how many points, the values of what varies, each with the usual one, and how many
    trials it may take. `by` is a sentence: what predicts the points, or why nothing does; where something does, that
    makes `expected` of random search the best value after each trial, the usual point first, as a share of its own.
    `part` is what trials are on, where that is not all of the data."""
    predicted = {"predicted": expected is not None, "expected": None if expected is None else list(expected)}
    told = {"metric": metric, "source": source, **predicted, "by": by, "budget": budget, "part": part}
    return {"event": "space", "points": points, "genes": list(genes), **told}


def trial(
    number: int,
    choices: Mapping[str, Any],
    value: float | None,
    status: TrialStatus,
    best: float,
    note: str = "",
    predicted: float | None = None,
    searched: bool = True,
) -> Event:
    """One point that was tried, and the best value of all until then; the first, of number 0, is the usual one. What
    was `predicted` is in the unit of the values, as if the usual point's had been predicted right. A point that no
    search has asked for was tried for what is said of the best."""
    found = {"value": value, "predicted": predicted, "status": status, "note": note, "best": best}
    found["searched"] = searched
    return {"event": "trial", "number": number, "choices": dict(choices), **found}


def first(body: Mapping[str, Any]) -> Event:
    """What a compilation shows until its `result` is there: the first form of what takes long."""
    return {"event": "first", **body}


def result(body: Mapping[str, Any]) -> Event:
    """The run's outcome: what `explorer run --json` prints."""
    return {"event": "result", **body}


def failed(kind: FailureKind, message: str, hint: str = "", diagnostics: Sequence[Mapping[str, Any]] = ()) -> Event:
    """Why there is no result, and what to do; `diagnostics` where the model itself is at fault."""
    event: Event = {"event": "failed", "kind": kind, "message": message, "hint": hint}
    if diagnostics:
        event["diagnostics"] = list(diagnostics)
    return event


def is_last(event: Event) -> bool:
    """Whether a run ends with this event."""
    return event.get("event") in ("result", "failed")


def is_end_of_worker(event: Event) -> bool:
    """Whether the process that says this is of no more use: a kernel has broken its context on the device, or it was
    stopped in the middle of a compilation."""
    return bool(event.get("stopped")) or (event.get("event") == "failed" and event.get("kind") == "crashed")


def sentence_diagnostic(message: str, detail: str = "") -> dict[str, Any]:
    """A diagnostic's JSON for what has no place in a model's text: a limit, a bad option, a missing file."""
    nowhere = dict.fromkeys(("line", "column", "end_line", "end_column"))
    return {"message": message, **nowhere, "detail": detail, "source": "", "fixes": [], "severity": "error"}


def outcome(last: Event) -> dict[str, Any]:
    """A run's last event as the one object that `explorer run --json` prints and `POST /api/run` answers."""
    body = {key: value for key, value in last.items() if key != "event"}
    if last["event"] == "result":
        return {"ok": True, **body}
    return {"ok": False, "diagnostics": [sentence_diagnostic(last["message"], last["hint"])], **body}
