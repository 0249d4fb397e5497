"""Expressions and statements to graph values: names are resolved, shapes and index sets checked, helpers inlined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from explorer.compiler.ir.graph import IndexMap
from explorer.compiler.ir.index_functions import DIVISIONS
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, with_article
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.elements import Elements
from explorer.compiler.language.elaborate.headers.meant import declaring_map
from explorer.compiler.language.elaborate.indexing import take_attribute, take_rows, take_slice
from explorer.compiler.language.elaborate.loops import Loops
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.unknown import Unknown
from explorer.compiler.language.elaborate.values.arrange import Arranging
from explorer.compiler.language.elaborate.values.binding import bind_builtin, bind_division, split_axis
from explorer.compiler.language.elaborate.values.calls import call_builtin
from explorer.compiler.language.elaborate.values.computed_ids import EITHER_WAY, WORDS, of_ids, of_number, whole_of
from explorer.compiler.language.elaborate.values.einsum import EXAMPLE, einsum
from explorer.compiler.language.elaborate.values.inlining import Inlining
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.elaborate.values.several import one_of, returned, unpack
from explorer.compiler.language.names.builtins import LATER, builtin
from explorer.compiler.language.names.entities import (
    Constant,
    DataName,
    Entity,
    Function,
    Given,
    Index,
    Members,
    Row,
    Several,
    Stopped,
    StructureArgument,
    Table,
)
from explorer.compiler.language.names.structures import BATCH, Structure
from explorer.compiler.language.parsing import syntax

DEEPEST_RECURSION = 100
"""Of `expression` in itself: 20 brackets with four levels of precedence in each, and the helpers around them."""

LEAVES = (syntax.Name, syntax.Number, syntax.Call, syntax.Text, syntax.Comprehension, syntax.Listing)
"""Expressions without one that begins them."""

COMPUTED = (syntax.Assignment, syntax.Unpacking, syntax.CallStatement, syntax.Loop, syntax.Return)


class Elaborator:
    """Elaborates one definition into `builder`. An error is reported once; what depends on it becomes None.

    `definitions` are the scores, layers and ops of the text by name, with their kind: they are not called."""

    def __init__(
        self,
        text: str,
        sizes: Mapping[str, int],
        helpers: Mapping[str, syntax.Definition],
        unknown: frozenset[str],
        builder: GraphBuilder,
        collector: Collector,
        definition: syntax.Definition,
        structure: Structure,
        definitions: Mapping[str, str],
    ) -> None:
        self.text = text
        self.definition = definition
        self.family = definition.kind
        self.collector = collector
        self.operations = Operations(text, sizes, builder, collector)
        self.scope: dict[str, Entity | None] = {}
        self._assigned: dict[str, Entity | None] = {}
        """What names were assigned last; a helper's parameters are names of its own."""
        self._sizes = sizes
        self._helpers = helpers
        self._unknown = unknown
        self._depth = 0
        self.structure = structure
        elements = Elements(self, structure, syntax.walk_statements(definition.statements))
        self.loops = Loops(self, structure, elements)
        self.inlining = Inlining(self)
        self.unknown = Unknown(self, definition, helpers, definitions)
        self.computed_ids: dict[str, IndexMap] = {}
        """The maps that are computed of ids, by name."""

    @property
    def sets(self) -> tuple[str, ...]:
        """The index sets of the definition."""
        return self.structure.sets

    @property
    def _facts(self) -> str:
        """The set of a score's facts, whose values each reads as its own; "" in what is no score."""
        each = BATCH if self.structure.kind == "facts" else self.structure.each
        return each if self.family == "score" else ""

    def declaring_map(self, name: str, domain: str) -> list[Fix]:
        """To declare the map that a name is read as."""
        return declaring_map(self.text, self.definition, name, domain, self.structure.maps.values())

    def is_size(self, name: str) -> bool:
        """Whether the text declares a size of that name."""
        return name in self._sizes

    def is_broken(self, name: str) -> bool:
        """Whether a line that did not parse may have defined the name."""
        return name in self._unknown

    # Statements

    def body(
        self, definition: syntax.Definition, scope: dict[str, Entity | None], needs_return: bool = True
    ) -> Entity | Several | None:
        """Runs a body's statements in a scope; the value of its `return`, which ends it, or several."""
        outer = self.scope, self._assigned
        self.scope, self._assigned = scope, {} if definition is self.definition else dict(scope)
        around = self.loops.leave_names()
        try:
            result: Entity | Several | None = None
            last: syntax.Return | None = None
            for statement in definition.statements:
                if last is not None and isinstance(statement, COMPUTED):
                    self.collector.report("nothing after 'return' is computed", statement.extent)
                    break
                if isinstance(statement, syntax.Return):
                    last = statement
                    result = returned(self, statement, bool(self.inlining.calls))
                else:
                    self.statement(statement)
            if last is None and needs_return and not _may_return(definition):
                self.collector.report(f"'{definition.name.text}' has no 'return'", definition.header)
            return result
        finally:
            self.scope, self._assigned = outer
            self.loops.return_names(around)

    def statement(self, statement: syntax.Statement) -> None:
        """One statement of a body or of a loop in it."""
        match statement:
            case syntax.Assignment(target=syntax.Name() as target, operator=""):
                self.assign(target, self.expression(statement.value))
            case syntax.Unpacking():
                unpack(self, statement)
            case syntax.Assignment():
                self.loops.assign(statement)
            case syntax.CallStatement():
                self._call_for_effect(statement.call)
            case syntax.Loop():
                self.loops.run(statement)
            case syntax.Return():
                message = "'return' stands behind the loops, at the end of the definition"
                self.collector.report(message, statement.extent)
            case syntax.Declarations() if self.loops.level != self.loops.base or self.loops.unrolling.depth:
                message = "tensors are declared at the beginning of the definition, outside of loops"
                self.collector.report(message, statement.tensors[0].extent)
            case syntax.MapDeclaration() if self.loops.level != self.loops.base or self.loops.unrolling.depth:
                message = "maps are declared at the beginning of the definition, outside of loops"
                self.collector.report(message, statement.extent)
            case syntax.Broken():
                for name in statement.names:
                    self.scope.setdefault(name, None)

    def _call_for_effect(self, node: syntax.Call) -> None:
        """A call on a line of its own: of a helper that writes data."""
        node = self._named(node)
        helper = self._helpers.get(node.function.text)
        if helper is None or any(isinstance(statement, syntax.Return) for statement in helper.statements):
            if self.call(node) is not None:
                message = f"the value of '{node.function.text}' is used nowhere: give it a name"
                self.collector.report(message, node.extent)
            return
        divided = bind_division(node, helper, self.family, self.collector)
        if divided is None:
            return
        node, helper = divided
        self.inlining.inline(node, helper, self._given(node), needs_return=False)

    def assign(self, target: syntax.Name, value: Entity | None) -> None:
        """Gives a value a name, unless that is taken."""
        name = target.text
        taken = self._taken(name)
        if taken:
            message = f"'{name}' is {taken} and cannot be assigned: choose another name"
            self.collector.report(message, target.extent)
            value = None
        elif self.loops.is_outer(name):
            self.loops.report_outer(target)
            value = None
        self.scope[name] = self._assigned[name] = value

    def _taken(self, name: str) -> str:
        """What a name is that nothing may be assigned to; "" of others. One that was assigned before is free, whatever
        it stands for: behind `x = b` that is a tensor or an index as well."""
        bound = self.scope.get(name)
        if bound is not None and self._assigned.get(name) is bound:
            return ""
        match bound:
            case Table():
                return f"a declared {bound.tensor.kind}"
            case Index():
                return "an index"
            case Members():
                return "a set of negatives"
            case StructureArgument():
                return bound.structure.owner
        return "a size" if name in self._sizes else ""

    # Expressions

    def expression(self, node: syntax.Expression) -> Entity | None:
        """What an expression stands for where one value does."""
        return one_of(self, node, self.entities(node))

    def entities(self, node: syntax.Expression) -> Entity | Several | None:
        """What an expression stands for, several values where it is a call of a helper that returns them. Long sums
        nest to the left as deep as they are long: that side is a loop."""
        self._depth += 1
        if self._depth > DEEPEST_RECURSION:
            self.collector.report("this expression nests too deeply, with the helpers that it calls", node.extent)
            raise Stopped
        pending: list[syntax.Expression] = []
        while not isinstance(node, LEAVES):
            pending.append(node)
            match node:
                case syntax.Binary():
                    node = node.left
                case syntax.Unary():
                    node = node.operand
                case syntax.Parentheses():
                    node = node.inner
                case _:
                    node = node.base
        around = pending[-1] if pending else None
        entity = self._leaf(node, around if isinstance(around, syntax.Index) else None)
        for parent in reversed(pending):
            entity = self._apply(parent, one_of(self, node, entity))
        self._depth -= 1
        return entity

    def _leaf(self, node: syntax.Expression, indexed: syntax.Index | None) -> Entity | Several | None:
        match node:
            case syntax.Name():
                return self._lookup(node, indexed)
            case syntax.Number():
                return self.operations.number(node.value, node.extent, node.text)
            case syntax.Call():
                return self.call(node)
            case syntax.Listing():
                self.collector.report("a list stands in concat and stack: concat([a, b])", node.extent)
        return None

    def _apply(self, node: syntax.Expression, inner: Entity | None) -> Entity | None:
        """An operation whose leftmost operand is elaborated."""
        match node:
            case syntax.Binary():
                return self._binary(node, inner)
            case syntax.Unary():
                return self._unary(node, inner)
            case syntax.Index():
                return take_rows(self, node, inner)
            case syntax.Slice():
                return take_slice(self, node, inner)
            case syntax.Attribute():
                return take_attribute(self, node, inner)
            case syntax.Data():
                return self.loops.data(node, inner)
            case syntax.InDegree():
                return self.loops.elements.in_degree(node, inner)
        return inner

    def _lookup(self, name: syntax.Name, indexed: syntax.Index | None) -> Entity | None:
        """What a name stands for; reports a name that stands for nothing."""
        if name.text in self.scope:
            return self.loops.seen_from_here(self.scope[name.text], name)
        if name.text in self._sizes:
            return Constant(self._sizes[name.text], name.extent, name.text, name.text)
        if name.text in self._unknown:
            return None
        if name.text in self.sets:
            self.collector.report(f"'{name.text}' is an index set, not a value", name.extent)
        elif name.text in self.loops.ended:
            self.collector.report(self.loops.ended[name.text], name.extent)
        elif name.text in self.loops.elements.variables:
            line = self.loops.elements.variables[name.text]
            message = f"'{name.text}' is the variable of the loop in line {line}, and this stands outside of it"
            self.collector.report(message, name.extent)
        elif name.text in self._helpers or builtin(name.text):
            self.collector.report(f"'{name.text}' is a function: call it with its arguments", name.extent)
        else:
            self.unknown.name(name, indexed, self.inlining.calls)
        return None

    def value(self, node: syntax.Expression, entity: Entity | None) -> Row | Constant | None:
        """An entity as a value: a tensor without index sets is read whole; others must be indexed first."""
        match entity:
            case Given():
                site = OperationSite(slice_text(self.text, node.extent), node.extent, node.extent)
                return self.operations.structure(site, entity.name, entity.index)
            case Function():
                self.collector.report(f"'{entity.name}' is a function: call it with its arguments", node.extent)
                return None
            case StructureArgument() | DataName():
                kind = entity.structure.owner if isinstance(entity, StructureArgument) else "a name of data"
                self.collector.report(f"'{slice_text(self.text, node.extent)}' is {kind}, not a value", node.extent)
                return None
            case Table() if not entity.tensor.sets:
                site = OperationSite(entity.tensor.name, node.extent, node.extent)
                row = self.operations.gather(site, entity, ())
                return row if entity.declaration.extents else Arranging(self.operations, site).reshaped(row, ())
            case Table() if entity.tensor.sets == (self._facts,):
                site = OperationSite(entity.tensor.name, node.extent, node.extent)
                index = self.loops.seen_from_here(Index(self._facts, self._facts, self._facts), node)
                assert isinstance(index, Index)
                return self.operations.gather(site, entity, (index,))
            case Table():
                sets = " and ".join(entity.tensor.sets)
                maps = self.maps_for(entity.tensor.sets)
                name = entity.tensor.name
                # Of several indices that would do, only the user knows which one is meant, if any is.
                only = all(sum(index.index_set == each for index in self.indices()) == 1 for each in entity.tensor.sets)
                fixes = [Fix(f"Use {name}[{maps}]", node.extent, f"{name}[{maps}]")] if maps and only else []
                example = f": take one, as in {name}[{maps}]" if maps else ""
                detail = "" if maps else f"An index takes one, as in {name}[i], where a loop or the header has it."
                self.collector.report(f"'{name}' has a row for each {sets}{example}", node.extent, detail, fixes)
                return None
            case Members():
                text = slice_text(self.text, node.extent)
                message = f"'{text}' is a set of ids of each fact, which a reduction goes over"
                self.collector.report(message, node.extent, f"Write sum(... for k in {text}), or mean, max, logsumexp.")
                return None
            case Index():
                of = with_article(entity.index_set) if entity.index_set else "a set of its own"
                self.collector.report(f"'{entity.text}' is an index of {of}, not a value", node.extent)
                return None
        return entity

    def whole(self, node: syntax.Expression, what: str) -> int | None:
        """An expression that must be a whole number, known now."""
        return self._whole_of(node, self._argument(node), what)

    def _whole_of(self, node: syntax.Expression, entity: Entity | None, what: str) -> int | None:
        """The same, of what the expression stands for."""
        entity = self.value(node, entity)
        if entity is None:
            return None
        if isinstance(entity, Constant) and isinstance(entity.value, int):
            return entity.value
        detail = "Sizes divide by '//'." if isinstance(entity, Constant) else ""
        self.collector.report(f"{what} is a whole number, known before the run", node.extent, detail)
        return None

    def indices(self) -> list[Index]:
        """The maps in scope."""
        return self.loops.elements.available(each for each in self.scope.values() if isinstance(each, Index))

    def maps_for(self, sets: Iterable[str]) -> str:
        """Maps with which a tensor of these index sets could be indexed, as text; empty where one is missing."""
        found = [next((index.text for index in self.indices() if index.index_set == entry), "") for entry in sets]
        return ", ".join(found) if all(found) else ""

    def _binary(self, node: syntax.Binary, left_entity: Entity | None) -> Entity | None:
        left = None if isinstance(left_entity, Index) else self.value(node.left, left_entity)
        right_entity = self.expression(node.right)
        first, second = whole_of(left), whole_of(right_entity)
        if isinstance(left_entity, Index) and isinstance(right_entity, Index) and node.operator in WORDS:
            return of_ids(self, node, left_entity, right_entity)
        if isinstance(left_entity, Index) and node.operator in DIVISIONS:
            second = self._whole_of(node.right, right_entity, "what an id is divided by")
            return None if second is None else of_number(self, node, left_entity, second, node.right)
        if isinstance(left_entity, Index) and node.operator in WORDS and second is not None:
            return of_number(self, node, left_entity, second, node.right)
        if isinstance(right_entity, Index) and node.operator in EITHER_WAY and first is not None:
            return of_number(self, node, right_entity, first, node.left)
        left = self.value(node.left, left_entity) if isinstance(left_entity, Index) else left
        right = self.value(node.right, right_entity)
        return None if left is None or right is None else self.operations.binary(node, left, right)

    def _unary(self, node: syntax.Unary, inner: Entity | None) -> Row | Constant | None:
        value = self.value(node.operand, inner)
        return value if value is None or node.operator == "+" else self.operations.negative(node, value)

    # Calls

    def call(self, node: syntax.Call) -> Entity | Several | None:
        """What a call gives: several, where a helper returns them."""
        node = self._named(node)
        name = node.function.text
        for argument in node.arguments:
            if isinstance(argument.value, syntax.Comprehension):
                return self.loops.comprehension(node, argument.value)
        function = None if name in self._helpers else builtin(name)
        axis: int | None = None
        if function is not None:
            if name in LATER and any(isinstance(argument.value, syntax.Text) for argument in node.arguments):
                self.collector.report(LATER[name], node.function.extent)
                return None
            node, place = split_axis(node, function)
            axis = None if place is None else self.whole(place, "an axis")
            if place is not None and axis is None:
                return None
        if function is not None and function.kind == "einsum":
            return self._einsum(node)
        if name in self._helpers:
            return self.inlining.inline(node, self._helpers[name], self._given(node))
        entities = [self._argument(argument.value) for argument in node.arguments]
        if function is None:
            if name not in self._unknown and self.scope.get(name, node) is not None:
                self.unknown.function(node)
            return None
        places = bind_builtin(node, function, self.collector)
        if places is None:
            return None
        nodes = [node.arguments[place].value for place in places]
        values = [self.value(node.arguments[place].value, entities[place]) for place in places]
        known = [value for value in values if value is not None]
        return call_builtin(self.operations, node, function, nodes, known, axis) if len(known) == len(values) else None

    def _einsum(self, node: syntax.Call) -> Row | None:
        """Products by letters, which are written first."""
        given = [argument.value for argument in node.arguments]
        named = any(argument.keyword is not None for argument in node.arguments)
        if named or len(given) < 2 or not isinstance(given[0], syntax.Text):
            self.collector.report(f"einsum has its letters first, and then its values: {EXAMPLE}", node.extent)
            return None
        values = [self.value(each, self._argument(each)) for each in given[1:]]
        known = [value for value in values if value is not None]
        return einsum(self.operations, node, known) if len(known) == len(values) else None

    def _named(self, node: syntax.Call) -> syntax.Call:
        """A call of a helper's parameter as one of the function that it stands for."""
        bound = self.scope.get(node.function.text)
        return replace(node, function=replace(node.function, text=bound.name)) if isinstance(bound, Function) else node

    def _given(self, node: syntax.Call) -> list[Entity | None]:
        """The arguments of a helper, which may be functions."""
        return [self.given(argument.value) for argument in node.arguments]

    def given(self, node: syntax.Expression) -> Entity | None:
        """What a helper is given: a function by its name, or what other calls are given."""
        known = isinstance(node, syntax.Name) and (node.text in self.scope or node.text in self._sizes)
        if isinstance(node, syntax.Name) and not known and (node.text in self._helpers or builtin(node.text)):
            return Function(node.text)
        return self._argument(node)

    def _argument(self, node: syntax.Expression) -> Entity | None:
        """An argument of a call: a value, or a name of data for a helper."""
        return DataName(node.text) if isinstance(node, syntax.Text) else self.expression(node)


def _may_return(definition: syntax.Definition) -> bool:
    """Whether a line that did not parse may be the definition's `return`, or one is reported in a loop."""
    statements = syntax.walk_statements(definition.statements)
    return any(isinstance(statement, (syntax.Broken, syntax.Return)) for statement in statements)
