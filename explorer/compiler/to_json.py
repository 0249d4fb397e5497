"""A compilation as JSON: what the command line prints with `--json` and the web answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.compiler.compilation import Compilation, Operation, PassReport, Stage
from explorer.compiler.ir.node import Line, Made, Span
from explorer.compiler.pipeline import STAGES, StageSpec

Json = dict[str, Any]


def compilation_json(compilation: Compilation, stages: Iterable[str] | None = None) -> Json:
    """The whole compilation, or of its stages only those named (on-demand stages are made by being named)."""
    wanted = {spec.name for spec in STAGES} if stages is None else set(stages)
    numbers = {operation.span: operation.id for operation in compilation.operations}
    made = [
        _stage_json(spec, compilation.stages[spec.name], numbers)
        for spec in STAGES
        if compilation.ok and spec.name in wanted
    ]
    return {
        "ok": compilation.ok,
        "name": compilation.name,
        "family": compilation.family,
        "sizes": dict(compilation.sizes),
        "options": compilation.options.to_json(),
        "ms": sum(stage["ms"] for stage in made),
        "first": compilation.first,
        "diagnostics": [diagnostic.to_json(compilation.text) for diagnostic in compilation.diagnostics],
        "operations": [_operation_json(operation) for operation in compilation.operations],
        "stages": made,
    }


def _span_json(span: Span) -> Json:
    return {
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _operation_json(operation: Operation) -> Json:
    return {
        "id": operation.id,
        "label": operation.label,
        **_span_json(operation.span),
        "extent": _span_json(operation.extent),
        "op": operation.op,
        "value": operation.value,
        "depends": list(operation.depends),
        "work": dict(operation.work),
    }


def _stage_json(spec: StageSpec, stage: Stage, numbers: Mapping[Span, int]) -> Json:
    return {
        "name": spec.name,
        "title": spec.title,
        "ms": stage.ms,
        "available": stage.available,
        "reason": stage.reason,
        "text": stage.text,
        "digest": stage.digest,
        "lines": [_line_json(line, numbers) for line in stage.lines],
        "passes": [_pass_json(report, numbers) for report in stage.passes],
        "resources": [resources.to_json() for resources in stage.resources],
    }


def _line_json(line: Line, numbers: Mapping[Span, int]) -> Json:
    """`operations` are the line's primary one, and then those that contribute. Where a pass made the line for several,
    `made` says what for, and by which pass, and all of them contribute."""
    first = line.origin[0] if line.origin else None
    spans = [each for each in line.origin if isinstance(each, Span)]
    return {
        "text": line.text,
        "operations": [numbers[span] for span in spans if span in numbers],
        "made": first._asdict() if isinstance(first, Made) else None,
        "origin": [list(span) for span in spans],
        "unit": line.unit,
    }


def _pass_json(report: PassReport, numbers: Mapping[Span, int]) -> Json:
    return {
        "name": report.name,
        "changed": report.changed,
        "ms": report.ms,
        "summary": report.summary,
        "refusals": list(report.refusals),
        "heeded": list(report.heeded),
        "before": [_line_json(line, numbers) for line in report.before],
        "after": [_line_json(line, numbers) for line in report.after],
    }
