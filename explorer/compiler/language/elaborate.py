"""Expressions and statements to graph values: names are resolved, shapes and index sets checked, helpers inlined."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping

from explorer.compiler.ir import graph as ir
from explorer.compiler.ir.node import Span
from explorer.compiler.language import syntax
from explorer.compiler.language.builder import GraphBuilder, Site
from explorer.compiler.language.builtins import LATER, Builtin, builtin, function_names
from explorer.compiler.language.diagnostics import Collector, Fix, slice_text, suggestion
from explorer.compiler.language.entities import Constant, Entity, Index, Row, Stopped, Table
from explorer.compiler.language.mismatch import Operand, explain_elementwise, explain_product
from explorer.compiler.language.shapes import Product, Shapes, show

LARGEST_F32 = 3.4028234663852886e38
DEEPEST_RECURSION = 100
"""Of `expression` in itself: 20 brackets with four levels of precedence in each, and the helpers around them."""

INFIX = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
}
INDEX_SETS = ("entity", "relation")


class Elaborator:
    """Elaborates one definition into `builder`. An error is reported once; what depends on it becomes None."""

    def __init__(
        self,
        text: str,
        sizes: Mapping[str, int],
        helpers: Mapping[str, syntax.Definition],
        unknown: frozenset[str],
        builder: GraphBuilder,
        collector: Collector,
    ) -> None:
        self.text = text
        self.shapes = Shapes(sizes)
        self.builder = builder
        self.collector = collector
        self._sizes = sizes
        self._helpers = helpers
        self._unknown = unknown
        self._scope: dict[str, Entity | None] = {}
        self._calls: list[str] = []
        self._depth = 0

    def is_size(self, name: str) -> bool:
        """Whether the text declares a size of that name."""
        return name in self._sizes

    def is_broken(self, name: str) -> bool:
        """Whether a line that did not parse may have defined the name."""
        return name in self._unknown

    # Statements

    def body(self, definition: syntax.Definition, scope: dict[str, Entity | None]) -> Entity | None:
        """Runs a body's statements in a scope; the value of its `return`, which ends it."""
        outer, self._scope = self._scope, scope
        try:
            result: Entity | None = None
            returned: syntax.Return | None = None
            complete = True
            for statement in definition.statements:
                if returned is not None and isinstance(statement, syntax.Assignment | syntax.Return):
                    self.collector.report("nothing after 'return' is computed", statement.extent)
                    break
                match statement:
                    case syntax.Assignment():
                        self._assign(statement)
                    case syntax.Return():
                        returned = statement
                        result = self.expression(statement.value)
                    case syntax.Broken():
                        complete = False
                        for name in statement.names:
                            scope.setdefault(name, None)
            if returned is None and complete:
                self.collector.report(f"'{definition.name.text}' has no 'return'", definition.header)
            return result
        finally:
            self._scope = outer

    def _assign(self, statement: syntax.Assignment) -> None:
        name = statement.target.text
        value = self.expression(statement.value)
        bound = self._scope.get(name)
        if isinstance(bound, Table | Index) or name in self._sizes:
            kind = "an index" if isinstance(bound, Index) else "a size"
            kind = f"a declared {bound.tensor.kind}" if isinstance(bound, Table) else kind
            self.collector.report(
                f"'{name}' is {kind} and cannot be assigned: choose another name", statement.target.extent
            )
            return
        self._scope[name] = value

    # Expressions

    def expression(self, node: syntax.Expression) -> Entity | None:
        """What an expression stands for. Long sums nest to the left as deep as they are long: that side is a loop."""
        self._depth += 1
        if self._depth > DEEPEST_RECURSION:
            self.collector.report("this expression nests too deeply, with the helpers that it calls", node.extent)
            raise Stopped
        pending: list[syntax.Expression] = []
        while not isinstance(node, syntax.Name | syntax.Number | syntax.Call):
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
        entity = self._leaf(node, indexed=bool(pending) and isinstance(pending[-1], syntax.Index))
        for parent in reversed(pending):
            entity = self._apply(parent, entity)
        self._depth -= 1
        return entity

    def _leaf(self, node: syntax.Name | syntax.Number | syntax.Call, indexed: bool) -> Entity | None:
        match node:
            case syntax.Name():
                return self._lookup(node, indexed)
            case syntax.Number():
                return self.number(node.value, node.extent, node.text)
        return self._call(node)

    def _apply(self, node: syntax.Expression, inner: Entity | None) -> Entity | None:
        """An operation whose leftmost operand is elaborated."""
        match node:
            case syntax.Binary():
                return self._binary(node, inner)
            case syntax.Unary():
                return self._unary(node, inner)
            case syntax.Index():
                return self._index(node, inner)
            case syntax.Slice():
                return self._slice(node, inner)
            case syntax.Attribute():
                return self._attribute(node, inner)
        return inner

    def _lookup(self, name: syntax.Name, indexed: bool) -> Entity | None:
        """What a name stands for; reports a name that stands for nothing."""
        if name.text in self._scope:
            return self._scope[name.text]
        if name.text in self._sizes:
            return Constant(self._sizes[name.text], name.extent, name.text, name.text)
        if name.text in self._unknown:
            return None
        if name.text in INDEX_SETS:
            self.collector.report(f"'{name.text}' is an index set, not a value", name.extent)
        elif name.text in self._helpers or builtin(name.text):
            self.collector.report(f"'{name.text}' is a function: call it with its arguments", name.extent)
        else:
            self._report_unknown(name, indexed)
        return None

    def _report_unknown(self, name: syntax.Name, indexed: bool) -> None:
        scope = [other for other, entity in self._scope.items() if entity is not None]
        tables = [other for other in scope if isinstance(self._scope[other], Table)]
        hint, fixes = suggestion(name.text, name.extent, tables if indexed else [*scope, *self._sizes])
        self.collector.report(f"unknown name '{name.text}'{hint}", name.extent, fixes=fixes)

    def number(self, value: int | float, span: Span, label: str, dim: str | None = None) -> Constant | None:
        """A number, if a 32-bit float can hold it."""
        try:
            fits = abs(float(value)) <= LARGEST_F32
        except OverflowError:
            fits = False
        if not fits:
            self.collector.report("this number is too large for a 32-bit float (3.4e38 is the largest)", span)
            return None
        return Constant(value, span, label, dim)

    def value(self, node: syntax.Expression, entity: Entity | None) -> Row | Constant | None:
        """An entity as a value: a tensor without index sets is read whole; others must be indexed first."""
        match entity:
            case Table() if not entity.tensor.sets:
                site = Site(entity.tensor.name, node.extent, node.extent)
                return self._gather(site, entity, ())
            case Table():
                sets = " and ".join(entity.tensor.sets)
                maps = self._maps_for(entity.tensor.sets)
                name = entity.tensor.name
                fixes = [Fix(f"Use {name}[{maps}]", node.extent, f"{name}[{maps}]")] if maps else []
                example = f": take one, as in {name}[{maps}]" if maps else ""
                self.collector.report(f"'{name}' has a row for each {sets}{example}", node.extent, fixes=fixes)
                return None
            case Index():
                self.collector.report(
                    f"'{entity.name}' is an index of {article(entity.index_set)}, not a value", node.extent
                )
                return None
        return entity

    def _maps_for(self, sets: Iterable[str]) -> str:
        """Maps with which a tensor of these index sets could be indexed, as text; empty where one is missing."""
        indices = [entity for entity in self._scope.values() if isinstance(entity, Index)]
        found = [next((index.name for index in indices if index.index_set == entry), "") for entry in sets]
        return ", ".join(found) if all(found) else ""

    # Operators

    def _binary(self, node: syntax.Binary, left_entity: Entity | None) -> Row | Constant | None:
        left = self.value(node.left, left_entity)
        right = self.value(node.right, self.expression(node.right))
        if left is None or right is None:
            return None
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self._fold(node, left, right)
        site = Site(node.operator, node.span, node.extent)
        if node.operator == "//":
            self.collector.report(
                "'//' divides sizes, and values by '/'", node.span, fixes=[Fix("Use /", node.span, "/")]
            )
            return None
        if node.operator == "@":
            return self.matrix_product(site, (node.left, node.right), left, right)
        return self.elementwise(site, INFIX[node.operator], (node.left, node.right), left, right)

    def _fold(self, node: syntax.Binary, left: Constant, right: Constant) -> Constant | None:
        """An operation on two numbers: done now."""
        self.builder.count_operation(node.span)
        a, b = left.value, right.value
        if node.operator == "@":
            self.collector.report(
                "'@' multiplies vectors and matrices: numbers take '*'", node.span, fixes=[Fix("Use *", node.span, "*")]
            )
            return None
        if node.operator in ("/", "//") and b == 0:
            self.collector.report("division by zero", node.span)
            return None
        return self.number(ARITHMETIC[node.operator](a, b), node.span, node.operator)

    def elementwise(
        self,
        site: Site,
        function: str,
        nodes: tuple[syntax.Expression, syntax.Expression],
        left: Row | Constant,
        right: Row | Constant,
    ) -> Row | None:
        """`+ - * /`, and `min` and `max` of two: on equal shapes, or where one shape is a prefix of the other."""
        numeric = isinstance(left, Constant) or isinstance(right, Constant)
        first, second = self.builder.row(left), self.builder.row(right)
        shape = self.shapes.common(first.shape, second.shape)
        if shape is None:
            operands = (self.operand(nodes[0], first), self.operand(nodes[1], second))
            explain_elementwise(self.collector, self.shapes, site, *operands)
            return None
        lines = first.lines if len(first.shape) >= len(second.shape) else second.lines
        depends = first.depends | second.depends
        if function == "mul" and not numeric and len(first.shape) != len(second.shape):
            shorter, longer = sorted((first, second), key=lambda row: len(row.shape))
            return self.contract(site, self.shapes.scaling(shorter.shape, longer.shape), shorter, longer, lines)
        operator = ir.Elementwise(origin=(site.span,), function=function, operands=(first.name, second.name))
        return self.builder.emit(site, operator, shape, depends, lines)

    def matrix_product(
        self,
        site: Site,
        nodes: tuple[syntax.Expression, syntax.Expression],
        left: Row | Constant,
        right: Row | Constant,
    ) -> Row | None:
        """`@`; a matrix by a row is the row by the transposed matrix."""
        first, second = self.builder.row(left), self.builder.row(right)
        product = self.shapes.matrix_product(first.shape, second.shape)
        if product is None:
            operands = (self.operand(nodes[0], first), self.operand(nodes[1], second))
            explain_product(self.collector, self.shapes, site, *operands)
            return None
        if product.matrix_by_row:
            return self.contract(site, product, second, self.transpose(site, first))
        return self.contract(site, product, first, second)

    def contract(self, site: Site, product: Product, left: Row, right: Row, lines: tuple[int, ...] = ()) -> Row:
        """A product by its signature."""
        operator = ir.Contract(origin=(site.span,), signature=product.signature, left=left.name, right=right.name)
        return self.builder.emit(site, operator, product.shape, left.depends | right.depends, lines)

    def transpose(self, site: Site, row: Row) -> Row:
        """The last two dimensions exchanged."""
        shape = (*row.shape[:-2], row.shape[-1], row.shape[-2])
        operator = ir.Transpose(origin=(site.span,), operand=row.name)
        return self.builder.emit(site, operator, shape, row.depends, row.lines)

    def operand(self, node: syntax.Expression, row: Row) -> Operand:
        """An operand as error messages describe it."""
        while isinstance(node, syntax.Parentheses):
            node = node.inner
        return Operand(slice_text(self.text, node.extent), node, row, self.text)

    def _unary(self, node: syntax.Unary, inner: Entity | None) -> Row | Constant | None:
        value = self.value(node.operand, inner)
        if value is None or node.operator == "+":
            return value
        if isinstance(value, Constant):
            return Constant(-value.value, node.extent, f"-{value.label}")
        site = Site("-", node.span, node.extent)
        operator = ir.Elementwise(origin=(node.span,), function="neg", operands=(value.name,))
        return self.builder.emit(site, operator, value.shape, value.depends, value.lines)

    # Indexing

    def _index(self, node: syntax.Index, base: Entity | None) -> Row | None:
        indices = [self.expression(index) for index in node.indices]
        if base is None or any(index is None for index in indices):
            return None
        text = slice_text(self.text, node.base.extent)
        if not isinstance(base, Table):
            kind = "an index" if isinstance(base, Index) else "a value, already taken for each row"
            self.collector.report(
                f"'{text}' is {kind}, and only tensors are indexed", node.extent, "A value is sliced as in x[0:2]."
            )
            return None
        if not base.tensor.sets:
            detail = f"It is declared in line {base.declaration.extent.line} without an index set."
            fix = Fix(f"Use {text}", node.extent, text)
            self.collector.report(f"{text} is the same for every row and takes no index", node.extent, detail, [fix])
            return None
        maps = self._check_indices(node, base, indices)
        if maps is None:
            return None
        site = Site(slice_text(self.text, node.extent), node.extent, node.extent)
        return self._gather(site, base, maps)

    def _check_indices(self, node: syntax.Index, base: Table, indices: list[Entity | None]) -> tuple[Index, ...] | None:
        """The maps that pick the rows, if they are as many as the tensor's index sets and of these sets."""
        sets, name = base.tensor.sets, base.tensor.name
        if len(indices) != len(sets):
            wanted = " and ".join(article(entry) for entry in sets)
            self.collector.report(f"{name} is indexed by {wanted}, but {len(indices)} indices are given", node.span)
            return None
        maps: list[Index] = []
        for expression, index, index_set in zip(node.indices, indices, sets, strict=True):
            if not isinstance(index, Index):
                text = slice_text(self.text, expression.extent)
                self.collector.report(
                    f"{name} is indexed by {index_set}, but '{text}' is not an index",
                    expression.extent,
                    f"The indices are {', '.join(self._indices())}.",
                )
            elif index.index_set != index_set:
                self._report_wrong_set(node, expression, base, index, index_set)
            else:
                maps.append(index)
        return tuple(maps) if len(maps) == len(sets) else None

    def _indices(self) -> list[str]:
        return [name for name, entity in self._scope.items() if isinstance(entity, Index)]

    def _report_wrong_set(
        self, node: syntax.Index, place: syntax.Expression, base: Table, index: Index, index_set: str
    ) -> None:
        right = [
            name for name, entity in self._scope.items() if isinstance(entity, Index) and entity.index_set == index_set
        ]
        name = base.tensor.name
        text = slice_text(self.text, place.extent)
        label = f"Use {name}[{{}}]" if len(node.indices) == 1 else "Use {}"
        self.collector.report(
            f"{name} is indexed by {index_set}, but {text} is {article(index.index_set)}",
            node.extent if len(node.indices) == 1 else place.extent,
            f"{name} is declared in line {base.declaration.extent.line}.",
            [Fix(label.format(other), place.extent, other) for other in right],
        )

    def _gather(self, site: Site, table: Table, indices: tuple[Index, ...]) -> Row:
        names = tuple(index.name for index in indices)
        operator = ir.Gather(origin=(site.span,), tensor=table.tensor.name, indices=names)
        line = table.declaration.extent.line
        return self.builder.emit(site, operator, table.tensor.dims, frozenset(names), (line,), table)

    def _slice(self, node: syntax.Slice, base: Entity | None) -> Row | None:
        bounds = [self._bound(node.start), self._bound(node.stop)]
        value = self.value(node.base, base)
        if value is None or None in bounds:
            return None
        if isinstance(value, Constant) or not value.shape:
            self.collector.report("a number has no dimension to slice", node.extent)
            return None
        size = self.shapes.size(value.shape[-1])
        start, stop, _ = slice(bounds[0] or 0, size if node.stop is None else bounds[1]).indices(size)
        if stop <= start:
            detail = f"The last dimension has {size} elements; this takes {start}:{stop}."
            self.collector.report("this slice is empty", node.span, detail)
            return None
        site = Site(slice_text(self.text, node.span), node.span, node.extent)
        extent = value.shape[-1] if stop - start == size else stop - start
        operator = ir.Slice(origin=(node.span,), operand=value.name, start=start, stop=stop)
        return self.builder.emit(site, operator, (*value.shape[:-1], extent), value.depends, value.lines)

    def _bound(self, node: syntax.Expression | None) -> int | None:
        """A bound as a number; an omitted one counts as 0, a wrong one is reported."""
        return 0 if node is None else self.whole(node, "a bound of a slice")

    def whole(self, node: syntax.Expression, what: str) -> int | None:
        """An expression that must be a whole number, known now."""
        entity = self.value(node, self.expression(node))
        if entity is None:
            return None
        if isinstance(entity, Constant) and isinstance(entity.value, int):
            return entity.value
        detail = "Sizes divide by '//'." if isinstance(entity, Constant) else ""
        self.collector.report(f"{what} is a whole number, known before the run", node.extent, detail)
        return None

    def _attribute(self, node: syntax.Attribute, base: Entity | None) -> Row | None:
        if node.name.text != "T":
            self.collector.report(f"a value has no '.{node.name.text}': there is '.T', the transpose", node.span)
            return None
        if isinstance(base, Table) and base.tensor.sets and isinstance(node.base, syntax.Name):
            name, maps = base.tensor.name, self._maps_for(base.tensor.sets) or "..."
            self.collector.report(
                f"'{name}' is transposed row by row: {name}[{maps}].T",
                node.extent,
            )
            return None
        value = self.value(node.base, base)
        if value is None:
            return None
        if isinstance(value, Constant) or len(value.shape) < 2:
            shape = show(() if isinstance(value, Constant) else value.shape)
            self.collector.report(f"'.T' needs two dimensions, but the value is {shape}", node.span)
            return None
        return self.transpose(Site(".T", node.span, node.extent), value)

    # Calls

    def _call(self, node: syntax.Call) -> Entity | None:
        from explorer.compiler.language.calls import call_builtin

        name = node.function.text
        entities = [self.expression(argument.value) for argument in node.arguments]
        helper = self._helpers.get(name)
        if helper is not None:
            return self._inline(node, helper, entities)
        function = builtin(name)
        if function is None:
            if name not in self._unknown:
                self._report_unknown_function(node.function)
            return None
        bound = self._bind_builtin(node, function, entities)
        return None if bound is None else call_builtin(self, node, function, *bound)

    def _report_unknown_function(self, name: syntax.Name) -> None:
        if name.text in LATER:
            self.collector.report(LATER[name.text], name.extent)
            return
        if name.text in self._scope:
            self.collector.report(f"'{name.text}' is not a function", name.extent, "A table is indexed as in E[h].")
            return
        hint, fixes = suggestion(name.text, name.extent, [*self._helpers, *function_names()])
        self.collector.report(f"unknown function '{name.text}'{hint}", name.extent, fixes=fixes)

    def _bind_builtin(
        self, node: syntax.Call, function: Builtin, entities: list[Entity | None]
    ) -> tuple[list[syntax.Expression], list[Row | Constant]] | None:
        """The argument expressions and values in the order of the function's parameters."""
        parameters = function.parameters
        if function.many:
            parameters = (parameters[0],) + (parameters[1],) * (len(node.arguments) - 1)
        required = len(function.parameters) - function.optional
        places = self._bind(node, parameters, required)
        if places is None:
            return None
        nodes = [node.arguments[place].value for place in places]
        values = [self.value(node.arguments[place].value, entities[place]) for place in places]
        known = [value for value in values if value is not None]
        return (nodes, known) if len(known) == len(values) else None

    def _bind(self, node: syntax.Call, parameters: tuple[str, ...], required: int) -> list[int] | None:
        """For each given parameter, in order, the position of its argument; reports what does not fit."""
        places: dict[int, int] = {}
        for position, argument in enumerate(node.arguments):
            keyword = argument.keyword
            if keyword is None:
                slot = position
            elif keyword.text in parameters:
                slot = parameters.index(keyword.text)
            else:
                hint, fixes = suggestion(keyword.text, keyword.extent, parameters)
                message = f"'{node.function.text}' has no parameter '{keyword.text}'{hint}"
                self.collector.report(message, keyword.extent, fixes=fixes)
                return None
            if slot >= len(parameters) or slot in places:
                self._report_count(node, parameters, required)
                return None
            places[slot] = position
        if sorted(places) != list(range(len(places))) or len(places) < required:
            self._report_count(node, parameters, required)
            return None
        return [places[slot] for slot in range(len(places))]

    def _report_count(self, node: syntax.Call, parameters: tuple[str, ...], required: int) -> None:
        most = len(parameters)
        count = f"{required}" if required == most else f"{required} to {most}"
        names = ", ".join(parameters)
        plural = "argument" if count == "1" else "arguments"
        self.collector.report(
            f"'{node.function.text}' takes {count} {plural}: {node.function.text}({names})", node.extent
        )

    def _inline(self, node: syntax.Call, helper: syntax.Definition, entities: list[Entity | None]) -> Entity | None:
        """A helper's body in place of its call."""
        name = helper.name.text
        if name in self._calls:
            self.collector.report(f"'{name}' calls itself: the language has no recursion", node.function.extent)
            return None
        required = sum(parameter.default is None for parameter in helper.parameters)
        places = self._bind_helper(node, helper, required)
        if places is None:
            return None
        scope: dict[str, Entity | None] = {}
        for slot, parameter in enumerate(helper.parameters):
            if slot in places:
                scope[parameter.name.text] = entities[places[slot]]
            elif parameter.default is not None:
                scope[parameter.name.text] = self.expression(parameter.default)
        if not self._check_annotations(node, helper, scope):
            return None
        self._calls.append(name)
        result = self.body(helper, scope)
        self._calls.pop()
        return result

    def _bind_helper(self, node: syntax.Call, helper: syntax.Definition, required: int) -> dict[int, int] | None:
        """For each given parameter of a helper the position of its argument."""
        names = tuple(parameter.name.text for parameter in helper.parameters)
        places: dict[int, int] = {}
        for position, argument in enumerate(node.arguments):
            keyword = argument.keyword
            slot = position if keyword is None else names.index(keyword.text) if keyword.text in names else -1
            if not 0 <= slot < len(names) or slot in places:
                self._report_count(node, names, required)
                return None
            places[slot] = position
        if any(slot not in places and entry.default is None for slot, entry in enumerate(helper.parameters)):
            self._report_count(node, names, required)
            return None
        return places

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
            if not isinstance(entity, Index) or entity.index_set != wanted:
                self.collector.report(
                    f"'{helper.name.text}' needs an index of {wanted} for '{parameter.name.text}'", node.extent
                )
                fits = False
        return fits


def article(noun: str) -> str:
    """The noun with "a" or "an"."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
