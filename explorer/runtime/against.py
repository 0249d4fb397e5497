"""A run of two sides of a comparison, A and B: the same text and data, other sizes, options or decisions.

B is the run, and A is set up beside it and measured by turns with it. Both are held against the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.runtime.runs.request import RunRequest, Setup
from explorer.runtime.times import ratio_of_medians, statistics


def side_a(request: RunRequest) -> RunRequest:
    """The request of side A, which nobody was shown a program of but where `against` says so."""
    return replace(request, **{"compiled": None, **(request.against or {})}, against=None)


def described(setup: Setup, reason: str) -> dict[str, Any]:
    """What a result says of side A on any target: what it is, and the `reason` why it has no figures, if so."""
    return {
        "sizes": dict(setup.compilation.sizes),
        "options": setup.compilation.options.to_json(),
        "schedule": setup.compilation.asked.to_json(),
        "reason": reason,
    }


def timed(setup: Setup, reason: str, theirs: Sequence[float], ours: Sequence[float]) -> dict[str, Any]:
    """Side A with its times, and how many times its median ours is: less than 1 where B is faster."""
    found = described(setup, reason)
    if reason or not theirs or not ours:
        return found
    return {**found, "samples_ms": list(theirs), **statistics(theirs), "of_a": ratio_of_medians(ours, theirs)}


def simulated(setup: Setup, reason: str, theirs: Mapping[str, Any], cycles: float) -> dict[str, Any]:
    """Side A with its cycles. A simulation takes the same on every run, so the ratio has no spread."""
    found = described(setup, reason)
    if reason:
        return found
    return {**found, "cycles": theirs["cycles"], "spent": theirs["spent"], "of_a": {"ratio": cycles / theirs["cycles"]}}
