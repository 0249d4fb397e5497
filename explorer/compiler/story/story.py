"""The story of one operation, from the text to its machine code, as JSON.

At each stage its own lines, and the passes that made or changed these: what they said of the operation, what that saved
of its rows, operations and bytes, and why one refused. `explorer.web.story` shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from explorer.compiler.compilation import Compilation, Operation
from explorer.compiler.effects.figures import figures, own_values, rows_by_set, stored_bytes
from explorer.compiler.heat.predicted import (
    counted_on,
    device_of,
    predicted_costs,
    stored_by_kernels,
    target_of,
)
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Line, Span
from explorer.compiler.pipeline import STAGES, StageSpec
from explorer.compiler.stages import PassReport
from explorer.compiler.story.clauses import about, names_of, own_lines
from explorer.compiler.story.mix import instruction_mix
from explorer.compiler.story.sources import STEPS, meaning_of, source_of

Json = dict[str, Any]
MOST_LINES = 12
"""Lines of a stage that a story shows; the pane has the others."""
MOST_SAID = 4
"""Sentences of a pass, of those that speak of the operation."""


def story_json(compilation: Compilation, number: int, stages: Collection[str]) -> Json | None:
    """The story of the operation of a number, through the stages that are named; None where there is none."""
    operation = next((each for each in compilation.operations if each.id == number), None)
    if operation is None:
        return None
    told = [_stage_json(compilation, operation.span, spec) for spec in STAGES if spec.name in stages]
    return {
        "id": operation.id,
        "label": operation.label,
        "op": operation.op,
        "value": operation.value,
        "work": dict(operation.work),
        "text": _text(compilation.text, operation),
        "predicted": _predicted(compilation, operation.span),
        "counted": counted_on(compilation),
        "stages": told,
    }


def _predicted(compilation: Compilation, operation: Span) -> Json | None:
    """What it takes on the GPU that is compiled for, by published figures; None where nobody knows its rows."""
    costs = predicted_costs(compilation)
    if costs is None:
        return None
    found = costs.operations[operation]
    return {
        "flop": found.flop,
        "bytes": found.bytes,
        "seconds": found.seconds,
        "limit": found.limit,
        "device": device_of(target_of(compilation)),
    }


def _text(text: str, operation: Operation) -> list[Json]:
    """The lines of the whole expression, and on the operator's the columns of that, from 0."""
    span, extent = operation.span, operation.extent
    numbers = range(extent.line, min(extent.end_line, extent.line + MOST_LINES - 1) + 1)
    lines = text.split("\n")

    def end(number: int) -> int:
        return span.end_column - 1 if number == span.end_line else len(lines[number - 1])

    return [
        {
            "number": number,
            "text": lines[number - 1],
            "words": [[span.column - 1, end(number)]] if number == span.line else [],
        }
        for number in numbers
    ]


def _stage_json(compilation: Compilation, operation: Span, spec: StageSpec) -> Json:
    stage = compilation.stages[spec.name]
    own = own_lines(stage.lines, operation)
    shown = _numbered(stage.lines, own)
    shares = [] if own else _numbered(stage.lines, [line for line in stage.lines if operation in line.origin])
    names = names_of(stage.program, stage.lines, operation) if stage.program is not None else None
    return {
        "name": spec.name,
        "available": stage.available,
        "reason": stage.reason,
        "hops": [
            hop for number, report in enumerate(stage.passes) if (hop := _hop(compilation, operation, report, number))
        ],
        "lines": (shown or shares)[:MOST_LINES],
        "total": len(shown or shares),
        "is_own": bool(own),
        "kernels": sorted(names.own_kernels) if names else [],
        "all_kernels": len(names.kernels) if names else 0,
        "mix": instruction_mix(own) if spec.name == "sass" else {},
    }


def _numbered(lines: Sequence[Line], some: Iterable[Line]) -> list[Json]:
    wanted = {id(line) for line in some}
    return [
        {"number": number, "text": line.text, "unit": line.unit}
        for number, line in enumerate(lines, start=1)
        if id(line) in wanted
    ]


def _hop(compilation: Compilation, operation: Span, report: PassReport, number: int) -> Json | None:
    """What a pass did to the operation, or why it did nothing; None where it says nothing of it."""
    step, spec = STEPS[report.name]
    before = names_of(report.read, report.before, operation)
    after = names_of(report.made, report.after, operation)
    touched = _texts(report.before, operation) != _texts(report.after, operation)
    refused = about((text.removeprefix("refused: ") for text in report.refusals), before, after)
    if not (touched or refused):
        return None
    said = about(report.said, before, after, or_kernels=True) if touched else []
    return {
        "pass": report.name,
        "number": number,
        "touched": touched,
        "said": said[:MOST_SAID],
        "more": max(len(said) - MOST_SAID, 0),
        "refused": refused[:MOST_SAID],
        "saved": _saved(compilation, operation, report) if touched else [],
        "meaning": meaning_of(step),
        "source": source_of(step, spec),
    }


def _texts(lines: Iterable[Line], operation: Span) -> list[str]:
    """An operation's own lines without the room between their columns, which other lines decide on."""
    return [" ".join(line.text.split()) for line in own_lines(lines, operation)]


def _saved(compilation: Compilation, operation: Span, report: PassReport) -> list[Json]:
    """What a pass over graphs changed of an operation's figures; of the one that fuses, what is never in memory."""
    if not isinstance(report.read, Graph):
        return []
    counts, negatives = compilation.rows, compilation.options.negatives
    count = negatives.count if negatives else 0
    before = rows_by_set(report.read, counts, count)
    if before is None:
        return []
    own = own_values(report.read, operation)
    if isinstance(report.made, (Kernel, Module)):
        stored = stored_by_kernels(report.read, compilation)
        arrays = figures(report.read, own, before).bytes
        return _changed("bytes in memory", arrays, stored_bytes(report.read, own, stored, before))
    assert isinstance(report.made, Graph)
    after = rows_by_set(report.made, counts, count)
    if after is None:
        return []
    old, new = figures(report.read, own, before), figures(report.made, own_values(report.made, operation), after)
    pairs = {"rows": (old.rows, new.rows), "FLOP": (old.flop, new.flop)}
    return [entry for what, sides in pairs.items() for entry in _changed(what, *sides)]


def _changed(what: str, before: int, after: int) -> list[Json]:
    return [{"what": what, "before": before, "after": after}] if before != after else []
