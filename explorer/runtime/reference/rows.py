"""Loops over index sets, and the data named on their elements: what the reference's layers and ops share.

A row is an element of the loop that is running: rows of a loop over a set are its elements, those of a loop inside it
are the inner elements of all the chunk's rows.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference import functions
from explorer.runtime.reference.evaluator import (
    OPERATORS,
    Binding,
    Evaluator,
    Handle,
    Index,
    Table,
    is_counted,
    number_last,
)
from explorer.runtime.reference.graph import GraphData, Key, reduce_runs
from explorer.runtime.reference.numbers import choices
from explorer.runtime.reference.numbers.arithmetic import Arithmetic
from explorer.runtime.reference.numbers.primitives import (
    Array,
    Carrier,
    Numbers,
    grouped_matmul,
    joined,
    moved,
    pick,
    spread,
    swapped,
)
from explorer.runtime.reference.text import ReferenceFailure

CHUNK_BYTES = 32 << 20
"""About how much the float64 values of one chunk of a loop take."""
FIRST_CHUNK = 256
"""The elements of a loop's first chunk, by which what the others take is known."""

COMPREHENSIONS = ("sum", "mean", "max", "min", "prod", "logsumexp")


@dataclass(frozen=True)
class Element(Index):
    """An element of a set a row: a loop's variable, or what a map leads to."""

    set: str
    distinct: bool
    """Whether no two rows are the same element, so that it can be assigned to."""


WHOLE = "unit"
"""The set of the one element that a graph or a matrix itself is."""


class Whole(Handle):
    """What the parameter of a definition stands for whose own data is a sum over all elements: `g["h"]`."""

    before: str = ""
    """Before the name of that data, where a definition has several such parameters."""


@dataclass(frozen=True)
class Rows(Handle):
    """`W[e.etype]`, not gathered yet: a matrix a row would not fit in memory."""

    table: Array  # [sets..., dense...]
    ids: tuple[npt.NDArray[np.integer], ...]
    arithmetic: Arithmetic

    def gathered(self) -> Array:
        """The rows, each with a matrix of its own."""
        return self.arithmetic.of(pick(self.table, self.ids))

    @property
    def dense(self) -> tuple[int, ...]:
        """The shape of a row."""
        return tuple(self.table.shape[len(self.ids) :])

    def groups(self) -> tuple[Numbers | None, Numbers]:
        """The rows in an order in which those that share a matrix stand together, None where they do already, and where
        each such group begins."""
        flat = np.ravel_multi_index(self.ids, self.table.shape[: len(self.ids)])
        order = None if (flat[1:] >= flat[:-1]).all() else np.argsort(flat, kind="stable")
        return order, np.flatnonzero(np.diff(flat if order is None else flat[order], prepend=-1))

    def of_rows(self, rows: Numbers) -> Array:
        """The matrices of these rows."""
        return self.arithmetic.of(pick(self.table, tuple(part[rows] for part in self.ids)))


Scope = dict[str, Binding]
COMPUTED = ""
"""The set of what is computed of an id: that of the tensor which it indexes."""


class RowEvaluator(Evaluator):
    """Evaluates a definition that loops over sets; `data` is what it names on their elements."""

    data: GraphData

    @property
    def table_sizes(self) -> dict[str, int]:
        """How many elements the sets have that tensors are over: those that declared maps lead to have data as well."""
        return {
            index_set: self.tables[name].data.shape[place]
            for name, extents in self.definition.tensors
            if name in self.tables
            for place, index_set in enumerate(extents[: self.tables[name].sets])
        }

    @abstractmethod
    def for_each(self, statement: ast.For, scope: Scope) -> None:
        """Runs a loop."""

    def built_in_statement(self, name: str, call: ast.Call, scope: Scope) -> None:
        """Runs a call of the language's own that stands as a statement; there is none unless a family has one."""
        raise ReferenceFailure(f"line {call.lineno}: there is nothing to do in {ast.unparse(call)[:80]}")

    @abstractmethod
    def attribute(self, element: Element, name: str) -> Binding:
        """What a map or a tensor gives of an element: `e.src`, `e.src.feature`."""

    @abstractmethod
    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """A reduction over inner elements, a row for each outer one."""

    # Statements

    def statement(self, statement: ast.stmt, scope: Scope) -> None:
        """A loop over elements, an assignment to their data, and a call for what it writes."""
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value):
                element, key = self.place(owner, name, scope)
                self.assign(element, key, self.value(value, scope))
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=owner), slice=name), value=value) if isinstance(
                scope.get(owner), Whole
            ):
                rows = self.value(value, scope)
                key = (WHOLE, f"{scope[owner].before}{self.data_name(name, scope)}")
                self.data.add(key, np.zeros(len(rows), np.int64), rows)
            case ast.AugAssign(target=ast.Subscript(value=owner, slice=name), op=op, value=value):
                self.update(*self.place(owner, name, scope), op, self.value(value, scope))
            case ast.For():
                self.for_each(statement, scope)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                self.call_statement(name, call, scope)
            case _:
                super().statement(statement, scope)

    def returning(self, value: ast.expr, scope: Scope) -> Scope:
        """A name that is nothing else stands for all elements of the set that it names, or of what is read of it."""
        extents, found = dict(self.definition.tensors), dict(scope)
        pairs: list[tuple[ast.expr, str]]
        for node in walk([value]):
            match node:
                case ast.Subscript(value=ast.Name(id=table), slice=index) if table in extents:
                    letters = index.elts if isinstance(index, ast.Tuple) else [index]
                    pairs = [(each, over) for each, over in zip(letters, extents[table], strict=False)]
                case ast.Subscript(value=ast.Name(id=named) as base, slice=ast.Constant(value=str() as name)):
                    own = [named] if (named, name) in self.data else self.data.sizes
                    pairs = [(base, over) for over in own if (over, name) in self.data]
                case _:
                    continue
            for letter, over in pairs:
                if isinstance(letter, ast.Name) and letter.id not in scope and over in self.data.sizes:
                    found[letter.id] = Element(np.arange(self.data.sizes[over]), over, True)
        return found

    def call_statement(self, name: str, call: ast.Call, scope: Scope) -> None:
        """A helper of the text that has statements only, or a statement of the language's own."""
        helper = self.model.definitions.get(name)
        if helper is not None and helper.family == "def":
            given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            helper, bound = self.called(helper, call.args, given, scope)
            self.statements(helper.body, bound)
        else:
            self.built_in_statement(name, call, scope)

    # Loops

    def in_chunks(self, order: Numbers, weights: Numbers, body: Callable[[Numbers], None], whole: bool = False) -> None:
        """Calls `body` with the elements of `order` in chunks of about CHUNK_BYTES, by what their `weights` take; with
        all of them where it is of the `whole`."""
        ends = np.cumsum(weights)
        at_once = whole or self.arithmetic.whole
        budget, start = (int(ends[-1]) if len(ends) else 1) if at_once else FIRST_CHUNK, 0
        while True:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + budget, side="right")))
            self.bytes = 0
            self.data.begin_chunk()
            body(order[start:stop])
            if stop >= len(order):
                break
            each = self.bytes / (int(ends[stop - 1]) - before)
            budget, start = max(1, int(self.arithmetic.chunks * CHUNK_BYTES / max(1.0, each))), stop
        self.data.end_loop()

    def inner_scope(self, scope: Scope, parents: Numbers, names: Iterable[str], body: Iterable[ast.AST]) -> Scope:
        """What the names that `body` uses stand for in the rows inside, but for the inner loop's own `names`."""
        used = {node.id for node in walk(body) if isinstance(node, ast.Name)}
        # A loop that has ended may have left its variable, whose name an inner one takes, or one inside that.
        used.difference_update(names)
        for node in walk(body):
            if isinstance(node, ast.For | ast.comprehension):
                used.difference_update(part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        return {entry: self.repeated(bound, parents) for entry, bound in scope.items() if entry in used}

    def repeated(self, bound: Binding, parents: Numbers) -> Binding:
        """What an outer row's name stands for in the rows inside it."""
        match bound:
            case Element():
                return replace(bound, ids=bound.ids[parents], distinct=False)
            case Rows():
                return replace(bound, ids=tuple(part[parents] for part in bound.ids))
            case np.ndarray() | Carrier() if len(bound) != 1:  # one row stands for all
                return self.kept(pick(bound, (parents,)))
        return bound

    # Data

    def data_name(self, node: ast.expr, scope: Scope) -> str:
        """The name of data: a string, or a helper's parameter that stands for one."""
        match node:
            case ast.Constant(value=str() as name):
                return name
            case ast.Name(id=parameter) if isinstance(bound := scope.get(parameter), str):
                return bound
        raise ReferenceFailure(f"line {node.lineno}: {ast.unparse(node)[:80]} is not the name of data")

    def place(self, owner: ast.expr, name: ast.expr, scope: Scope) -> tuple[Element, Key]:
        """What is assigned to."""
        element = self.expression(owner, scope)
        if not isinstance(element, Element):
            raise ReferenceFailure(f"line {owner.lineno}: {ast.unparse(owner)[:80]} is not a node or an edge")
        return element, (element.set, self.data_name(name, scope))

    def assign(self, element: Element, key: Key, value: Array) -> None:
        """`n["h"] = value`."""
        if not element.distinct:
            raise ReferenceFailure(f'"{key[1]}" of one {key[0]} is assigned more than once')
        self.data.assign(key, element.ids, value)

    def update(self, element: Element, key: Key, op: ast.operator, value: Array) -> None:
        """`n["h"] += value`, a sum over the rows of the same element; or another operator, on a loop's own element."""
        if isinstance(op, ast.Add):
            self.data.add(key, element.ids, value)
        else:
            self.assign(element, key, self.array(self.binary(op, self.data.read(key, element.ids), value)))

    # Expressions

    def operand(self, node: ast.expr, scope: Scope) -> Binding:
        """Also elements and what they lead to, data, and weights that are not gathered yet."""
        match node:
            case ast.Constant(value=str() as name):
                return name
            case ast.Attribute(value=inner, attr="T"):
                bound = self.expression(inner, scope)
                if isinstance(bound, Rows):
                    return replace(bound, table=swapped(bound.table))
            case ast.Attribute(value=inner, attr=name):
                element = self.expression(inner, scope)
                if isinstance(element, Element):
                    return self.attribute(element, name)
            case ast.Subscript(value=ast.Name() | ast.Attribute() as inner, slice=name) if not isinstance(
                name, ast.Slice
            ):
                element = self.expression(inner, scope)
                if isinstance(element, Whole):
                    key = (WHOLE, f"{element.before}{self.data_name(name, scope)}")
                    return self.kept(self.data.read(key, np.zeros(1, np.int64)))
                if isinstance(element, Element):
                    return self.data_of(element, self.data_name(name, scope))
            case ast.Call(
                func=ast.Name(id=name),
                args=[ast.GeneratorExp(generators=[ast.comprehension(iter=over)]) as comprehension],
                keywords=keywords,
            ) if name in COMPREHENSIONS and not is_counted(over):
                found = self.comprehension(name, comprehension, scope)
                return found if not keywords else self.unless_empty(found, comprehension, keywords[0].value, scope)
        return super().operand(node, scope)

    def unless_empty(self, found: Array, node: ast.GeneratorExp, other: ast.expr, scope: Scope) -> Array:
        """A reduction, or a number where it has no element."""
        one = ast.copy_location(ast.Constant(1), node)
        counts = self.comprehension("sum", ast.copy_location(ast.GeneratorExp(one, node.generators), node), scope)
        nothing = choices.equal(counts, self.array(0))
        return self.kept(self.chosen(nothing, self.value(other, scope), found))

    def of_all(self, function: str, name: str, kind: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """A reduction over all elements of a set, as one row: `mean(x[n] for n in g.nodes())`."""
        count = self.data.sizes[kind]
        values = self.value(node.elt, {**scope, name: Element(np.arange(count), kind, True)})
        values = spread(values, (count, *values.shape[1:]))
        return self.kept(reduce_runs(function, values, np.zeros(count, np.int64), 1))

    def data_of(self, element: Element, name: str) -> Array:
        """`n["h"]`."""
        return self.kept(self.data.read((element.set, name), element.ids))

    def gather(self, table: Binding, index: ast.expr, scope: Scope) -> Binding:
        """`W[e.etype]`."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        picked = [self.expression(part, scope) for part in parts]
        ids = tuple(entry.ids for entry in picked if isinstance(entry, Element))
        if not isinstance(table, Table) or not len(ids) == len(picked) == table.sets:
            raise ReferenceFailure(f"line {index.lineno}: not rows of a tensor")
        return self.rows_of(table, ids)

    def rows_of(self, table: Table, ids: tuple[npt.NDArray[np.integer], ...]) -> Array | Rows:
        """Rows of a tensor; matrices are left where they are until they are needed."""
        rows = Rows(table.data, ids, self.arithmetic)
        return rows if len(rows.dense) >= 2 else self.kept(rows.gathered())

    def array(self, entry: Binding) -> Array:
        """A value with a row for each element, or one row for all."""
        if isinstance(entry, Rows):
            return self.kept(entry.gathered())
        return super().array(entry)

    def numbers_of(self, element: Element) -> npt.NDArray[np.integer]:
        """The numbers of elements, of which ids are computed."""
        return element.ids

    def binary(self, kind: ast.operator, left: Binding, right: Binding) -> Binding:
        """A product with matrices that many rows share takes them one after another; `i // M` and the like are of the
        set of the tensor that they index."""
        left, right = number_last(left, right)
        if isinstance(left, Element) and isinstance(right, int | Element):
            other = right if isinstance(right, int) else self.numbers_of(right).astype(np.int64)
            return Element(OPERATORS[type(kind)](self.numbers_of(left).astype(np.int64), other), COMPUTED, False)
        if isinstance(kind, ast.MatMult):
            for matrices, other, product in ((right, left, _times_matrices), (left, right, _matrices_times)):
                if isinstance(matrices, Rows) and not isinstance(other, Rows) and len(matrices.ids[0]):
                    values = self.array(other)
                    values = spread(values, (len(matrices.ids[0]), *values.shape[1:]))
                    return self.kept(_by_groups(matrices, values, product))
        return super().binary(kind, left, right)


def walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for part in body:
        yield from ast.walk(part)


Product = Callable[[Array, Array, Numbers], Array]
"""Of rows, the groups' matrices, and where each group begins."""


def _by_groups(matrices: Rows, values: Array, product: Product) -> Array:
    """The products of every row with its matrix, those with the same matrix at once."""
    order, starts = matrices.groups()
    if order is None:
        return product(values, matrices.of_rows(starts), starts)
    found = product(pick(values, (order,)), matrices.of_rows(order[starts]), starts)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return pick(found, (places,))


def _times_matrices(x: Array, matrices: Array, starts: Numbers) -> Array:
    """`x @ matrix` for rows x: a true matrix product where each row is multiplied by the matrix."""
    dense, shape = x.shape[1:], matrices.shape[1:]
    if (len(dense) == 1 or dense[:-1] == shape[:-2]) and dense[-1:] == shape[-2:-1]:
        return moved(grouped_matmul(moved(x, 0, -2), matrices, starts), -2, 0)
    return _one_by_one(x, matrices, starts, lambda part, matrix: functions.product(part, matrix, 1))


def _matrices_times(x: Array, matrices: Array, starts: Numbers) -> Array:
    """`matrix @ x` for rows x."""
    if x.ndim == 2 and matrices.ndim == 3 and x.shape[-1] == matrices.shape[-1]:
        return grouped_matmul(x, swapped(matrices), starts)
    return _one_by_one(x, matrices, starts, lambda part, matrix: functions.product(matrix, part, 1))


def _one_by_one(x: Array, matrices: Array, starts: Numbers, product: Callable[[Array, Array], Array]) -> Array:
    """The products of each group's rows with its matrix, one group after another."""
    ends = [*starts[1:], len(x)]
    groups = enumerate(zip(starts, ends, strict=True))
    return joined(0, *(product(x[start:end], matrices[index : index + 1]) for index, (start, end) in groups))
