"""A compilation as JSON: what the command line prints with `--json` and the web answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from explorer.compiler.decisions import Choice, Schedule
from explorer.compiler.effects.by_kernel import by_kernel
from explorer.compiler.effects.effect import Measure, effect
from explorer.compiler.effects.figures import known_rows
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module, print_program
from explorer.compiler.ir.node import Line, Made, Origin, Span
from explorer.compiler.pipeline import STAGES, StageSpec
from explorer.compiler.stages import PassReport, Program, Stage, Stages
from explorer.compiler.unsupported import OutOfBudget

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation, Operation

Json = dict[str, Any]


def compilation_json(
    compilation: Compilation,
    stages: Iterable[str] | None = None,
    snapshots: Iterable[str] | None = None,
    effects: Iterable[str] | None = None,
) -> Json:
    """The whole compilation, or of its stages only those named (on-demand stages are made by being named); the lines
    before and after each pass of all of these, or of those that `snapshots` names: four fifths of the whole; and what
    each pass changed in figures, of all or of those that `effects` names: a tenth of the time that it all takes."""
    with_lines = None if snapshots is None else frozenset(snapshots)
    with_figures = None if effects is None else frozenset(effects)
    wanted = {spec.name for spec in STAGES} if stages is None else set(stages)
    numbers = {operation.span: operation.id for operation in compilation.operations}
    made = [
        _bounded_json(
            compilation,
            spec,
            numbers,
            _Told(with_lines is None or spec.name in with_lines, with_figures is None or spec.name in with_figures),
        )
        for spec in STAGES
        if compilation.ok and spec.name in wanted
    ]
    return {
        "ok": compilation.ok,
        "name": compilation.name,
        "family": compilation.family,
        "sizes": dict(compilation.sizes),
        "options": compilation.options.to_json(),
        "schedule": compilation.asked.to_json(),
        "edited": [
            {
                **edit.to_json(),
                "operation": numbers.get(edit.operation) if edit.operation else None,
                "lines": [numbers.get(span) if span else None for span in edit.lines],
            }
            for edit in compilation.edits
        ],
        "counted": _counted_json(compilation),
        "ms": sum(stage["ms"] for stage in made),
        "first": compilation.first,
        "stopped": next((stage["name"] for stage in made if stage["stopped"]), ""),
        "diagnostics": [diagnostic.to_json(compilation.text) for diagnostic in compilation.diagnostics],
        "operations": [_operation_json(operation) for operation in compilation.operations],
        "stages": made,
    }


class _Told(NamedTuple):
    """What is told of each pass of a stage beside what it said."""

    lines: bool
    figures: bool


def _counted_json(compilation: Compilation) -> Json:
    """How many rows each index set has in what bytes and operations are counted for, and what that is called."""
    if not compilation.ok:
        return {"on": "", "rows": {}}
    measure = measure_of(compilation)
    on = "one triple" if compilation.family == "score" else measure.counts.name
    sets = {*measure.counts.rows, *_index_sets(compilation.stages["graph"].program)}
    return {"on": on, "rows": known_rows(compilation.family, sets, measure.counts, measure.negatives)}


def _index_sets(program: Program | None) -> set[str]:
    graphs = program.programs if isinstance(program, Module) else (program,)
    return {value.index_set for graph in graphs if isinstance(graph, Graph) for value in graph.values}


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


def _bounded_json(compilation: Compilation, spec: StageSpec, numbers: Mapping[Span, int], told: _Told) -> Json:
    """A stage that is made and printed, unless that takes more than the compilation may."""
    stage, measure = compilation.stages[spec.name], measure_of(compilation)
    try:
        return _stage_json(spec, stage, numbers, told, measure) | _nests_json(compilation, stage)
    except (OutOfBudget, MemoryError) as error:
        assert isinstance(compilation.stages, Stages)
        return _stage_json(spec, compilation.stages.stop(spec.name, error), numbers, told, measure)


def measure_of(compilation: Compilation) -> Measure:
    """What the graphs of a compilation are counted on."""
    negatives = compilation.options.negatives
    return Measure(compilation.rows, negatives.count if negatives else 0)


def _stage_json(spec: StageSpec, stage: Stage, numbers: Mapping[Span, int], told: _Told, measure: Measure) -> Json:
    origins = _Origins(numbers)
    return {
        "name": spec.name,
        "title": spec.title,
        "ms": stage.ms,
        "available": stage.available,
        "stopped": stage.stopped,
        "edited": stage.edited,
        "fork": stage.fork,
        "reason": stage.reason,
        "text": stage.text,
        "digest": stage.digest,
        "lines": origins.lines(stage.lines),
        "passes": [
            _pass_json(report)
            | ({"effect": effect(report, measure), "by_kernel": by_kernel(report, measure)} if told.figures else {})
            | ({"before": origins.lines(report.before), "after": origins.lines(report.after)} if told.lines else {})
            for report in stage.passes
        ],
        "origins": origins.table,
        "resources": [resources.to_json() for resources in stage.resources],
    }


class _Origins:
    """The origins of a stage's lines, each said once: a sum of many operands has as many lines that come of all."""

    def __init__(self, numbers: Mapping[Span, int]) -> None:
        self.table: list[Json] = []
        self._numbers = numbers
        self._places: dict[Origin, int] = {}

    def lines(self, lines: Iterable[Line]) -> list[Json]:
        """Lines, each with the place of its origin in the table."""
        return [{"text": line.text, "unit": line.unit, "origin": self._place(line.origin)} for line in lines]

    def _place(self, origin: Origin) -> int:
        if origin not in self._places:
            self._places[origin] = len(self.table)
            self.table.append(_origin_json(origin, self._numbers))
        return self._places[origin]


def _origin_json(origin: Origin, numbers: Mapping[Span, int]) -> Json:
    """`operations` are a line's primary one, and then those that contribute. Where a pass made the line for several,
    `made` says what for, and by which pass, and all of them contribute."""
    spans = [each for each in origin if isinstance(each, Span)]
    first = origin[0] if origin else None
    return {
        "operations": [numbers[span] for span in spans if span in numbers],
        "made": first._asdict() if isinstance(first, Made) else None,
        "spans": [list(span) for span in spans],
    }


def with_origins(stage: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> list[Json]:
    """A stage's lines, or those of one of its snapshots, each with what the table says of its origin."""
    return [{**line, **stage["origins"][line["origin"]]} for line in lines]


def _nests_json(compilation: Compilation, stage: Stage) -> Json:
    """Where a stage is of nests that something is chosen for, these with what may be."""
    if not stage.nests:
        return {}
    usual, refusals = compilation.usual, stage.passes[-1].refusals
    nests = [
        {
            "name": nest.name,
            "kernels": list(nest.kernels),
            "digest": _digest(compilation, nest.kernels),
            "decisions": [_decision_json(choice, compilation.asked, usual, refusals) for choice in nest.choices],
        }
        for nest in stage.nests
    ]
    known = {choice.key for nest in stage.nests for choice in nest.choices}
    unasked = {key: value for key, value in compilation.asked.items() if key not in known}
    return {"nests": nests, "unasked": unasked}


def _digest(compilation: Compilation, names: Iterable[str]) -> str:
    """What tells the text of some kernels from any other's, in 16 letters."""
    program = compilation.stages["kernels"].program
    kernels = [kernel for name in names if (kernel := kernel_of(program, name)) is not None]
    text = "\n".join(line.text for kernel in kernels for line in print_program(kernel))
    return sha256(text.encode()).hexdigest()[:16]


def kernel_of(program: object, name: str) -> ScheduledKernel | None:
    """The kernel of a name, of a program of one or of several."""
    return next((kernel for kernel in kernels_of(program) if kernel.name == name), None)


def kernels_of(program: object) -> list[ScheduledKernel]:
    """The kernels of a program, of one or of several."""
    programs = program.programs if isinstance(program, Module) else (program,)
    return [each for each in programs if isinstance(each, ScheduledKernel)]


def _decision_json(choice: Choice, asked: Schedule, usual: Schedule, refusals: Iterable[str]) -> Json:
    """A decision, with what was `asked` for, and why that was `refused` where something else was taken."""
    decision, wanted = choice.decision, asked.get(choice.key)
    refused = "" if wanted is None or wanted == choice.value else choice.refused or "the nest leaves no such choice"
    told = [text for text in refusals if text.startswith(f"{choice.kernel} is not scheduled by {wanted}: ")]
    refused = told[0].partition(": ")[2] if refused and told else refused
    values = choice.fitting()
    return {
        "kernel": choice.kernel,
        "name": decision.name,
        "value": choice.value,
        "usual": usual.get(choice.key, choice.value),
        "values": list(values if choice.value in values else (choice.value, *values)),
        "asked": wanted,
        "refused": refused,
        "why": decision.why,
        "source": decision.source,
    }


def _pass_json(report: PassReport) -> Json:
    return {
        "name": report.name,
        "changed": report.changed,
        "ms": report.ms,
        "summary": report.summary,
        "said": list(report.said),
        "refusals": list(report.refusals),
        "heeded": list(report.heeded),
    }
