"""The families of definitions that run, score, layer and op: from a definition to its graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.index_sets import is_given
from explorer.compiler.ir.node import Origin, operations_of
from explorer.compiler.ir.set_maps import graph_maps
from explorer.compiler.language.diagnostics import Collector
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.declarations import declare_tensors
from explorer.compiler.language.elaborate.elaborate import Elaborator
from explorer.compiler.language.elaborate.headers.facts import index_maps, own_negatives
from explorer.compiler.language.elaborate.headers.graphs import graph_of, names_sets
from explorer.compiler.language.elaborate.headers.lists import ids_beside, structure_of
from explorer.compiler.language.elaborate.headers.maps import with_maps
from explorer.compiler.language.elaborate.reductions import whole_map
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.computed_ids import made_maps, with_computed
from explorer.compiler.language.names.builtins import RUNNING_KINDS
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import (
    Constant,
    Entity,
    Index,
    Members,
    Row,
    Several,
    Stopped,
    StructureArgument,
    Table,
)
from explorer.compiler.language.names.prelude import helpers_for
from explorer.compiler.language.names.reserved import why_reserved
from explorer.compiler.language.names.structures import BATCH, GRAPH, NEGATIVE, Structure, bags_of, facts_of
from explorer.compiler.language.parsing import syntax
from explorer.compiler.options import Negatives

OP_PARAMETERS = "(b: bag of row)"


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

    family: str
    """That of the graph."""
    ends: ir.Ends = ir.NODES
    """The sets that a layer's edges lead from and to."""

    def __init__(
        self,
        definition: syntax.Definition,
        source: Source,
        structure: Structure,
        dependencies: Iterable[Dependency],
    ) -> None:
        self.definition = definition
        self.source = source
        self.collector = source.collector
        self.structure = structure
        self.builder = GraphBuilder(dependencies, source.collector)
        statements = syntax.walk_statements(definition.statements)
        broken = [entry for entry in (*source.program.broken, *statements) if isinstance(entry, syntax.Broken)]
        unknown = frozenset[str]().union(*(entry.names for entry in broken))
        helpers = {**helpers_for(definition.kind), **source.helpers}
        self.elaborator = Elaborator(
            source.text,
            source.sizes,
            helpers,
            unknown,
            self.builder,
            source.collector,
            definition,
            structure,
            {entry.name.text: entry.kind for entry in source.program.definitions if entry.kind in RUNNING_KINDS},
        )
        self.scope: dict[str, Entity | None] = {parameter.name.text: None for parameter in definition.parameters}

    def graph(self) -> ir.Graph | None:
        """The definition's graph, or None where anything is wrong with it."""
        try:
            tensors = declare_tensors(self.definition, self.scope, self.elaborator)
            tables = {name: entry for name, entry in self.scope.items() if isinstance(entry, Table)}
            self.elaborator.loops.elements.tables.update(tables)
            found = self.elaborator.body(self.definition, self.scope)
            self.elaborator.unknown.report_tables()
        except Stopped:
            self.elaborator.unknown.report_tables()
            return None
        returned = next((entry for entry in self.definition.statements if isinstance(entry, syntax.Return)), None)
        if found is None or returned is None:
            return None
        several = found if isinstance(found, Several) else Several(returned.values, (found,))
        rows = [self._result(*each) for each in zip(several.nodes, several.entities, strict=True)]
        results = [row.name for row in rows if row is not None]
        if len(results) < len(rows) or self.collector.diagnostics:
            return None
        return ir.Graph(
            origin=(self.definition.name.extent,),
            name=self.definition.name.text,
            family=self.family,
            sizes=tuple(self.source.sizes.items()),
            structure=self.structure.kind if self.family == "op" else "",
            ends=self.ends,
            maps=self.maps(),
            tensors=(*tensors, *self.given()),
            values=tuple(self.builder.values),
            result=results[0],
            further=tuple(results[1:]),
        )

    def _result(self, place: syntax.Expression, entity: Entity | None) -> Row | None:
        """What is returned, as a value that the family can return."""
        value = None if entity is None else self.elaborator.value(place, entity)
        return None if value is None else self.check_result(place, value)

    def close(self) -> None:
        """Lets go of the elaborator, whose parts know one another: no collector has to look for them."""
        vars(self.elaborator).clear()

    @abstractmethod
    def maps(self) -> tuple[ir.IndexMap, ...]:
        """The maps of the graph."""

    def given(self) -> tuple[ir.Tensor, ...]:
        """Of the numbers that the structure brings for its elements, those that the values use."""
        operators = [value.operator for value in self.builder.values]
        used = {operator.tensor for operator in operators if isinstance(operator, ir.Gather)}
        origin = (self.definition.parameters_extent,)
        return tuple(
            ir.Tensor(origin=origin, name=name, sets=(index_set,), dims=(), kind="structure")
            for name, index_set in self.structure.given.items()
            if name in used
        )

    @abstractmethod
    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value, if the family can return it."""

    def sites(self) -> tuple[OperationSite, ...]:
        """The operations that became values, in the order of the text."""
        return tuple(sorted(self.builder.sites.values(), key=lambda site: site.span))


class Score(_Definition):
    """A score, over a batch of facts: of triples, or of as many ids as its header has, each of its set."""

    family = "score"

    def __init__(self, definition: syntax.Definition, source: Source, negatives: Negatives | None) -> None:
        self._maps = index_maps(definition, negatives, source.sizes, source.collector)
        own = own_negatives(definition)
        ids = [entry for entry in self._maps if is_given(entry)]
        dependencies = [Dependency(entry.name, entry.domain) for entry in ids]
        structure = with_maps(facts_of(entry.codomain for entry in ids), definition, source.sizes, source.collector)
        structure = with_computed(structure, definition, source.sizes)
        super().__init__(definition, source, structure, [*dependencies, Dependency(BATCH, BATCH)])
        report_sizes(source, structure)
        self._replaced = [each for each in dependencies if each.domain == NEGATIVE and each.name not in own]
        kinds = dict.fromkeys(own, Members)
        self.scope |= {e.name: kinds.get(e.name, Index)(e.name, e.codomain, e.domain) for e in ids}

    def maps(self) -> tuple[ir.IndexMap, ...]:
        """Those of the header, those that the text declares, and those that it computes of ids."""
        origin = (self.definition.parameters_extent,)
        declared = (
            ir.IndexMap(origin=origin, name=name, domain=domain, codomain=codomain)
            for name, (domain, codomain) in self.structure.maps.items()
        )
        return (*self._maps, *declared, *made_maps(self.elaborator, origin))

    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value must be one of each triple, a number or more."""
        if isinstance(value, Constant) or not value.depends:
            maps = ", ".join(entry.name for entry in self._maps if is_given(entry))
            message = f"the score is the same for every triple: it uses none of {maps}"
            self.collector.report(message, place.extent)
            return None
        return self._of_negatives(value)

    def _of_negatives(self, value: Row) -> Row:
        """The score of each negative that replaces an id, though the fact alone may tell it."""
        if not self._replaced or self.builder.index_set(value.depends) == NEGATIVE:
            return value
        made = next(entry for entry in self.builder.values if entry.name == value.name)
        (operation,) = operations_of(made.origin)
        site = self.builder.sites[operation]
        return self.elaborator.operations.spread(site, value, self._replaced[0])


class Layer(_Definition):
    """A layer, over a graph."""

    family = "layer"

    def __init__(self, definition: syntax.Definition, source: Source) -> None:
        found = graph_of(definition, source.sizes, source.collector)
        self.known = found is not None or not names_sets(definition)
        of_graph = found or GRAPH
        self.ends = of_graph.led_to("src"), of_graph.led_to("dst")
        structure = with_maps(of_graph, definition, source.sizes, source.collector)
        structure = with_computed(structure, definition, source.sizes)
        super().__init__(definition, source, structure, structure.dependencies)
        report_sizes(source, structure)
        if found is not None:
            for name in (parameter.name.text for parameter in definition.parameters):
                self.scope[name] = StructureArgument(name, structure.several.get(name, structure))

    def graph(self) -> ir.Graph | None:
        """The layer's graph; where it is between sets that cannot be, nothing in its body can be told."""
        return super().graph() if self.known else None

    def maps(self) -> tuple[ir.IndexMap, ...]:
        """The maps that the values use or the layer declares, in the structure's order."""
        operators = [value.operator for value in self.builder.values]
        used = {step for operator in operators for path in ir.indices_of(operator) for step in path.split(".")}
        used |= {operator.map for operator in operators if isinstance(operator, ir.Segment)}
        origin = (self.definition.parameters_extent,)
        made = made_maps(self.elaborator, origin)
        used |= {step for entry in made for path in entry.paths for step in path.split(".")}
        found = (
            ir.IndexMap(origin=origin, name=name, domain=domain, codomain=codomain)
            for name, (domain, codomain) in self.structure.maps.items()
            if name in used or name not in graph_maps(self.ends)
        )
        return (*found, *made, *whole_maps(self.builder.values, self.structure, origin))

    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value must be one of each node or of each edge, or a reduction of all of them, as one row."""
        if isinstance(value, Row) and (value.depends or self._of_all(value.name)):
            return value
        message = "the result is the same for every graph: a layer returns data of nodes or edges, or of all of them"
        self.collector.report(message, place.extent)
        return None

    def _of_all(self, name: str) -> bool:
        """Whether a value that belongs to no set is made of a reduction of a whole one."""
        values = {value.name: value for value in self.builder.values}
        pending, seen = [name], set[str]()
        while pending:
            value = values[pending.pop()]
            if isinstance(value.operator, ir.Segment):
                return True
            pending += [operand for operand in ir.operands(value.operator) if operand not in seen]
            seen.update(pending)
        return False


class Op(_Definition):
    """An op, over bags, blocks or a sparse matrix; or a score of facts each of which has a bag besides its ids."""

    family = "op"

    def __init__(self, definition: syntax.Definition, source: Source) -> None:
        structure = structure_of(definition, source.sizes, source.collector)
        structure = structure and with_maps(structure, definition, source.sizes, source.collector)
        structure = structure and with_computed(structure, definition, source.sizes)
        known = structure or bags_of("row")
        super().__init__(definition, source, known, known.dependencies)
        self.known = structure is not None
        if structure is None:
            return
        report_sizes(source, structure)
        ids = ids_beside(definition)
        for name in (parameter.name.text for parameter in ids):
            self.scope[name] = Index(name, structure.maps[name][1], structure.each)
        each = structure.each
        for name in (parameter.name.text for parameter in definition.parameters if parameter not in ids):
            matrix = StructureArgument(name, structure)
            self.scope[name] = matrix if each == "unit" else Index(each, each, each, name, bag=name)

    def graph(self) -> ir.Graph | None:
        """The op's graph; with a header that is wrong, nothing in its body can be told."""
        return super().graph() if self.known else None

    def maps(self) -> tuple[ir.IndexMap, ...]:
        """All maps of the structure."""
        origin = (self.definition.parameters_extent,)
        found = (
            ir.IndexMap(origin=origin, name=name, domain=domain, codomain=codomain)
            for name, (domain, codomain) in self.structure.maps.items()
        )
        made = made_maps(self.elaborator, origin)
        return (*found, *made, *whole_maps(self.builder.values, self.structure, origin))

    def check_result(self, place: syntax.Expression, value: Row | Constant) -> Row | None:
        """The returned value must be one of each bag, row, entry or nonzero."""
        if isinstance(value, Constant) or not value.depends:
            one = f"{self.structure.group} and {self.structure.member}"
            message = f"the result is the same for every {one}: an op returns data of {self.structure.words}"
            self.collector.report(message, place.extent)
            return None
        return value


def whole_maps(values: Iterable[ir.Value], structure: Structure, origin: Origin) -> tuple[ir.IndexMap, ...]:
    """The maps along which values are reduced that take all elements of a set to one place."""
    used = {value.operator.map for value in values if isinstance(value.operator, ir.Segment)}
    sets = structure.all_sets
    return tuple(
        ir.IndexMap(origin=origin, name=whole_map(index_set), domain=index_set, codomain="unit")
        for index_set in sets
        if whole_map(index_set) in used
    )


def report_sizes(source: Source, structure: Structure) -> None:
    """Reports sizes of the text that have the name of a part of a structure."""
    for dim in source.program.dims:
        reserved = why_reserved(dim.name.text, structure)
        if reserved:
            source.collector.report(f"'{dim.name.text}' {reserved}: choose another name", dim.name.extent)
