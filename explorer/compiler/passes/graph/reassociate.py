"""Regroups sums and products so that what the negatives of a triple share is computed once for the triple.

A value may live on the smallest index set through which its dependencies factor. With negatives, `h` and `r` (or `t`
and `r`) belong to the triple, so `(E[h] - E[t]) + R[r]` becomes `(E[h] + R[r]) - E[t]`, `dot(E[h] @ P[r], E[t])` with
corrupted heads becomes `dot(E[h], P[r] @ E[t])`, and several products with one row become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from explorer.compiler.ir.graph import (
    Constant,
    Contract,
    Elementwise,
    Graph,
    Operator,
    Shape,
    Transpose,
    Value,
    operands,
)
from explorer.compiler.ir.node import Names, Origin, merge
from explorer.compiler.report import Report

Term = tuple[float, str]
"""A factor and the value that it multiplies."""

DOT, ROW_TIMES_MATRIX = "a,a->", "a,ab->b"


def reassociate(graph: Graph, report: Report) -> Graph:
    """The graph with shared terms of sums added first, and products moved to the shared side."""
    if not any(entry.domain == "negative" for entry in graph.maps):
        return graph
    return _Reassociation(graph, report).graph()


class _Reassociation:
    def __init__(self, graph: Graph, report: Report) -> None:
        self.source = graph
        self.report = report
        self.values = {value.name: value for value in graph.values}
        self.names = Names(set(self.values))
        self.uses: dict[str, int] = {}
        self.apart: list[str] = []
        for value in graph.values:
            for name in operands(value.operator):
                self.uses[name] = self.uses.get(name, 0) + 1
        self.result: list[Value] = []

    def graph(self) -> Graph:
        """All values in order, each sum and product regrouped where that shares more."""
        inside = {name for value in self.source.values for name in self._chain(value)}
        for value in self.source.values:
            if value.index_set == "negative" and value.name not in inside:
                value = self._regrouped(value)
            self.result.append(value)
        return replace(self.source, values=tuple(self.result))

    def _chain(self, value: Value) -> list[str]:
        """The operands that are a part of the same sum, or of the product that it adds."""
        if not _is_sum(value, self.values):
            return []
        return [name for name in operands(value.operator) if self._inner(name)]

    def _inner(self, name: str) -> bool:
        return self.values[name].index_set == "negative" and self.uses[name] == 1

    def _regrouped(self, value: Value) -> Value:
        """The value, rewritten where that shares more; what is new belongs to every operation that was taken apart."""
        first_new = len(self.result)
        self.apart = [value.name]
        terms = self._terms(value.name, root=True)
        rewritten = self._regroup_sum(value, terms) if value.shape else self._regroup_products(value, terms)
        origin = merge(*(self.values[name].origin for name in self.apart))
        for at in range(first_new, len(self.result)):
            self.result[at] = replace(self.result[at], origin=merge(self.result[at].origin, origin))
        return rewritten if rewritten is value else replace(rewritten, origin=origin)

    def _terms(self, name: str, root: bool = False) -> list[Term]:
        """A value as a sum of factors times values; what is shared, or read elsewhere too, is not taken apart."""
        value = self.values[name]
        if (not root and not self._inner(name)) or not _is_sum(value, self.values):
            return [(1.0, name)]
        self.apart.append(name)
        operator = value.operator
        assert isinstance(operator, Elementwise)
        if operator.function == "mul":
            factor, other = _constant_factor(operator, self.values)
            self.apart += (name for name in operator.operands if name != other)
            return _scaled(factor, self._terms(other))
        signs = {"add": (1.0, 1.0), "sub": (1.0, -1.0), "neg": (-1.0,)}[operator.function]
        return [
            term for sign, n in zip(signs, operator.operands, strict=True) for term in _scaled(sign, self._terms(n))
        ]

    def _regroup_sum(self, value: Value, terms: list[Term]) -> Value:
        shared = [term for term in terms if self.values[term[1]].index_set != "negative"]
        own = [term for term in terms if self.values[term[1]].index_set == "negative"]
        if len(shared) < 2 or not own:
            return value
        total = self._sum(shared, value)
        self.report.did(f"{total} is added first: the negatives of a triple share it")
        return self._last_sum([*own, (1.0, total)], value)

    def _regroup_products(self, value: Value, terms: list[Term]) -> Value:
        """Each dot product with a shared row, expanded and gathered by the negative's row that it multiplies."""
        shared: list[Term] = []
        rest: list[Term] = []
        products: dict[str, list[Term]] = {}
        before = 0
        moved = False
        for factor, name in terms:
            sides = self._shared_dot(name, value.name)
            if sides is None:
                (rest if self.values[name].index_set == "negative" else shared).append((factor, name))
                continue
            before += 1
            self.apart.append(name)
            row, own = sides
            for inner_factor, leaf in self._terms(own):
                if self.values[leaf].index_set != "negative":
                    shared.append((factor * inner_factor, self._dot(row, leaf, value)))
                    moved = True
                    continue
                matrix = self._shared_matrix(leaf)
                products.setdefault(matrix[0] if matrix else leaf, []).append(
                    (factor * inner_factor, self._project(row, matrix[1], value) if matrix else row)
                )
                moved = moved or matrix is not None
        if not products or (len(products) >= before and not moved):
            return value
        dots = [(1.0, self._dot(self._sum(rows, value), leaf, value)) for leaf, rows in products.items()]
        self.report.did(f"{value.name} takes {len(dots)} product(s) a negative, with a row that a triple's share")
        return self._last_sum([*dots, *rest, *shared], value)

    def _shared_dot(self, name: str, root: str) -> tuple[str, str] | None:
        """The sides of a dot product of a shared row with the negative's own, in that order."""
        operator = self.values[name].operator
        if not isinstance(operator, Contract) or operator.signature != DOT or not (name == root or self._inner(name)):
            return None
        left, right = operator.left, operator.right
        if self.values[left].index_set == "negative":
            left, right = right, left
        if self.values[left].index_set == "negative" or self.values[right].index_set != "negative":
            return None
        return left, right

    def _shared_matrix(self, name: str) -> tuple[str, str] | None:
        """The row and the matrix of a product of the negative's row with a shared matrix."""
        operator = self.values[name].operator
        if not isinstance(operator, Contract) or operator.signature != ROW_TIMES_MATRIX or not self._inner(name):
            return None
        if self.values[operator.right].index_set == "negative":
            return None
        self.apart.append(name)
        return operator.left, operator.right

    def _project(self, row: str, matrix: str, at: Value) -> str:
        """The row times the transposed matrix: what is left to multiply after `dot(x @ M, row)` became one of x."""
        rows, columns = self.values[matrix].shape
        flipped = self._add(Transpose(operand=matrix, origin=at.origin), (columns, rows), at.origin)
        product = Contract(signature=ROW_TIMES_MATRIX, left=row, right=flipped, origin=at.origin)
        return self._add(product, (rows,), at.origin)

    def _dot(self, left: str, right: str, at: Value) -> str:
        return self._add(Contract(signature=DOT, left=left, right=right, origin=at.origin), (), at.origin)

    def _sum(self, terms: list[Term], at: Value) -> str:
        """The name of a value that is the sum."""
        total = self._scaled_value(*terms[0], at)
        for factor, name in terms[1:]:
            total = self._plus(total, factor, name, at)
        return total

    def _plus(self, total: str, factor: float, name: str, at: Value) -> str:
        operator = self._plus_operator(total, factor, name, at)
        return self._add(operator, self.values[total].shape, at.origin)

    def _plus_operator(self, total: str, factor: float, name: str, at: Value) -> Elementwise:
        function = "sub" if factor < 0 else "add"
        other = self._scaled_value(abs(factor), name, at)
        return Elementwise(function=function, operands=(total, other), origin=at.origin)

    def _last_sum(self, terms: list[Term], at: Value) -> Value:
        """The value itself, now the sum of the terms; the last addition keeps its name."""
        terms = sorted(terms, key=lambda term: term[0] < 0)
        if len(terms) == 1:
            only = self.values[self._sum(terms, at)]
            return replace(only, name=at.name, origin=at.origin)
        total = self._sum(terms[:-1], at)
        return replace(at, operator=self._plus_operator(total, *terms[-1], at))

    def _scaled_value(self, factor: float, name: str, at: Value) -> str:
        if factor == 1.0:
            return name
        shape = self.values[name].shape
        if factor == -1.0:
            return self._add(Elementwise(function="neg", operands=(name,), origin=at.origin), shape, at.origin)
        constant = self._add(Constant(value=factor, origin=at.origin), (), at.origin)
        product = Elementwise(function="mul", operands=(constant, name), origin=at.origin)
        return self._add(product, shape, at.origin)

    def _add(self, operator: Operator, shape: Shape, origin: Origin) -> str:
        """A new value, on the smallest index set that its operands allow."""
        inputs = [self.values[name] for name in operands(operator)]
        depends = {name for value in inputs for name in value.depends}
        sets = {value.index_set for value in inputs}
        value = Value(
            name=self.names.new(f"%{len(self.values) + 1}"),
            operator=operator,
            index_set=next((s for s in ("negative", "batch") if s in sets), "unit"),
            shape=shape,
            depends=tuple(entry.name for entry in self.source.maps if entry.name in depends),
            origin=merge(origin, *(v.origin for v in inputs if isinstance(operator, Transpose))),
        )
        self.values[value.name] = value
        self.result.append(value)
        return value.name


def _is_sum(value: Value, values: dict[str, Value]) -> bool:
    """Whether the value is a sum, a difference, a negation or a constant times another, all of one shape."""
    if not isinstance(value.operator, Elementwise):
        return False
    operator = value.operator
    if operator.function == "mul":
        return any(isinstance(values[name].operator, Constant) for name in operator.operands)
    same = all(values[name].shape == value.shape for name in operator.operands)
    return operator.function in ("add", "sub", "neg") and same


def _constant_factor(operator: Elementwise, values: dict[str, Value]) -> tuple[float, str]:
    left, right = operator.operands
    constant = values[left].operator
    if isinstance(constant, Constant):
        return constant.value, right
    constant = values[right].operator
    assert isinstance(constant, Constant)
    return constant.value, left


def _scaled(factor: float, terms: Iterable[Term]) -> list[Term]:
    return [(factor * inner, name) for inner, name in terms]
