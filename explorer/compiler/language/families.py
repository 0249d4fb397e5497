"""The families of definitions that run, score and layer: from a definition to its graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explorer.compiler.ir import graph as ir
from explorer.compiler.language import syntax
from explorer.compiler.language.builder import GraphBuilder
from explorer.compiler.language.builtins import GRAPH, SETS_OF_FAMILIES
from explorer.compiler.language.check import OperationSite
from explorer.compiler.language.declarations import GRAPH_NAMES, declare_tensors
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text
from explorer.compiler.language.elaborate import Elaborator
from explorer.compiler.language.elements import STRUCTURE
from explorer.compiler.language.entities import Constant, Entity, GraphArgument, Index, Row, Stopped, Table
from explorer.compiler.language.prelude import prelude
from explorer.compiler.language.shapes import show
from explorer.compiler.options import Negatives

SCORE_PARAMETERS = "(h: entity, r: relation, t: entity)"
SCORE_SETS = ["entity", "relation", "entity"]
LAYER_PARAMETERS = "(g: graph)"

GRAPH_MAPS = {"src": ("edge", "node"), "dst": ("edge", "node"), "etype": ("edge", "etype"), "ntype": ("node", "ntype")}
"""The maps of every graph, with their domains and codomains."""

GRAPH_DOMAINS = {"src": "edge", "dst": "edge", "etype": "edge", "edge": "edge", "node": "node", "ntype": "node"}
"""What a value of a layer may depend on, a map or the element itself, and the set that it lives on then."""


@dataclass(frozen=True)
class Source:
    """What all definitions of a text share: sizes and helpers by name, and where errors go."""

    program: syntax.Program
    text: str
    sizes: Mapping[str, int]
    helpers: Mapping[str, syntax.Definition]
    collector: Collector


class _Definition(ABC):
    """A definition on its way to a graph."""

    def __init__(self, definition: syntax.Definition, source: Source, domains: Mapping[str, str]) -> None:
        self.definition = definition
        self.source = source
        self.collector = source.collector
        self.builder = GraphBuilder(domains, source.collector)
        statements = syntax.walk_statements(definition.statements)
        broken = [entry for entry in (*source.program.broken, *statements) if isinstance(entry, syntax.Broken)]
        unknown = frozenset[str]().union(*(entry.names for entry in broken))
        helpers = source.helpers if definition.kind == "score" else {**prelude(), **source.helpers}
        self.elaborator = Elaborator(
            source.text, source.sizes, helpers, unknown, self.builder, source.collector, definition
        )
        self.scope: dict[str, Entity | None] = {parameter.name.text: None for parameter in definition.parameters}

    def graph(self) -> ir.Graph | None:
        """The definition's graph, or None where anything is wrong with it."""
        try:
            tensors = declare_tensors(self.definition, self.scope, self.elaborator)
            tables = {name: entry for name, entry in self.scope.items() if isinstance(entry, Table)}
            self.elaborator.loops.elements.tables.update(tables)
            result = self.elaborator.body(self.definition, self.scope)
        except Stopped:
            return None
        returned = next((entry for entry in self.definition.statements if isinstance(entry, syntax.Return)), None)
        if result is None or returned is None:
            return None
        value = self.elaborator.value(returned.value, result)
        row = None if value is None else self.check_result(returned.value, value)
        if row is None or self.collector.diagnostics:
            return None
        return ir.Graph(
            origin=(self.definition.name.extent,),
            name=self.definition.name.text,
            family=self.definition.kind,
            sizes=tuple(self.source.sizes.items()),
            maps=self.maps(),
            tensors=(*tensors, *self.structure()),
            values=tuple(self.builder.values),
            result=row.name,
        )

    @abstractmethod
    def maps(self) -> tuple[ir.IndexMap, ...]:
        """The maps of the graph."""

    def structure(self) -> tuple[ir.Tensor, ...]:
        """The tensors that the family itself brings."""
        return ()

    @abstractmethod
    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value, if the family can return it."""

    def sites(self) -> tuple[OperationSite, ...]:
        """The operations that became values, in the order of the text."""
        return tuple(sorted(self.builder.sites.values(), key=lambda site: site.span))


class Score(_Definition):
    """A score, over a batch of triples."""

    def __init__(self, definition: syntax.Definition, source: Source, negatives: Negatives | None) -> None:
        self._maps = _index_maps(definition, negatives, source.collector)
        super().__init__(definition, source, {entry.name: entry.domain for entry in self._maps})
        self.scope |= {entry.name: Index(entry.name, entry.codomain) for entry in self._maps}

    def maps(self) -> tuple[ir.IndexMap, ...]:
        return self._maps

    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value must be a number for each triple."""
        if isinstance(value, Constant) or (not value.depends and not value.shape):
            maps = ", ".join(entry.name for entry in self._maps)
            message = f"the score is the same for every triple: it uses none of {maps}"
            self.collector.report(message, place.extent)
            return None
        if value.shape:
            text = slice_text(self.source.text, place.extent)
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
            self.collector.report(message, place.extent, "", fixes)
            return None
        return value


class Layer(_Definition):
    """A layer, over a graph."""

    def __init__(self, definition: syntax.Definition, source: Source) -> None:
        super().__init__(definition, source, GRAPH_DOMAINS)
        for dim in source.program.dims:
            if dim.name.text in GRAPH_NAMES:
                message = f"'{dim.name.text}' is a part of the graph: choose another name"
                source.collector.report(message, dim.name.extent)
        parameters = definition.parameters
        annotations = [parameter.annotation.text if parameter.annotation else "" for parameter in parameters]
        if annotations == [GRAPH]:
            name = parameters[0].name.text
            self.scope[name] = GraphArgument(name)
        elif all(entry in (GRAPH, *SETS_OF_FAMILIES["layer"], "") for entry in annotations):
            extent = definition.parameters_extent
            name = parameters[0].name.text if parameters else "g"
            fix = Fix(f"Use ({name}: graph)", extent, f"({name}: graph)")
            message = f"a layer is of a graph: {definition.name.text}{LAYER_PARAMETERS}"
            source.collector.report(message, extent, fixes=[fix])

    def maps(self) -> tuple[ir.IndexMap, ...]:
        """The maps that the values use, in the order of GRAPH_MAPS."""
        operators = [value.operator for value in self.builder.values]
        used = {step for operator in operators for path in ir.indices_of(operator) for step in path.split(".")}
        used |= {operator.map for operator in operators if isinstance(operator, ir.Segment)}
        origin = (self.definition.parameters_extent,)
        return tuple(
            ir.IndexMap(origin=origin, name=name, domain=domain, codomain=codomain)
            for name, (domain, codomain) in GRAPH_MAPS.items()
            if name in used
        )

    def structure(self) -> tuple[ir.Tensor, ...]:
        """Of what the graph brings, what the values use."""
        operators = [value.operator for value in self.builder.values]
        used = {operator.tensor for operator in operators if isinstance(operator, ir.Gather)}
        origin = (self.definition.parameters_extent,)
        return tuple(
            ir.Tensor(origin=origin, name=name, sets=(index_set,), dims=(), kind="structure")
            for name, index_set in STRUCTURE.items()
            if name in used
        )

    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value must be one of each node or of each edge."""
        if isinstance(value, Constant) or not value.depends:
            message = "the result is the same for every node and edge: a layer returns data of nodes or edges"
            self.collector.report(message, place.extent)
            return None
        return value


def _index_maps(
    definition: syntax.Definition, negatives: Negatives | None, collector: Collector
) -> tuple[ir.IndexMap, ...]:
    """The maps of a score's header: head, relation and tail of a triple, in this order."""
    sets = [parameter.annotation.text if parameter.annotation else "" for parameter in definition.parameters]
    if sets != SCORE_SETS:
        if all(entry in SETS_OF_FAMILIES["score"] for entry in sets):
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
            if parameter.annotation is not None and parameter.annotation.text in SETS_OF_FAMILIES["score"]
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
