"""Layers for the reference: loops over a graph's nodes and edges, and the data named on them.

A row is an element of the loop that is running: rows of a node loop are nodes, those of a loop over a node's edges
inside it are the edges of all the chunk's nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from explorer.runtime import reference_functions as functions
from explorer.runtime.reference_evaluator import Binding, Evaluator, Handle, Index, Number, Table
from explorer.runtime.reference_functions import Array
from explorer.runtime.reference_graph import DIRECTIONS, GraphData, Key, Numbers, ReferenceGraph, reduce_runs
from explorer.runtime.reference_text import Definition, Model, ReferenceFailure

CHUNK_BYTES = 32 << 20
"""About how much the float64 values of one chunk of a loop take."""
FIRST_CHUNK = 256
"""The elements of a loop's first chunk, by which what the others take is known."""

SETS = frozenset({"node", "edge", "etype", "ntype"})
LOOPS = {"edges": "edge", "nodes": "node", "src_nodes": "node", "dst_nodes": "node"}
COMPREHENSIONS = ("sum", "mean", "max", "min")
MAPS = {("edge", "src"): "node", ("edge", "dst"): "node", ("edge", "etype"): "etype", ("node", "ntype"): "ntype"}


@dataclass(frozen=True)
class Element(Index):
    """An element of a set a row: a loop's variable, or what a map leads to."""

    set: str
    distinct: bool
    """Whether no two rows are the same element, so that it can be assigned to."""


@dataclass(frozen=True)
class Rows(Handle):
    """`W[e.etype]`, not gathered yet: a matrix a row would not fit in memory."""

    table: npt.NDArray[np.floating]  # [sets..., dense...]
    ids: tuple[npt.NDArray[np.integer], ...]
    dtype: npt.DTypeLike

    def gathered(self) -> Array:
        """The rows, each with a matrix of its own."""
        return np.asarray(self.table[self.ids], dtype=self.dtype)

    @property
    def dense(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self.table.shape[len(self.ids) :]

    def groups(self) -> Iterator[tuple[Numbers, Array]]:
        """The rows that share a matrix, and the matrix."""
        flat = np.ravel_multi_index(self.ids, self.table.shape[: len(self.ids)])
        order = np.argsort(flat, kind="stable")
        starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
        for rows in np.split(order, starts[1:]):
            yield rows, self.table[tuple(part[rows[0]] for part in self.ids)].astype(self.dtype)


class _Graph(Handle):
    """What a layer's parameter `g` stands for."""


Scope = dict[str, Binding]


def read_weighing(definition: Definition) -> None:
    """Makes `e.src.feature * W[e.etype]` mean `@`, as in Hector's Listing 1.

    Only where features that are given are multiplied by weights of a type that are learnt and have more dimensions;
    every other `*` goes element by element. The definition's tree is changed in place.
    """
    features: dict[str, int] = {}
    weights: dict[str, int] = {}
    for name, extents in definition.tensors:
        sets = SETS.intersection(extents)
        rank = sum(extent not in SETS for extent in extents)
        if name in definition.given and sets == {"node"}:
            features[name] = rank
        elif name not in definition.given and sets and sets <= {"etype", "ntype"}:
            weights[name] = rank
    for node in _walk(definition.body):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = _tensor_read(node.left), _tensor_read(node.right)
            if left in features and right in weights and weights[right] > features[left]:
                node.op = ast.MatMult()


def _tensor_read(node: ast.expr) -> str:
    """The tensor that an expression reads rows of: `x[e.src]`, `e.src.x`; "" for another expression."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(attr=name):
            return name
    return ""


class LayerEvaluator(Evaluator):
    """Evaluates one layer."""

    def __init__(
        self,
        model: Model,
        definition: Definition,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        sizes: Mapping[str, int],
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        super().__init__(model, definition, inputs, sizes, 1, SETS, dtype)
        read_weighing(definition)
        self.graph = ReferenceGraph(inputs)
        self.data = GraphData(self.graph)

    def result(self) -> Array:
        """What the layer returns, a row a node or an edge."""
        parameter = self.definition.parameters[0][0]
        scope: Scope = {**self.tables, parameter: _Graph()}
        value = self.statements(self.definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{self.definition.name} returns nothing")
        return self.kept(self.array(value))

    # Statements

    def body(self, definition: Definition, scope: Scope) -> Binding:
        """Runs a helper's statements up to its `return`."""
        value = self.statements(definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{definition.name} returns nothing")
        return value

    def statements(self, body: Sequence[ast.stmt], scope: Scope) -> Binding | None:
        """Runs statements; what a `return` among them gives."""
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    scope[name] = self.expression(value, scope)
                case ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value):
                    element, key = self.place(owner, name, scope)
                    self.assign(element, key, self.value(value, scope))
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    scope[name] = self.binary(op, scope[name], self.expression(value, scope))
                case ast.AugAssign(target=ast.Subscript(value=owner, slice=name), op=op, value=value):
                    self.update(*self.place(owner, name, scope), op, self.value(value, scope))
                case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=owner, attr=method))):
                    self.loop(name, self.expression(owner, scope), method, statement.body, scope)
                case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                    self.call_statement(name, call, scope)
                case ast.Return(value=ast.expr() as value):
                    return self.expression(value, scope)
                case _:
                    raise ReferenceFailure(f"line {statement.lineno}: not a statement of a layer")
        return None

    def call_statement(self, name: str, call: ast.Call, scope: Scope) -> None:
        """`edge_softmax(g, "att")`, or a helper of the text that has statements only."""
        helper = self.model.definitions.get(name)
        if helper is not None and helper.family == "def":
            given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            self.statements(helper.body, self.bind(helper, call.args, given, scope))
        elif name == "edge_softmax" and len(call.args) == 2:
            self.edge_softmax(self.data_name(call.args[1], scope))
        else:
            raise ReferenceFailure(f"line {call.lineno}: there is nothing to do in {ast.unparse(call)[:80]}")

    def edge_softmax(self, name: str) -> None:
        """Replaces data of edges by exp(x) over the sum of exp over all in-edges of the edge's destination."""
        key: Key = ("edge", name)
        nodes = np.arange(self.graph.sizes["node"])
        edges, parents = self.graph.edges_at(nodes, "incoming_edges")
        logits = self.data.read(key, edges)
        logits = np.exp(logits - reduce_runs("max", logits, parents, len(nodes))[parents])
        logits /= reduce_runs("sum", logits, parents, len(nodes))[parents]
        self.data.assign(key, edges, logits)
        self.data.end_loop()

    # Loops

    def loop(self, name: str, owner: Binding, method: str, body: list[ast.stmt], scope: Scope) -> None:
        """Runs a loop's body, for all its elements at once or in chunks."""
        if isinstance(owner, Element) and owner.set == "node" and method in DIRECTIONS:
            inner, _ = self.descend(name, owner, method, body, scope)
            self.statements(body, inner)
        elif isinstance(owner, _Graph) and method in LOOPS:
            self.outer_loop(name, LOOPS[method], body, scope)
        else:
            raise ReferenceFailure(f"there is no loop over {method}()")

    def outer_loop(self, name: str, kind: str, body: list[ast.stmt], scope: Scope) -> None:
        """A loop over all nodes or edges, in chunks of about CHUNK_BYTES."""
        # Elements of a type one after another: then a chunk needs few matrices.
        order = np.argsort(self.graph.maps["etype" if kind == "edge" else "ntype"], kind="stable")
        weights = np.ones(len(order), dtype=np.int64)
        for method in {node.attr for node in _walk(body) if isinstance(node, ast.Attribute)} & DIRECTIONS.keys():
            weights += self.graph.degrees(DIRECTIONS[method])[order] if kind == "node" else 0
        ends = np.cumsum(weights)
        budget, start = FIRST_CHUNK, 0
        while True:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + budget, side="right")))
            self.bytes = 0
            self.data.begin_chunk()
            self.statements(body, {**scope, name: Element(order[start:stop], kind, True)})
            if stop >= len(order):
                break
            each = self.bytes / (int(ends[stop - 1]) - before)
            budget, start = max(1, int(CHUNK_BYTES / max(1.0, each))), stop
        self.data.end_loop()
        # `return n["h"]`, behind the loops, names the data of all elements.
        scope[name] = Element(np.arange(len(order)), kind, True)

    def descend(
        self, name: str, owner: Element, method: str, body: Iterable[ast.AST], scope: Scope
    ) -> tuple[Scope, Numbers]:
        """The scope of a loop over the edges at the rows' nodes, and the row that each edge comes from."""
        edges, parents = self.graph.edges_at(np.asarray(owner.ids, dtype=np.int64), method)
        used = {node.id for node in _walk(body) if isinstance(node, ast.Name)}
        # A loop that has ended may have left its variable, whose name this one takes.
        used.discard(name)
        inner = {entry: self.repeated(bound, parents) for entry, bound in scope.items() if entry in used}
        return {**inner, name: Element(edges, "edge", owner.distinct)}, parents

    def repeated(self, bound: Binding, parents: Numbers) -> Binding:
        """What an outer row's name stands for in the rows inside it."""
        match bound:
            case Element():
                return replace(bound, ids=bound.ids[parents], distinct=False)
            case Rows():
                return replace(bound, ids=tuple(part[parents] for part in bound.ids))
            case np.ndarray() if len(bound) != 1:  # one row stands for all
                return self.kept(bound[parents])
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
                    return replace(bound, table=np.swapaxes(bound.table, -1, -2))
            case ast.Attribute(value=inner, attr=name):
                element = self.expression(inner, scope)
                if isinstance(element, Element):
                    return self.attribute(element, name)
            case ast.Subscript(value=ast.Name() | ast.Attribute() as inner, slice=name) if not isinstance(
                name, ast.Slice
            ):
                element = self.expression(inner, scope)
                if isinstance(element, Element):
                    return self.kept(self.data.read((element.set, self.data_name(name, scope)), element.ids))
            case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() as comprehension]) if name in COMPREHENSIONS:
                return self.comprehension(name, comprehension, scope)
        return super().operand(node, scope)

    def attribute(self, element: Element, name: str) -> Binding:
        """`e.src`, `n.ntype`, `e.norm`, or `e.src.feature`."""
        if (element.set, name) in MAPS:
            return Element(self.graph.maps[name][element.ids], MAPS[element.set, name], False)
        match element.set, name:
            case _, "id":
                return element
            case "edge", "norm":
                return self.kept(self.graph.norm[element.ids])
            case "node", "in_degree":
                return self.kept(self.graph.degrees("dst")[element.ids].astype(np.float64))
        if name in self.tables:
            return self.rows_of(self.tables[name], (element.ids,))
        raise ReferenceFailure(f"a {element.set} has no {name}")

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
        rows = Rows(table.data, ids, self.dtype)
        return rows if len(rows.dense) >= 2 else self.kept(rows.gathered())

    def array(self, entry: Binding) -> Array:
        """A value with a row for each element, or one row for all."""
        if isinstance(entry, Rows):
            return self.kept(entry.gathered())
        return super().array(entry)

    def binary(self, kind: ast.operator, left: Binding, right: Binding) -> Array | Number:
        """A product with matrices that many rows share takes them one after another."""
        if isinstance(kind, ast.MatMult):
            for matrices, other, product in ((right, left, _times_matrix), (left, right, _matrix_times)):
                if isinstance(matrices, Rows) and not isinstance(other, Rows) and len(matrices.ids[0]):
                    values = self.array(other)
                    values = np.broadcast_to(values, (len(matrices.ids[0]), *values.shape[1:]))
                    return self.kept(_by_groups(matrices, values, product))
        return super().binary(kind, left, right)

    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """`sum(x[e.src] for e in n.incoming_edges())`: 0 for a node without edges."""
        match node.generators:
            case [
                ast.comprehension(
                    target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=owner, attr=method)), ifs=[]
                )
            ] if method in DIRECTIONS:
                element = self.expression(owner, scope)
                if isinstance(element, Element) and element.set == "node":
                    inner, parents = self.descend(name, element, method, [node.elt], scope)
                    values = self.value(node.elt, inner)
                    values = np.broadcast_to(values, (len(parents), *values.shape[1:]))
                    return self.kept(reduce_runs(function, values, parents, len(element.ids)))
        raise ReferenceFailure(f"line {node.lineno}: not a reduction over the edges of a node")


def _walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for part in body:
        yield from ast.walk(part)


def _by_groups(matrices: Rows, values: Array, product: Callable[[Array, Array], Array]) -> Array:
    """The products of every row with its matrix, those with the same matrix at once."""
    result: Array | None = None
    for rows, matrix in matrices.groups():
        part = product(values[rows], matrix)
        if result is None:
            result = np.empty((len(values), *part.shape[1:]))
        result[rows] = part
    assert result is not None
    return result


def _times_matrix(x: Array, matrix: Array) -> Array:
    """`x @ matrix` for rows x: a true matrix product where each row is multiplied by the matrix."""
    dense, shape = x.shape[1:], matrix.shape
    if (len(dense) == 1 or dense[:-1] == shape[:-2]) and dense[-1:] == shape[-2:-1]:
        return np.moveaxis(np.matmul(np.moveaxis(x, 0, -2), matrix), -2, 0)
    return functions.product(x, matrix[None], 1)


def _matrix_times(x: Array, matrix: Array) -> Array:
    """`matrix @ x` for rows x."""
    return functions.product(matrix[None], x, 1)
