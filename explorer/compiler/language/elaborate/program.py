"""A whole program: its sizes and definitions are checked, and the definition that runs becomes a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector, Fix, suggestion
from explorer.compiler.language.elaborate.families import (
    OP_PARAMETERS,
    Layer,
    Op,
    Score,
    Source,
)
from explorer.compiler.language.elaborate.headers.facts import SCORE_PARAMETERS, check_negatives, has_bag
from explorer.compiler.language.elaborate.headers.graphs import LAYER_PARAMETERS
from explorer.compiler.language.elaborate.headers.maps import report_elsewhere
from explorer.compiler.language.elaborate.result import CheckResult, OperationSite
from explorer.compiler.language.elaborate.sizes import check_sizes, report_reserved
from explorer.compiler.language.names.builtins import GRAPH_WORD, INDEX_SETS, RUNNING_KINDS, SETS_OF_FAMILIES, builtin
from explorer.compiler.language.parsing import syntax
from explorer.compiler.options import Negatives


def check_program(
    program: syntax.Program,
    text: str,
    sizes: Mapping[str, int],
    negatives: Negatives | None,
    name: str | None,
) -> CheckResult:
    """Checks a whole text. `sizes` override the declared ones; `name` picks a definition, else the last one runs.

    Where lines did not parse, their errors are reported together with those of the other lines."""
    collector = Collector()
    collector.add(program.errors)
    known = check_sizes(program, text, sizes, collector)
    helpers = _check_definitions(program, collector)
    chosen = _choose(program, name, collector)
    if negatives is not None and chosen is not None:
        check_negatives(chosen, negatives, collector)
    graph: ir.Graph | None = None
    sites: tuple[OperationSite, ...] = ()
    for definition in program.definitions:
        if definition.kind in RUNNING_KINDS:
            source = Source(program, text, known, helpers, collector)
            checked = _checked(definition, source, negatives)
            found = checked.graph()
            if definition is chosen:
                graph, sites = found, checked.sites()
            checked.close()
    if collector.diagnostics:
        return CheckResult(None, collector.diagnostics, ())
    return CheckResult(graph, (), sites)


def _checked(definition: syntax.Definition, source: Source, negatives: Negatives | None) -> Score | Layer | Op:
    if definition.kind == "score" and not has_bag(definition):
        return Score(definition, source, negatives)
    return Layer(definition, source) if definition.kind == "layer" else Op(definition, source)


def _check_definitions(program: syntax.Program, collector: Collector) -> dict[str, syntax.Definition]:
    """The helpers by name; reports names that are taken."""
    seen: dict[str, syntax.Definition] = {}
    for definition in program.definitions:
        name = definition.name.text
        if name in seen:
            detail = f"The first one is in line {seen[name].header.line}."
            collector.report(f"'{name}' is defined twice", definition.name.extent, detail)
        elif builtin(name) or name in INDEX_SETS:
            report_reserved(name, definition.name.extent, collector)
        seen.setdefault(name, definition)
        _check_parameters(definition, {dim.name.text for dim in program.dims}, collector)
    return {name: definition for name, definition in seen.items() if definition.kind == "def"}


def _check_parameters(definition: syntax.Definition, sizes: set[str], collector: Collector) -> None:
    names: set[str] = set()
    for parameter in definition.parameters:
        name = parameter.name
        if name.text in names:
            collector.report(f"the parameter '{name.text}' is there twice", name.extent)
        elif name.text in sizes:
            collector.report(f"'{name.text}' is a size: choose another name", name.extent)
        elif name.text in INDEX_SETS:
            report_reserved(name.text, name.extent, collector)
        names.add(name.text)
        known = (*SETS_OF_FAMILIES.get(definition.kind, INDEX_SETS), GRAPH_WORD)
        annotation = parameter.annotation
        if definition.kind in ("def", "layer") and annotation is not None and annotation.text not in known:
            _report_index_set(annotation, definition.kind, known, collector)
        elif definition.kind == "def" and annotation is not None and annotation.joined:
            fix = Fix(f"Use {annotation.text}", annotation.extent, annotation.text)
            message = f"a helper is of any graph, whatever its sets: {name.text}: {annotation.text}"
            collector.report(message, annotation.extent, fixes=[fix])
    if definition.kind == "def":
        report_elsewhere(definition, collector)
        for statement in definition.statements:
            if isinstance(statement, syntax.Declarations):
                kind = statement.tensors[0].kind
                collector.report(
                    f"a helper declares no tensors: declare the '{kind}' where it is called, and pass it",
                    statement.tensors[0].extent,
                )


def _report_index_set(name: syntax.Annotation, kind: str, known: Sequence[str], collector: Collector) -> None:
    hint, fixes = suggestion(name.text, name.word.extent, known)
    sets = " and ".join([", ".join(known[:-1]), known[-1]])
    has = hint or (f": a {kind} has {sets}" if kind != "def" else f": there are {sets}")
    collector.report(f"unknown index set '{name.text}'{has}", name.extent, fixes=fixes)


def _choose(program: syntax.Program, name: str | None, collector: Collector) -> syntax.Definition | None:
    """The definition that runs: the one named, or the last that is not a helper."""
    runs = {entry.name.text: entry for entry in program.definitions if entry.kind in RUNNING_KINDS}
    if name is not None and name in runs:
        return runs[name]
    if name is not None:
        hint, _ = suggestion(name, Span(1, 1, 1, 1), runs)
        if not program.errors:
            collector.report(f"the text defines no score, layer or op '{name}'{hint}", None)
    elif runs:
        return list(runs.values())[-1]
    elif not program.errors:
        heads = f"score NAME{SCORE_PARAMETERS}:, layer NAME{LAYER_PARAMETERS}: or op NAME{OP_PARAMETERS}:"
        detail = f"It begins with: {heads}"
        message = "the text defines no score, no layer and no op: there is nothing to compile"
        fixes = _made_runnable(program)
        collector.report(message, fixes[0].span if fixes else Span(1, 1, 1, 1), detail, fixes)
    return None


def _made_runnable(program: syntax.Program) -> list[Fix]:
    """The last helper as what runs, where its parameters are as many as those of a triple, or a graph."""
    helper = program.definitions[-1] if program.definitions else None
    if helper is None or any(parameter.annotation or parameter.default for parameter in helper.parameters):
        return []
    names = [parameter.name.text for parameter in helper.parameters]
    sets = {3: ("score", ("entity", "relation", "entity")), 1: ("layer", (GRAPH_WORD,))}.get(len(names))
    if sets is None or (len(names) == 1 and names != ["g"]):
        return []
    kind, words = sets
    listed = ", ".join(f"{name}: {word}" for name, word in zip(names, words, strict=True))
    return [Fix(f"Make it a {kind}", helper.header, f"{kind} {helper.name.text}({listed})")]
