"""Expressions and statements to graph values: names are resolved, shapes and index sets checked, helpers inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, with_article
from explorer.compiler.language.elaborate.builder import GraphBuilder
from explorer.compiler.language.elaborate.elements import Elements
from explorer.compiler.language.elaborate.indexing import take_attribute, take_rows, take_slice
from explorer.compiler.language.elaborate.loops import Loops
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.unknown import Unknown
from explorer.compiler.language.elaborate.values.arrange import Arranging
from explorer.compiler.language.elaborate.values.binding import bind_builtin, bind_helper, split_axis
from explorer.compiler.language.elaborate.values.calls import call_builtin
from explorer.compiler.language.elaborate.values.operations import Operations
from explorer.compiler.language.names.builtins import (
    GRAPH_WORD,
    LATER,
    builtin,
)
from explorer.compiler.language.names.entities import (
    Constant,
    DataName,
    Entity,
    Given,
    Index,
    Row,
    Stopped,
    StructureArgument,
    Table,
)
from explorer.compiler.language.names.prelude import is_of_prelude, prelude_text
from explorer.compiler.language.names.structures import GRAPH, Structure
from explorer.compiler.language.parsing import syntax

DEEPEST_RECURSION = 100
"""Of `expression` in itself: 20 brackets with four levels of precedence in each, and the helpers around them."""

LEAVES = (syntax.Name, syntax.Number, syntax.Call, syntax.Text, syntax.Comprehension, syntax.Listing)
"""Expressions without one that begins them."""

COMPUTED = (syntax.Assignment, syntax.CallStatement, syntax.Loop, syntax.Return)


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
        self.family = definition.kind
        self.collector = collector
        self.operations = Operations(text, sizes, builder, collector)
        self.scope: dict[str, Entity | None] = {}
        self._sizes = sizes
        self._helpers = helpers
        self._unknown = unknown
        self._calls: list[str] = []
        self._depth = 0
        self.structure = structure
        elements = Elements(self, structure, syntax.walk_statements(definition.statements))
        self.loops = Loops(self, structure, elements)
        self.unknown = Unknown(self, definition, helpers, definitions)

    @property
    def sets(self) -> tuple[str, ...]:
        """The index sets of the definition."""
        return self.structure.sets

    def is_size(self, name: str) -> bool:
        """Whether the text declares a size of that name."""
        return name in self._sizes

    def is_broken(self, name: str) -> bool:
        """Whether a line that did not parse may have defined the name."""
        return name in self._unknown

    # Statements

    def body(
        self, definition: syntax.Definition, scope: dict[str, Entity | None], needs_return: bool = True
    ) -> Entity | None:
        """Runs a body's statements in a scope; the value of its `return`, which ends it."""
        outer, self.scope = self.scope, scope
        around = self.loops.leave_names()
        try:
            result: Entity | None = None
            returned: syntax.Return | None = None
            for statement in definition.statements:
                if returned is not None and isinstance(statement, COMPUTED):
                    self.collector.report("nothing after 'return' is computed", statement.extent)
                    break
                if isinstance(statement, syntax.Return):
                    returned = statement
                    if not self._calls:
                        self.loops.bind_letters(statement.value)
                    result = self.expression(statement.value)
                else:
                    self.statement(statement)
            if returned is None and needs_return and not _may_return(definition):
                self.collector.report(f"'{definition.name.text}' has no 'return'", definition.header)
            return result
        finally:
            self.scope = outer
            self.loops.return_names(around)

    def statement(self, statement: syntax.Statement) -> None:
        """One statement of a body or of a loop in it."""
        match statement:
            case syntax.Assignment(target=syntax.Name() as target, operator=""):
                self._assign(statement, target)
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
            case syntax.Broken():
                for name in statement.names:
                    self.scope.setdefault(name, None)

    def _call_for_effect(self, node: syntax.Call) -> None:
        """A call on a line of its own: of a helper that writes data."""
        helper = self._helpers.get(node.function.text)
        if helper is None or any(isinstance(statement, syntax.Return) for statement in helper.statements):
            if self._call(node) is not None:
                message = f"the value of '{node.function.text}' is used nowhere: give it a name"
                self.collector.report(message, node.extent)
            return
        entities = [self._argument(argument.value) for argument in node.arguments]
        self._inline(node, helper, entities, needs_return=False)

    def _assign(self, statement: syntax.Assignment, target: syntax.Name) -> None:
        name = target.text
        value = self.expression(statement.value)
        bound = self.scope.get(name)
        taken = ""
        if isinstance(bound, Table):
            taken = f"a declared {bound.tensor.kind}"
        elif isinstance(bound, Index):
            taken = "an index"
        elif isinstance(bound, StructureArgument):
            taken = bound.structure.owner
        elif name in self._sizes:
            taken = "a size"
        if taken:
            message = f"'{name}' is {taken} and cannot be assigned: choose another name"
            self.collector.report(message, target.extent)
            value = None
        elif self.loops.is_outer(name):
            self.loops.report_outer(statement, name)
            value = None
        self.scope[name] = value

    # Expressions

    def expression(self, node: syntax.Expression) -> Entity | None:
        """What an expression stands for. Long sums nest to the left as deep as they are long: that side is a loop."""
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
            entity = self._apply(parent, entity)
        self._depth -= 1
        return entity

    def _leaf(self, node: syntax.Expression, indexed: syntax.Index | None) -> Entity | None:
        match node:
            case syntax.Name():
                return self._lookup(node, indexed)
            case syntax.Number():
                return self.operations.number(node.value, node.extent, node.text)
            case syntax.Call():
                return self._call(node)
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
            self.unknown.name(name, indexed, self._calls)
        return None

    def value(self, node: syntax.Expression, entity: Entity | None) -> Row | Constant | None:
        """An entity as a value: a tensor without index sets is read whole; others must be indexed first."""
        match entity:
            case Given():
                site = OperationSite(slice_text(self.text, node.extent), node.extent, node.extent)
                return self.operations.structure(site, entity.name, entity.index)
            case StructureArgument() | DataName():
                kind = entity.structure.owner if isinstance(entity, StructureArgument) else "a name of data"
                self.collector.report(f"'{slice_text(self.text, node.extent)}' is {kind}, not a value", node.extent)
                return None
            case Table() if not entity.tensor.sets:
                site = OperationSite(entity.tensor.name, node.extent, node.extent)
                row = self.operations.gather(site, entity, ())
                return row if entity.declaration.extents else Arranging(self.operations, site).reshaped(row, ())
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
            case Index():
                self.collector.report(
                    f"'{entity.text}' is an index of {with_article(entity.index_set)}, not a value", node.extent
                )
                return None
        return entity

    def whole(self, node: syntax.Expression, what: str) -> int | None:
        """An expression that must be a whole number, known now."""
        entity = self.value(node, self._argument(node))
        if entity is None:
            return None
        if isinstance(entity, Constant) and isinstance(entity.value, int):
            return entity.value
        detail = "Sizes divide by '//'." if isinstance(entity, Constant) else ""
        self.collector.report(f"{what} is a whole number, known before the run", node.extent, detail)
        return None

    def indices(self) -> list[Index]:
        """The maps in scope."""
        found = [entity for entity in self.scope.values() if isinstance(entity, Index)]
        return found if self.family == "score" else list(self.loops.elements.available(found))

    def maps_for(self, sets: Iterable[str]) -> str:
        """Maps with which a tensor of these index sets could be indexed, as text; empty where one is missing."""
        found = [next((index.text for index in self.indices() if index.index_set == entry), "") for entry in sets]
        return ", ".join(found) if all(found) else ""

    def _binary(self, node: syntax.Binary, left_entity: Entity | None) -> Row | Constant | None:
        left = self.value(node.left, left_entity)
        right = self.value(node.right, self.expression(node.right))
        return None if left is None or right is None else self.operations.binary(node, left, right)

    def _unary(self, node: syntax.Unary, inner: Entity | None) -> Row | Constant | None:
        value = self.value(node.operand, inner)
        return value if value is None or node.operator == "+" else self.operations.negative(node, value)

    # Calls

    def _call(self, node: syntax.Call) -> Entity | None:
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
        entities = [self._argument(argument.value) for argument in node.arguments]
        if name in self._helpers:
            return self._inline(node, self._helpers[name], entities)
        if function is None:
            if name not in self._unknown:
                self.unknown.function(node)
            return None
        places = bind_builtin(node, function, self.collector)
        if places is None:
            return None
        nodes = [node.arguments[place].value for place in places]
        values = [self.value(node.arguments[place].value, entities[place]) for place in places]
        known = [value for value in values if value is not None]
        return call_builtin(self.operations, node, function, nodes, known, axis) if len(known) == len(values) else None

    def _argument(self, node: syntax.Expression) -> Entity | None:
        """An argument of a call: a value, or a name of data for a helper."""
        return DataName(node.text) if isinstance(node, syntax.Text) else self.expression(node)

    def _inline(
        self,
        node: syntax.Call,
        helper: syntax.Definition,
        entities: list[Entity | None],
        needs_return: bool = True,
    ) -> Entity | None:
        """A helper's body in place of its call; counted, because helpers that call each other twice double."""
        self.operations.builder.count_operation(node.function.extent)
        name = helper.name.text
        if name in self._calls:
            self.collector.report(f"'{name}' calls itself: the language has no recursion", node.function.extent)
            return None
        places = bind_helper(node, helper, self.collector)
        if places is None:
            return None
        scope: dict[str, Entity | None] = {}
        for slot, parameter in enumerate(helper.parameters):
            if slot in places:
                scope[parameter.name.text] = entities[places[slot]]
            elif parameter.default is not None:
                scope[parameter.name.text] = self._default(parameter.default)
        if not self._check_annotations(node, helper, scope):
            return None
        self._calls.append(name)
        with self._prelude_of(node, helper):
            result = self.body(helper, scope, needs_return)
        self._calls.pop()
        if isinstance(result, Constant) and is_of_prelude(helper):
            return replace(result, span=node.extent, label=name)  # a number's place in the prelude is no place here
        return result

    @contextmanager
    def _prelude_of(self, node: syntax.Call, helper: syntax.Definition) -> Iterator[None]:
        """While a helper of the prelude is inlined, what it computes and what is wrong with it is its call's."""
        if not is_of_prelude(helper) or self.operations.builder.caller is not None:
            yield
            return
        text = self.text
        self.operations.builder.caller = OperationSite(node.function.text, node.function.extent, node.extent)
        self.collector.place = node.extent
        self.text = self.operations.text = prelude_text()
        try:
            yield
        finally:
            self.operations.builder.caller = self.collector.place = None
            self.text = self.operations.text = text

    def _report_of_layers(self, node: syntax.Call) -> None:
        """About a helper of a layer's graph that an op calls: an op writes its softmax out."""
        message = f"'{node.function.text}' is of the edges of a layer's graph, and this is an op"
        over = slice_text(self.text, node.arguments[0].value.extent)
        each, row = ("i", "j")[self.structure.each == "unit"], f"{over}.row(i)"
        loop = f"for {each} in {row if self.structure.each == 'unit' else over}"
        data = f'{each}["s"]'
        detail = (
            f"Write it out: top = max({data} {loop}); {loop}: {data} = exp({data} - top); total = sum({data} {loop});"
            f" {loop}: {data} /= total."
        )
        self.collector.report(message, node.extent, detail)

    def _default(self, node: syntax.Expression) -> Entity | None:
        """A parameter's default, which sees sizes only."""
        outer, self.scope = self.scope, {}
        result = self.expression(node)
        self.scope = outer
        return result

    def _check_annotations(
        self, node: syntax.Call, helper: syntax.Definition, scope: Mapping[str, Entity | None]
    ) -> bool:
        """Whether the arguments of parameters with an index set are indices of it."""
        fits = True
        for parameter in helper.parameters:
            entity = scope[parameter.name.text]
            if parameter.annotation is None or entity is None:
                continue
            wanted = parameter.annotation.text
            if wanted == GRAPH_WORD:
                right, what = isinstance(entity, StructureArgument) and entity.structure is GRAPH, "the graph"
            else:
                right = isinstance(entity, Index) and entity.index_set == wanted
                what = f"an index of {wanted}"
            if not right and is_of_prelude(helper) and self.family == "op":
                self._report_of_layers(node)
                return False
            if not right:
                message = f"'{helper.name.text}' needs {what} for '{parameter.name.text}'"
                self.collector.report(message, node.extent)
                fits = False
        return fits


def _may_return(definition: syntax.Definition) -> bool:
    """Whether a line that did not parse may be the definition's `return`, or one is reported in a loop."""
    statements = syntax.walk_statements(definition.statements)
    return any(isinstance(statement, syntax.Broken | syntax.Return) for statement in statements)
