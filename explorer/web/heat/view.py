"""The figures of each operation as the column beside the lines has them: in short, as a share of all, and in words; and
where samples of the machine code have been recorded, those of each of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from explorer.compiler.heat.recordings import REASONS
from explorer.web.panes.amounts import cost, time

UNKNOWN = "No times: how many rows there are is known neither from the model nor from the chosen data."
NOTHING = "computes nothing and moves nothing of its own"
MOST_REASONS = 3
"""Of those why warps waited, the most frequent ones are said."""


class Figure(TypedDict):
    """Of an operation, or of a line of machine code; `share` is that of all operations' time, one after another, or of
    all samples."""

    short: str
    share: float
    words: str


class Heat(TypedDict, total=False):
    """By operation its figures, and by line of the machine code; `basis` says what they rest on, `reason` why there are
    none."""

    operations: dict[str, Figure]
    lines: dict[str, Figure]
    basis: str
    reason: str


def shown(heat: Mapping[str, Any]) -> Heat:
    """The JSON of `compiler.heat` as the page shows it."""
    predicted, measured = heat["predicted"], heat["measured"]
    if predicted is None and measured is None:
        return Heat(reason=UNKNOWN)
    found = {number: _figure(each) for number, each in predicted["operations"].items()} if predicted else {}
    bases = [_basis(heat, predicted)] if predicted else []
    if measured is None:
        return Heat(operations=found, basis=bases[0])
    label = ", ".join(measured["labels"])
    for number, samples in measured["operations"].items():
        told = _samples(samples, measured["samples"], label)
        before = found.get(number)
        found[number] = told if before is None else {**before, "words": f"{before['words']}; {told['words']}"}
    lines = {line: _samples(each, measured["samples"], label) for line, each in measured["lines"].items()}
    kernels = ", ".join(measured["kernels"])
    return Heat(operations=found, lines=lines, basis="; ".join([*bases, f"lines of {kernels} in sass {label}"]))


def _basis(heat: Mapping[str, Any], predicted: Mapping[str, Any]) -> str:
    rest = f", {_percent(predicted['rest']['share'])} of it in what passes made" if predicted["rest"]["share"] else ""
    published = f"by published figures of {heat['device']}"
    all_of_it = f"for all operations, one after another and without caches{rest}"
    return f"predicted for {heat['counted']} {published}; {time(predicted['seconds'])} {all_of_it}"


def _figure(found: Mapping[str, Any]) -> Figure:
    words = cost(found)
    if not words:
        return Figure(short="0", share=0.0, words=f"predicted: {NOTHING}")
    share = f"{_percent(found['share'])} of all operations"
    return Figure(short=time(found["seconds"]), share=found["share"], words=f"predicted: {words}; {share}")


def _samples(found: Mapping[str, Any], whole: int, label: str) -> Figure:
    """`measured on NVIDIA H200 with ncu ...: 410 of 12,000 samples, 3.4 %: 60 % for global memory, 20 % going on`."""
    count, reasons = found["samples"], list(found["reasons"].items())[:MOST_REASONS]
    why = ", ".join(f"{_percent(each / count)} {REASONS.get(reason, reason)}" for reason, each in reasons)
    share = _percent(found["share"])
    return Figure(short=share, share=found["share"], words=f"{label}: {count:,} of {whole:,} samples, {share}: {why}")


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"
