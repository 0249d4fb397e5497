"""A whole program: its sizes and definitions are checked, and the definition that runs becomes a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Span
from explorer.compiler.language import syntax
from explorer.compiler.language.builder import GraphBuilder
from explorer.compiler.language.builtins import INDEX_SETS, builtin
from explorer.compiler.language.check import CheckResult, OperationSite
from explorer.compiler.language.declarations import declare_tensors
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, suggestion
from explorer.compiler.language.elaborate import Elaborator
from explorer.compiler.language.entities import Constant, Entity, Index, Row, Stopped
from explorer.compiler.language.shapes import show
from explorer.compiler.options import Negatives

LARGEST_SIZE = 65_536
SCORE_PARAMETERS = "(h: entity, r: relation, t: entity)"
SCORE_SETS = ["entity", "relation", "entity"]


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
    known = _check_sizes(program, text, sizes, collector)
    helpers = _check_definitions(program, collector)
    chosen = _choose(program, name, collector)
    graph: ir.Graph | None = None
    sites: tuple[OperationSite, ...] = ()
    for definition in program.definitions:
        if definition.kind == "score":
            checked = _Score(definition, program, text, known, helpers, negatives, collector)
            found = checked.graph()
            if definition is chosen:
                graph, sites = found, checked.sites()
    if collector.diagnostics:
        return CheckResult(None, collector.diagnostics, ())
    return CheckResult(graph, (), sites)


def _check_sizes(program: syntax.Program, text: str, sizes: Mapping[str, int], collector: Collector) -> dict[str, int]:
    """The final value of every declared size; one with an error counts as 1, which is reported already."""
    known: dict[str, int] = {}
    for dim in program.dims:
        name = dim.name.text
        if name in known:
            collector.report(f"the size '{name}' is declared twice", dim.name.extent)
            continue
        if builtin(name) or name in INDEX_SETS:
            _report_reserved(name, dim.name.extent, collector)
        value = sizes.get(name, _literal(dim.value))
        if value is None:
            message = f"the size '{name}' is a whole number from 1 to {LARGEST_SIZE:,}"
            collector.report(message, dim.value.extent)
        elif not 1 <= value <= LARGEST_SIZE:
            given = f"{value:,}" if abs(value) < 10**20 else slice_text(text, dim.value.extent)
            message = f"the size '{name}' is from 1 to {LARGEST_SIZE:,}, not {given}"
            collector.report(message, dim.name.extent if name in sizes else dim.value.extent)
        known[name] = value if value is not None and 1 <= value <= LARGEST_SIZE else 1
    if not program.errors:
        for name in sizes:
            if name not in known:
                other, _ = suggestion(name, Span(1, 1, 1, 1), known)
                declared = ", ".join(known) or "none"
                collector.report(f"the text declares no size '{name}'{other}", None, f"Declared: {declared}.")
    return known


def _literal(node: syntax.Expression) -> int | None:
    """A size's value where it is written as a whole number, with or without a sign; else None."""
    match node:
        case syntax.Number(value=int() as value):
            return value
        case syntax.Unary(operator="-", operand=syntax.Number(value=int() as value)):
            return -value
    return None


def _check_definitions(program: syntax.Program, collector: Collector) -> dict[str, syntax.Definition]:
    """The helpers by name; reports names that are taken."""
    seen: dict[str, syntax.Definition] = {}
    for definition in program.definitions:
        name = definition.name.text
        if name in seen:
            detail = f"The first one is in line {seen[name].header.line}."
            collector.report(f"'{name}' is defined twice", definition.name.extent, detail)
        elif builtin(name) or name in INDEX_SETS:
            _report_reserved(name, definition.name.extent, collector)
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
        names.add(name.text)
        if parameter.annotation is not None and parameter.annotation.text not in INDEX_SETS:
            _report_index_set(parameter.annotation, collector)
    if definition.kind == "def":
        for statement in definition.statements:
            if isinstance(statement, syntax.Declarations):
                kind = statement.tensors[0].kind
                collector.report(
                    f"a helper declares no tensors: put the '{kind}' into the score and pass it",
                    statement.tensors[0].extent,
                )


def _report_reserved(name: str, span: Span, collector: Collector) -> None:
    kind = "an index set" if name in INDEX_SETS else "a built-in function"
    collector.report(f"'{name}' is {kind}: choose another name", span)


def _report_index_set(name: syntax.Name, collector: Collector) -> None:
    hint, fixes = suggestion(name.text, name.extent, INDEX_SETS)
    sets = " and ".join(INDEX_SETS)
    collector.report(f"unknown index set '{name.text}'{hint or f': a score has {sets}'}", name.extent, fixes=fixes)


def _choose(program: syntax.Program, name: str | None, collector: Collector) -> syntax.Definition | None:
    """The definition that runs: the one named, or the last that is not a helper."""
    scores = {definition.name.text: definition for definition in program.definitions if definition.kind == "score"}
    if name is not None and name in scores:
        return scores[name]
    if name is not None:
        hint, _ = suggestion(name, Span(1, 1, 1, 1), scores)
        if not program.errors:
            collector.report(f"the text defines no score '{name}'{hint}", None)
    elif scores:
        return list(scores.values())[-1]
    elif not program.errors:
        detail = f"It begins with: score NAME{SCORE_PARAMETERS}:"
        collector.report("the text defines no score: there is nothing to compile", Span(1, 1, 1, 1), detail)
    return None


class _Score:
    """One score on its way to a graph."""

    def __init__(
        self,
        definition: syntax.Definition,
        program: syntax.Program,
        text: str,
        sizes: Mapping[str, int],
        helpers: Mapping[str, syntax.Definition],
        negatives: Negatives | None,
        collector: Collector,
    ) -> None:
        self._definition = definition
        self._text = text
        self._sizes = sizes
        self._collector = collector
        self._maps = _index_maps(definition, negatives, collector)
        domains = {entry.name: entry.domain for entry in self._maps}
        self._builder = GraphBuilder(domains, collector)
        broken = [entry for entry in (*program.broken, *definition.statements) if isinstance(entry, syntax.Broken)]
        unknown = frozenset[str]().union(*(entry.names for entry in broken))
        self._elaborator = Elaborator(text, sizes, helpers, unknown, self._builder, collector)

    def graph(self) -> ir.Graph | None:
        """The score's graph, or None where anything is wrong with it."""
        scope: dict[str, Entity | None] = {parameter.name.text: None for parameter in self._definition.parameters}
        scope |= {entry.name: Index(entry.name, entry.codomain) for entry in self._maps}
        try:
            tensors = declare_tensors(self._definition, scope, self._elaborator)
            result = self._elaborator.body(self._definition, scope)
        except Stopped:
            return None
        row = self._check_result(result)
        if row is None or self._collector.diagnostics:
            return None
        return ir.Graph(
            origin=(self._definition.name.extent,),
            name=self._definition.name.text,
            family="score",
            sizes=tuple(self._sizes.items()),
            maps=self._maps,
            tensors=tensors,
            values=tuple(self._builder.values),
            result=row.name,
        )

    def sites(self) -> tuple[OperationSite, ...]:
        """The operations that became values, in the order of the text."""
        return tuple(sorted(self._builder.sites.values(), key=lambda site: site.span))

    def _check_result(self, result: Entity | None) -> Row | None:
        """The returned value, which must be a number for each triple."""
        returned = next((entry for entry in self._definition.statements if isinstance(entry, syntax.Return)), None)
        if result is None or returned is None:
            return None
        place = returned.value
        value = self._elaborator.value(place, result)
        if value is None:
            return None
        if isinstance(value, Constant) or (not value.depends and not value.shape):
            maps = ", ".join(entry.name for entry in self._maps)
            message = f"the score is the same for every triple: it uses none of {maps}"
            self._collector.report(message, place.extent)
            return None
        if value.shape:
            text = slice_text(self._text, place.extent)
            fixes = [
                Fix(
                    f"Use {function}({text})" if len(text) <= 40 else f"Use {function}",
                    place.extent,
                    f"{function}({text})",
                )
                for function in ("norm", "sum")
                if len(value.shape) == 1
            ]
            message = f"a score is one number for each triple, but this is {show(value.shape)}"
            self._collector.report(message, place.extent, "", fixes)
            return None
        return value


def _index_maps(
    definition: syntax.Definition, negatives: Negatives | None, collector: Collector
) -> tuple[ir.IndexMap, ...]:
    """The maps of a score's header: head, relation and tail of a triple, in this order."""
    sets = [parameter.annotation.text if parameter.annotation else "" for parameter in definition.parameters]
    if sets != SCORE_SETS:
        if all(entry in INDEX_SETS for entry in sets):
            detail = "The index of the head comes first, then the relation's, then the tail's."
            names = _fitting_names([parameter.name.text for parameter in definition.parameters], sets)
            collector.report(
                f"a score is of a triple: {definition.name.text}{SCORE_PARAMETERS}",
                definition.parameters_extent,
                detail,
                [Fix(f"Use {names}", definition.parameters_extent, names)],
            )
        for parameter in definition.parameters:
            if parameter.annotation is None:
                name = parameter.name
                collector.report(
                    f"'{name.text}' needs its index set: '{name.text}: entity' or '{name.text}: relation'", name.extent
                )
        return tuple(
            _map(parameter, "batch")
            for parameter in definition.parameters
            if parameter.annotation is not None and parameter.annotation.text in INDEX_SETS
        )
    corrupted = {"head": 0, "tail": 2}[negatives.end] if negatives else None
    return tuple(
        _map(parameter, "negative" if position == corrupted else "batch")
        for position, parameter in enumerate(definition.parameters)
    )


def _map(parameter: syntax.Parameter, domain: str) -> ir.IndexMap:
    assert parameter.annotation is not None
    return ir.IndexMap(
        origin=(parameter.name.extent,),
        name=parameter.name.text,
        domain=domain,
        codomain=parameter.annotation.text,
    )


def _fitting_names(names: Iterable[str], sets: Iterable[str]) -> str:
    """A header's parameters as a score needs them, with the names that it has already."""
    given = list(zip(names, sets, strict=True))
    entities = [name for name, index_set in given if index_set == "entity"]
    relations = [name for name, index_set in given if index_set == "relation"]
    taken = entities + relations
    head = entities[0] if entities else _free(("h", "head", "x"), taken)
    tail = entities[1] if len(entities) > 1 else _free(("t", "h", "tail"), [*taken, head])
    relation = relations[0] if relations else _free(("r", "rel", "p"), taken)
    return f"({head}: entity, {relation}: relation, {tail}: entity)"


def _free(names: tuple[str, str, str], taken: list[str]) -> str:
    """The first of the names that is not taken; at most two are."""
    return next(name for name in names if name not in taken)
