"""The families of definitions that run, score, layer and op: from a definition to its graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Origin
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, suggestion
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.declarations import declare_tensors, why_reserved
from explorer.compiler.language.elaborate.elaborate import Elaborator
from explorer.compiler.language.elaborate.reductions import whole_map
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.names.builtins import GRAPH_WORD, RUNNING_KINDS, SETS_OF_FAMILIES, builtin
from explorer.compiler.language.names.dependency import Dependency
from explorer.compiler.language.names.entities import Constant, Entity, Index, Row, Stopped, StructureArgument, Table
from explorer.compiler.language.names.prelude import helpers_for
from explorer.compiler.language.names.shapes import show
from explorer.compiler.language.names.structures import GRAPH, TRIPLES, Structure, bags_of, blocks_of, matrix
from explorer.compiler.language.parsing import syntax
from explorer.compiler.options import Negatives

SCORE_PARAMETERS = "(h: entity, r: relation, t: entity)"
SCORE_SETS = ["entity", "relation", "entity"]
LAYER_PARAMETERS = "(g: graph)"
OP_PARAMETERS = "(b: bag of row)"

SHARED = (
    "A number of each triple meets elements that all triples share, or several dimensions are left: take the sum, mean"
    " or norm of each vector before that."
)
"""Of a result that no reduction of the whole would mend."""
STRUCTURE_WORDS = ("bag", "csr", "coo", "blocks")
FORMATS = {
    "csc": "The columns of a matrix are the rows of its transpose: A: csr[col, row].",
    **dict.fromkeys(
        ("bsr", "ell", "dia"), "Blocks are rows of a table: q: blocks of row; other formats are read as csr or coo."
    ),
}
"""Formats that the language has under another name."""
"""What an op's parameter is."""

OP_EXAMPLES = "b: bag of row, q: blocks of row, A: csr[row, col] or A: coo[row, col]"

OWN_SETS = ("bag", "query", "entry", "nonzero", "batch", "negative", "unit")
"""The sets that an op's header brings beside those that it names, and those of other definitions' values."""


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
            result = self.elaborator.body(self.definition, self.scope)
            self.elaborator.unknown.report_tables()
        except Stopped:
            self.elaborator.unknown.report_tables()
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
            structure=self.structure.kind if self.definition.kind == "op" else "",
            maps=self.maps(),
            tensors=(*tensors, *self.given()),
            values=tuple(self.builder.values),
            result=row.name,
        )

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
    """A score, over a batch of triples."""

    def __init__(self, definition: syntax.Definition, source: Source, negatives: Negatives | None) -> None:
        self._maps = _index_maps(definition, negatives, source.collector)
        dependencies = [Dependency(entry.name, entry.domain) for entry in self._maps]
        super().__init__(definition, source, TRIPLES, dependencies)
        self.scope |= {entry.name: Index(entry.name, entry.codomain, entry.domain) for entry in self._maps}

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
            reduces = len(value.shape) == 1 and self._is_vector(value.name)
            fixes = [
                Fix(
                    f"Use {function}({text})" if len(text) <= 40 else f"Use {function}",
                    place.extent,
                    f"{function}({text})",
                )
                for function in ("norm", "sum")
                if reduces
            ]
            message = f"a score is one number for each triple, but this is {show(value.shape)}"
            single = (
                []
                if value.shape != (1,)
                else [
                    Fix(f"Declare {name}", entry.declaration.extent, name)
                    for name, entry in self.scope.items()
                    if isinstance(entry, Table) and not entry.tensor.sets and entry.tensor.dims == (1,)
                ]
            )
            detail = "" if reduces else SHARED
            detail = "A number of its own is declared without brackets: param gamma." if single else detail
            self.collector.report(message, place.extent, detail, single or fixes)
            return None
        return value

    def _is_vector(self, name: str) -> bool:
        """Whether a value is each triple's own vector throughout: where a number meets one, or what all triples share
        is its only vector, a sum of it would count that number as often as there are elements."""
        values = {value.name: value for value in self.builder.values}
        pending, seen = [name], set[str]()
        while pending:
            value = values[pending.pop()]
            operands = [values[operand] for operand in ir.operands(value.operator)]
            if value.name in seen:
                continue
            seen.add(value.name)
            shapes = {operand.shape for operand in operands}
            if isinstance(value.operator, ir.Elementwise) and (shapes != {value.shape}):
                return False
            if isinstance(value.operator, ir.Elementwise):
                pending += [operand.name for operand in operands if operand.depends]
            elif operands and not any(operand.depends for operand in operands if operand.shape):
                return False
        return True


class Layer(_Definition):
    """A layer, over a graph."""

    def __init__(self, definition: syntax.Definition, source: Source) -> None:
        super().__init__(definition, source, GRAPH, GRAPH.dependencies)
        report_sizes(source, GRAPH)
        parameters = definition.parameters
        annotations = [parameter.annotation.text if parameter.annotation else "" for parameter in parameters]
        if annotations == [GRAPH_WORD]:
            name = parameters[0].name.text
            self.scope[name] = StructureArgument(name, GRAPH)
        elif all(entry in (GRAPH_WORD, *SETS_OF_FAMILIES["layer"], "") for entry in annotations):
            extent = definition.parameters_extent
            name = parameters[0].name.text if parameters else "g"
            fixes = [Fix(f"Use ({name}: graph)", extent, f"({name}: graph)")] if len(parameters) < 2 else []
            message = f"a layer is of a graph: {definition.name.text}{LAYER_PARAMETERS}"
            source.collector.report(message, extent, fixes=fixes)

    def maps(self) -> tuple[ir.IndexMap, ...]:
        """The maps that the values use, in the structure's order."""
        operators = [value.operator for value in self.builder.values]
        used = {step for operator in operators for path in ir.indices_of(operator) for step in path.split(".")}
        used |= {operator.map for operator in operators if isinstance(operator, ir.Segment)}
        origin = (self.definition.parameters_extent,)
        found = (
            ir.IndexMap(origin=origin, name=name, domain=domain, codomain=codomain)
            for name, (domain, codomain) in GRAPH.maps.items()
            if name in used
        )
        return (*found, *whole_maps(self.builder.values, GRAPH, origin))

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
    """An op, over bags, blocks or a sparse matrix."""

    def __init__(self, definition: syntax.Definition, source: Source) -> None:
        structure = _structure_of(definition, source.sizes, source.collector)
        known = structure or bags_of("row")
        super().__init__(definition, source, known, known.dependencies)
        self.known = structure is not None
        if structure is None:
            return
        report_sizes(source, structure)
        name = definition.parameters[0].name.text
        if structure.each == "unit":
            self.scope[name] = StructureArgument(name, structure)
        else:
            self.scope[name] = Index(structure.each, structure.each, structure.each, name)

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
        return (*found, *whole_maps(self.builder.values, self.structure, origin))

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
    sets = dict.fromkeys((structure.group, structure.member, *structure.sets))
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


def _is_free(name: syntax.Name, parameter: str, sizes: Mapping[str, int], collector: Collector) -> bool:
    """Whether an index set of an op may have that name."""
    taken = ""
    if name.text in OWN_SETS:
        taken = "is an index set of ops already"
    elif name.text in sizes:
        taken = "is a size"
    elif builtin(name.text):
        taken = "is a built-in function"
    elif name.text == parameter:
        taken = "is what the op is over"
    if taken:
        collector.report(f"'{name.text}' {taken}: choose another name", name.extent)
    return not taken


def _structure_of(definition: syntax.Definition, sizes: Mapping[str, int], collector: Collector) -> Structure | None:
    """What an op is over, by its one parameter."""
    parameters = definition.parameters
    annotation = parameters[0].annotation if len(parameters) == 1 else None
    if annotation is None:
        detail = f"Its one parameter is {OP_EXAMPLES}."
        collector.report("an op is over bags, blocks or a sparse matrix", definition.parameters_extent, detail)
        return None
    sets = [name.text for name in annotation.sets]
    wanted = {"bag": ("of", 1), "blocks": ("of", 1), "csr": ("[", 2), "coo": ("[", 2)}.get(annotation.text)
    if wanted is None:
        known = STRUCTURE_WORDS if annotation.text not in FORMATS else ()
        hint, fixes = suggestion(annotation.text, annotation.word.extent, known)
        message = f"an op is over bags, blocks or a sparse matrix, not over '{annotation.text}'{hint}"
        detail = FORMATS.get(annotation.text, f"Its one parameter is {OP_EXAMPLES}.")
        collector.report(message, annotation.word.extent, detail, fixes)
        return None
    if (annotation.joined, len(sets)) != wanted:
        named = [*sets, *("row", "col")[len(sets) :]]
        form = f"{annotation.text} of {named[0]}" if wanted[0] == "of" else f"{annotation.text}[{', '.join(named)}]"
        fix = [Fix(f"Use {form}", annotation.extent, form)] if len(sets) <= wanted[1] else []
        usual = f"{annotation.text} of row" if wanted[0] == "of" else f"{annotation.text}[row, col]"
        collector.report(f"'{annotation.text}' is followed by what it is of: {usual}", annotation.extent, fixes=fix)
        return None
    if not all(_is_free(name, parameters[0].name.text, sizes, collector) for name in annotation.sets):
        return None
    if annotation.text in ("csr", "coo"):
        return matrix(annotation.text, sets[0], sets[1])
    return bags_of(sets[0]) if annotation.text == "bag" else blocks_of(sets[0])


def _index_maps(
    definition: syntax.Definition, negatives: Negatives | None, collector: Collector
) -> tuple[ir.IndexMap, ...]:
    """The maps of a score's header: head, relation and tail of a triple, in this order."""
    sets = [parameter.annotation.text if parameter.annotation else "" for parameter in definition.parameters]
    if sets != SCORE_SETS:
        if all(entry in SETS_OF_FAMILIES["score"] for entry in sets):
            detail = "The index of the head comes first, then the relation's, then the tail's."
            names = _fitting_names([parameter.name.text for parameter in definition.parameters], sets)
            fixes = [Fix(f"Use {names}", definition.parameters_extent, names)]
            if len(sets) > len(SCORE_SETS):
                fixes, detail = [], "It has no fourth index: corrupted triples are made by the option negatives=tail:N."
            collector.report(
                f"a score is of a triple: {definition.name.text}{SCORE_PARAMETERS}",
                definition.parameters_extent,
                detail,
                fixes,
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
