"""Layers for the reference: loops over a graph's nodes and edges, and the data named on them.

A row is an element of the loop that is running: rows of a node loop are nodes, those of a loop over a node's edges
inside it are the edges of all the chunk's nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.evaluator import Binding, Result, of_each
from explorer.runtime.reference.graph import (
    DIRECTIONS,
    NODES,
    TYPES,
    Ends,
    GraphData,
    Key,
    ReferenceGraph,
    reduce_runs,
    softmax_of_runs,
)
from explorer.runtime.reference.numbers.arithmetic import FLOAT64, Arithmetic
from explorer.runtime.reference.numbers.primitives import Array, Numbers, spread
from explorer.runtime.reference.rows import WHOLE, Element, RowEvaluator, Scope, Whole, walk
from explorer.runtime.reference.text import Definition, Model, ReferenceFailure

SETS = frozenset({"node", "edge", "etype", "ntype"})


def ends_of(definition: Definition) -> Ends:
    """The sets that a layer's edges lead from and to: of `g: graph[user, item]` these two."""
    match ast.parse(definition.parameters[0][1], mode="eval").body:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Name(id=source), ast.Name(id=destination)])):
            return source, destination
    return NODES


def maps_of(ends: Ends) -> dict[Key, str]:
    """Where the maps that every graph has lead from the elements of a set."""
    types = {("node", "ntype"): "ntype"} if ends == NODES else {}
    return {("edge", "src"): ends[0], ("edge", "dst"): ends[1], ("edge", "etype"): "etype", **types}


def loops_of(ends: Ends) -> dict[str, str]:
    """The sets that loops over a graph go over."""
    whole = {"nodes": "node", "ntypes": "ntype"} if ends == NODES else {}
    return {"edges": "edge", "src_nodes": ends[0], "dst_nodes": ends[1], "etypes": "etype", **whole}


class _Graph(Whole):
    """What a layer's parameter `g` stands for."""


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
    for node in walk(definition.body):
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


class LayerEvaluator(RowEvaluator):
    """Evaluates one layer."""

    def __init__(
        self,
        model: Model,
        definition: Definition,
        inputs: Mapping[str, npt.NDArray[np.generic]],
        sizes: Mapping[str, int],
        arithmetic: Arithmetic = FLOAT64,
    ) -> None:
        ends = ends_of(definition)
        self.loops, self.groups = loops_of(ends), {*ends}
        self.ends = maps_of(ends) | {(sets[0], name): sets[1] for name, sets in definition.maps}
        sets = SETS | set(self.ends.values()) | definition.sets_beside(model.sizes(sizes))
        super().__init__(model, definition, inputs, sizes, 1, sets, arithmetic)
        read_weighing(definition)
        self.graph = ReferenceGraph(inputs, [name for name, _ in definition.maps if name in inputs], ends)
        self.data = GraphData({**self.table_sizes, **self.graph.sizes, WHOLE: 1})

    def result(self) -> Result:
        """What the layer returns, a row a node or an edge, a tuple of several."""
        parameter = self.definition.parameters[0][0]
        scope: Scope = {**self.tables, parameter: _Graph()}
        value = self.statements(self.definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{self.definition.name} returns nothing")
        return of_each(lambda each: self.kept(self.array(each)), value)

    def built_in_statement(self, name: str, call: ast.Call, scope: Scope) -> None:
        """`edge_softmax(g, "att")`."""
        named = [keyword.value for keyword in call.keywords if keyword.arg == "name"]
        if name != "edge_softmax" or len(named) + len(call.args) != 2:
            super().built_in_statement(name, call, scope)
        typed = any(keyword.arg == "by" for keyword in call.keywords)
        self.edge_softmax(self.data_name([*call.args, *named][1], scope), typed)

    def edge_softmax(self, name: str, typed: bool) -> None:
        """Replaces data of edges by exp(x) over the sum of exp over all in-edges of the edge's destination, or of those
        of its type."""
        key: Key = ("edge", name)
        nodes, types = np.arange(self.graph.sizes[self.graph.ends["dst"]]), self.graph.sizes["etype"]
        edges, parents = self.graph.edges_at(nodes, "incoming_edges")
        if typed:
            pairs = parents * types + self.graph.maps["etype"][edges]
            order = np.argsort(pairs, kind="stable")
            edges, (_, parents) = edges[order], np.unique(pairs[order], return_inverse=True)
        count = int(parents.max(initial=-1)) + 1 if typed else len(nodes)
        self.data.assign(key, edges, softmax_of_runs(self.data.read(key, edges), parents.reshape(-1), count))
        self.data.end_loop()

    # Loops

    def for_each(self, statement: ast.For, scope: Scope) -> None:
        """Runs a loop's body, for all its elements at once or in chunks."""
        match statement:
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Attribute(value=of, attr=method), args=types),
                body=body,
            ):
                owner = self.expression(of, scope)
                if isinstance(owner, Element) and owner.set in self.groups and method in (*DIRECTIONS, *TYPES):
                    inner, _ = self.descend(name, owner, method, types, body, scope)
                    self.statements(body, inner)
                    return
                if isinstance(owner, _Graph) and method in self.loops:
                    self.outer_loop(name, self.loops[method], body, scope)
                    return
        raise ReferenceFailure(f"line {statement.lineno}: there is no such loop in a layer")

    def outer_loop(self, name: str, kind: str, body: list[ast.stmt], scope: Scope) -> None:
        """A loop over all nodes or edges, in chunks of about CHUNK_BYTES."""
        # Elements of a type one after another: then a chunk needs few matrices.
        types = {"edge": "etype", "node": "ntype"}.get(kind)
        order = np.argsort(self.graph.maps[types], kind="stable") if types else np.arange(self.graph.sizes[kind])
        weights = np.ones(len(order), dtype=np.int64)
        for method in {node.attr for node in walk(body) if isinstance(node, ast.Attribute)} & DIRECTIONS.keys():
            end = DIRECTIONS[method]
            weights += self.graph.degrees(end)[order] if kind == self.graph.ends[end] else 0

        def run(ids: Numbers) -> None:
            self.statements(body, {**scope, name: Element(ids, kind, True)})

        self.in_chunks(order, weights, run)
        # `return n["h"]`, behind the loops, names the data of all elements.
        scope[name] = Element(np.arange(len(order)), kind, True)

    def descend(
        self,
        name: str,
        owner: Element,
        method: str,
        types: list[ast.expr],
        body: Iterable[ast.AST],
        scope: Scope,
    ) -> tuple[Scope, Numbers]:
        """The scope of a loop over the edges at the rows' nodes, or those of one type, or over the types that they
        have; and the row that each comes from."""
        nodes = np.asarray(owner.ids, dtype=np.int64)
        if method in TYPES:
            found, parents = self.graph.types_at(nodes, method)
            return {**self.inner_scope(scope, parents, [name], body), name: Element(found, "etype", False)}, parents
        edges, parents = self.graph.edges_at(nodes, method)
        for node in types:
            etype = self.expression(node, scope)
            assert isinstance(etype, Element)
            kept = self.graph.maps["etype"][edges] == etype.ids[parents]
            edges, parents = edges[kept], parents[kept]
        inner = self.inner_scope(scope, parents, [name], body)
        return {**inner, name: Element(edges, "edge", len(np.unique(edges)) == len(edges))}, parents

    # Expressions

    def attribute(self, element: Element, name: str) -> Binding:
        """`e.src`, `n.ntype`, `e.norm`, or `e.src.feature`."""
        if (element.set, name) in self.ends:
            return Element(self.graph.maps[name][element.ids], self.ends[element.set, name], False)
        match element.set, name:
            case _, "id":
                return element
            case "edge", "norm":
                return self.kept(self.arithmetic.rounded(self.graph.norm[element.ids]))
            case index_set, "in_degree" if index_set == self.graph.ends["dst"]:
                return self.kept(self.graph.degrees("dst")[element.ids].astype(np.float64))
        if name in self.tables:
            return self.rows_of(self.tables[name], (element.ids,))
        raise ReferenceFailure(f"a {element.set} has no {name}")

    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """`sum(x[e.src] for e in n.incoming_edges())`: 0 for a node without edges."""
        match node.generators:
            case [
                ast.comprehension(
                    target=ast.Name(id=name),
                    iter=ast.Call(func=ast.Attribute(value=owner, attr=method), args=types),
                    ifs=[],
                )
            ]:
                element = self.expression(owner, scope)
                if isinstance(element, Element) and element.set in self.groups and method in (*DIRECTIONS, *TYPES):
                    inner, parents = self.descend(name, element, method, types, [node.elt], scope)
                    values = self.value(node.elt, inner)
                    values = spread(values, (len(parents), *values.shape[1:]))
                    return self.kept(reduce_runs(function, values, parents, len(element.ids)))
                if isinstance(element, _Graph) and method in self.loops:
                    return self.of_all(function, name, self.loops[method], node, scope)
        raise ReferenceFailure(f"line {node.lineno}: not a reduction over the edges of a node")
