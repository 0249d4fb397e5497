"""Layers for the reference: loops over a graph's nodes and edges, and the data named on them.

A row is an element of the loop that is running: rows of a node loop are nodes, those of a loop over a node's edges
inside it are the edges of all the chunk's nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def ends_of(over: str) -> Ends:
    """The sets that a graph's edges lead from and to: of `graph[user, item]` these two."""
    match ast.parse(over, mode="eval").body:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Name(id=source), ast.Name(id=destination)])):
            return source, destination
    return NODES


def maps_of(ends: Ends) -> dict[Key, str]:
    """Where the maps that every graph has lead from the elements of a set."""
    types = {("node", "ntype"): "ntype"} if ends == NODES else {}
    return {("edge", "src"): ends[0], ("edge", "dst"): ends[1], ("edge", "etype"): "etype", **types}


def loops_of(graph: ReferenceGraph) -> dict[str, str]:
    """The sets that loops over a graph go over."""
    source, destination = graph.ends["src"], graph.ends["dst"]
    whole = {"nodes": source, "ntypes": "ntype"} if source == destination else {}
    return {"edges": graph.edge, "src_nodes": source, "dst_nodes": destination, "etypes": graph.etype, **whole}


class _Graph(Whole):
    """What a layer's parameter `g` stands for."""

    def __init__(self, graph: ReferenceGraph, before: str = "") -> None:
        self.graph, self.before = graph, before


@dataclass(frozen=True)
class _AtNodes:
    """What a loop goes over at nodes: a graph's edges there, or the types that these have; of one type, its words."""

    graph: ReferenceGraph
    node: Element
    method: str
    types: list[ast.expr]


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
        (first, over), *others = definition.parameters
        ends = ends_of(over)
        declared = [name for name, _ in definition.maps if name in inputs]
        self.graph = ReferenceGraph(inputs, declared, ends)
        beside = {name: ReferenceGraph(inputs, (), ends_of(over), name) for name, over in others}
        self.graphs = {first: _Graph(self.graph)} | {name: _Graph(graph, f"{name}.") for name, graph in beside.items()}
        self.groups = {*ends}
        self.ends = maps_of(ends) | {(sets[0], name): sets[1] for name, sets in definition.maps}
        for graph in beside.values():
            leads_to = {**graph.ends, "etype": graph.etype}
            self.ends |= {(graph.edge, part): index_set for part, index_set in leads_to.items()}
        edges = {edge for edge, _ in self.ends}
        sets = SETS | edges | set(self.ends.values()) | definition.sets_beside(model.sizes(sizes))
        super().__init__(model, definition, inputs, sizes, 1, sets, arithmetic)
        read_weighing(definition)
        counted = {index_set: count for graph in beside.values() for index_set, count in graph.sizes.items()}
        self.data = GraphData({**counted, **self.table_sizes, **self.graph.sizes, WHOLE: 1})

    def result(self) -> Result:
        """What the layer returns, a row a node or an edge, a tuple of several."""
        scope: Scope = {**self.tables, **self.graphs}
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
        of = self.expression(call.args[0], scope)
        assert isinstance(of, _Graph)
        self.edge_softmax(of.graph, self.data_name([*call.args, *named][1], scope), typed)

    def edge_softmax(self, graph: ReferenceGraph, name: str, typed: bool) -> None:
        """Replaces data of edges by exp(x) over the sum of exp over all in-edges of the edge's destination, or of those
        of its type."""
        key: Key = (graph.edge, name)
        nodes, types = np.arange(graph.sizes[graph.ends["dst"]]), graph.sizes[graph.etype]
        edges, parents = graph.edges_at(nodes, "incoming_edges")
        if typed:
            pairs = parents * types + graph.maps["etype"][edges]
            order = np.argsort(pairs, kind="stable")
            edges, (_, parents) = edges[order], np.unique(pairs[order], return_inverse=True)
        count = int(parents.max(initial=-1)) + 1 if typed else len(nodes)
        self.data.assign(key, edges, softmax_of_runs(self.data.read(key, edges), parents.reshape(-1), count))
        self.data.end_loop()

    # Loops

    def at_nodes(self, of: ast.expr, method: str, given: list[ast.expr], scope: Scope) -> _AtNodes | None:
        """What `n.incoming_edges(r)` goes over, or `q.incoming_edges(n)` of a graph that is named; None for another."""
        if method not in (*DIRECTIONS, *TYPES):
            return None
        owner, graph = self.expression(of, scope), self.graph_here(scope)
        if isinstance(owner, _Graph) and given:
            graph, owner, given = owner.graph, self.expression(given[0], scope), given[1:]
        return (
            _AtNodes(graph, owner, method, given) if isinstance(owner, Element) and owner.set in self.groups else None
        )

    def for_each(self, statement: ast.For, scope: Scope) -> None:
        """Runs a loop's body, for all its elements at once or in chunks."""
        match statement:
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Attribute(value=of, attr=method), args=given),
                body=body,
            ):
                at = self.at_nodes(of, method, given, scope)
                if at is not None:
                    inner, _ = self.descend(name, at, body, scope)
                    self.statements(body, inner)
                    return
                owner = self.expression(of, scope)
                if isinstance(owner, _Graph) and method in loops_of(owner.graph):
                    self.outer_loop(name, loops_of(owner.graph)[method], body, scope)
                    return
        raise ReferenceFailure(f"line {statement.lineno}: there is no such loop in a layer")

    def outer_loop(self, name: str, kind: str, body: list[ast.stmt], scope: Scope) -> None:
        """A loop over all nodes or edges, in chunks of about CHUNK_BYTES."""
        # Elements of a type one after another: then a chunk needs few matrices.
        graphs = [each.graph for each in self.graphs.values()]
        types = {"node": self.graph.maps["ntype"]} if "ntype" in self.graph.maps else {}
        types |= {graph.edge: graph.maps["etype"] for graph in graphs}
        order = np.argsort(types[kind], kind="stable") if kind in types else np.arange(self.data.sizes[kind])
        weights = np.ones(len(order), dtype=np.int64)
        for method in {node.attr for node in walk(body) if isinstance(node, ast.Attribute)} & DIRECTIONS.keys():
            end = DIRECTIONS[method]
            for graph in graphs:
                weights += graph.degrees(end)[order] if kind == graph.ends[end] else 0

        def run(ids: Numbers) -> None:
            self.statements(body, {**scope, name: Element(ids, kind, True)})

        self.in_chunks(order, weights, run)
        # `return n["h"]`, behind the loops, names the data of all elements.
        scope[name] = Element(np.arange(len(order)), kind, True)

    def descend(self, name: str, at: _AtNodes, body: Iterable[ast.AST], scope: Scope) -> tuple[Scope, Numbers]:
        """The scope of a loop over the edges at the rows' nodes, or those of one type, or over the types that they
        have; and the row that each comes from."""
        graph, nodes = at.graph, np.asarray(at.node.ids, dtype=np.int64)
        if at.method in TYPES:
            found, parents = graph.types_at(nodes, at.method)
            return {**self.inner_scope(scope, parents, [name], body), name: Element(found, graph.etype, False)}, parents
        edges, parents = graph.edges_at(nodes, at.method)
        for each in at.types:
            etype = self.expression(each, scope)
            assert isinstance(etype, Element)
            kept = graph.maps["etype"][edges] == etype.ids[parents]
            edges, parents = edges[kept], parents[kept]
        inner = self.inner_scope(scope, parents, [name], body)
        return {**inner, name: Element(edges, graph.edge, len(np.unique(edges)) == len(edges))}, parents

    # Expressions

    def operand(self, node: ast.expr, scope: Scope) -> Binding:
        """Also the degrees of nodes, in a graph that is named or the first that is there."""
        match node:
            case ast.Attribute(value=of, attr="in_degree"):
                element = self.expression(of, scope)
                if isinstance(element, Element) and element.set in self.groups:
                    return self.degrees(self.graph_here(scope), element)
            case ast.Call(func=ast.Attribute(value=of, attr="in_degree"), args=[at]):
                owner, element = self.expression(of, scope), self.expression(at, scope)
                if isinstance(owner, _Graph) and isinstance(element, Element):
                    return self.degrees(owner.graph, element)
        return super().operand(node, scope)

    def degrees(self, graph: ReferenceGraph, element: Element) -> Array:
        """How many edges of a graph lead to elements."""
        return self.kept(graph.degrees("dst")[element.ids].astype(np.float64))

    def graph_here(self, scope: Scope) -> ReferenceGraph:
        """The graph whose edges a node has where none is named: the first, in a helper of those that it is given."""
        return next((each.graph for each in scope.values() if isinstance(each, _Graph)), self.graph)

    def inner_scope(self, scope: Scope, parents: Numbers, names: Iterable[str], body: Iterable[ast.AST]) -> Scope:
        """Also the graphs, which nodes have edges of by no name."""
        graphs = {name: each for name, each in scope.items() if isinstance(each, _Graph)}
        return graphs | super().inner_scope(scope, parents, names, body)

    def attribute(self, element: Element, name: str) -> Binding:
        """`e.src`, `n.ntype`, `e.norm`, or `e.src.feature`."""
        graph = next((each.graph for each in self.graphs.values() if each.graph.edge == element.set), self.graph)
        if (element.set, name) in self.ends:
            maps = graph.maps if name in graph.maps else self.graph.maps
            return Element(maps[name][element.ids], self.ends[element.set, name], False)
        match element.set, name:
            case _, "id":
                return element
            case "edge", "norm":
                return self.kept(self.arithmetic.rounded(self.graph.norm[element.ids]))
        if name in self.tables:
            return self.rows_of(self.tables[name], (element.ids,))
        raise ReferenceFailure(f"a {element.set} has no {name}")

    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """`sum(x[e.src] for e in n.incoming_edges())`: 0 for a node without edges."""
        match node.generators:
            case [
                ast.comprehension(
                    target=ast.Name(id=name),
                    iter=ast.Call(func=ast.Attribute(value=of, attr=method), args=given),
                    ifs=[],
                )
            ]:
                at = self.at_nodes(of, method, given, scope)
                if at is not None:
                    inner, parents = self.descend(name, at, [node.elt], scope)
                    values = self.value(node.elt, inner)
                    values = spread(values, (len(parents), *values.shape[1:]))
                    return self.kept(reduce_runs(function, values, parents, len(at.node.ids)))
                owner = self.expression(of, scope)
                if isinstance(owner, _Graph) and method in loops_of(owner.graph):
                    return self.of_all(function, name, loops_of(owner.graph)[method], node, scope)
        raise ReferenceFailure(f"line {node.lineno}: not a reduction over the edges of a node")
