"""Ops for the reference: bags, sparse matrices and block gathers.

All three are lists of entries: an entry belongs to an owner (a bag, a row, a query) and leads to a target (a row of a
table, a column, a block). A bag's body runs once for every bag, a query's for every query; a matrix is looped over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.evaluator import Binding, Handle, Table, is_counted
from explorer.runtime.reference.graph import GraphData, reduce_runs
from explorer.runtime.reference.numbers.arithmetic import FLOAT64, Arithmetic
from explorer.runtime.reference.numbers.primitives import Array, Numbers, joined, pick, spread
from explorer.runtime.reference.rows import Element, RowEvaluator, Rows, Scope, walk
from explorer.runtime.reference.text import Definition, Model, ReferenceFailure

CALLED_FOR = {"bag": "bag", "blocks": "query"}
"""The kinds of ops whose body runs for each owner, and the set of those."""
MATRICES = ("csr", "coo")

Inputs = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class Header:
    """`b: bag of row`, `A: csr[row, col]`: what the parameter is called, its kind, and the sets."""

    parameter: str
    kind: str
    owner: str
    entry: str
    target: str

    @classmethod
    def of(cls, definition: Definition) -> Header:
        """The header of an op."""
        ((parameter, annotation),) = definition.parameters
        kind, _, sets = annotation.rstrip("]").partition("[")
        names = [name.strip() for name in sets.split(",")]
        if kind in CALLED_FOR and len(names) == 1:
            return cls(parameter, kind, CALLED_FOR[kind], "entry", names[0])
        if kind in MATRICES and len(names) == 2:
            return cls(parameter, kind, names[0], "nonzero", names[1])
        raise ReferenceFailure(f"{definition.name}: there is no op over {annotation}")


class Entries:
    """The owner and the target of every entry, and its weight or value, as they are given."""

    def __init__(self, header: Header, inputs: Inputs, arithmetic: Arithmetic) -> None:
        name = {"bag": "weight"}.get(header.kind, "value")
        given = inputs.get(name)
        self.weights = None if given is None else arithmetic.table(name, np.asarray(given))
        if header.kind in MATRICES:
            self.targets = np.asarray(inputs["col"], dtype=np.int64)
            if "rowptr" in inputs:
                self.owners = _owners(inputs["rowptr"])
                owners = len(inputs["rowptr"]) - 1
            else:
                self.owners = np.asarray(inputs["row"], dtype=np.int64)
                owners = int(inputs["num_rows"])
            sizes = {header.target: int(inputs["num_cols"]), header.owner: owners}
        else:
            self.targets = np.asarray(inputs["blocks" if header.kind == "blocks" else "idx"], dtype=np.int64)
            self.owners = _owners(inputs["ptr"])
            sizes = {header.owner: len(inputs["ptr"]) - 1}
        self.sizes = {**sizes, header.entry: len(self.targets)}

    @cached_property
    def _order(self) -> tuple[Numbers, Numbers, Numbers]:
        """How many entries every owner has, where they start, and the entries owner by owner."""
        counts = np.bincount(self.owners, minlength=max(1, int(self.owners.max(initial=-1)) + 1))
        return counts, np.cumsum(counts) - counts, np.argsort(self.owners, kind="stable")

    def counts(self, owners: Numbers) -> Numbers:
        """How many entries these owners have."""
        known = self._order[0]
        return np.where(owners < len(known), known[np.minimum(owners, len(known) - 1)], 0)

    def at(self, owners: Numbers) -> tuple[Numbers, Numbers]:
        """The entries of these owners, one owner after another: their ids, and which of `owners` each is of."""
        _, starts, order = self._order
        counts = self.counts(owners)
        parents = np.repeat(np.arange(len(owners)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[starts[owners[parents]] + within], parents


def _owners(ptr: npt.NDArray[np.generic]) -> Numbers:
    """The owner of each entry, from where each owner's begin."""
    ends = np.asarray(ptr, dtype=np.int64)
    return np.repeat(np.arange(len(ends) - 1), np.diff(ends))


@dataclass(frozen=True)
class NamedTable(Table):
    """A tensor with the names of its index sets: an entry picks its own row or its target's, as they say."""

    over: tuple[str, ...]


class _Lists(Handle):
    """What a matrix op's parameter `A` stands for."""


class OpEvaluator(RowEvaluator):
    """Evaluates one op."""

    def __init__(
        self,
        model: Model,
        definition: Definition,
        inputs: Inputs,
        sizes: Mapping[str, int],
        arithmetic: Arithmetic = FLOAT64,
    ) -> None:
        self.header = header = Header.of(definition)
        sets = frozenset((header.owner, header.entry, header.target))
        super().__init__(model, definition, inputs, sizes, 1, sets, arithmetic)
        extents = dict(definition.tensors)
        self.tables = {name: NamedTable(t.data, t.sets, extents[name][: t.sets]) for name, t in self.tables.items()}
        self.entries = Entries(header, inputs, arithmetic)
        self.data = GraphData(self.entries.sizes)

    def result(self) -> Array:
        """What the op returns, a row a bag, a row of the matrix, a nonzero, or an entry."""
        scope: Scope = {**self.tables, self.header.parameter: _Lists()}
        if self.header.kind in CALLED_FOR:
            return self.called_for_each(scope)
        value = self.statements(self.definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{self.definition.name} returns nothing")
        return self.kept(self.array(value))

    def called_for_each(self, scope: Scope) -> Array:
        """The results of the body for all owners, one after another."""
        order = np.arange(self.entries.sizes[self.header.owner])
        parts: list[Array] = []
        of_entries = self._returns_entries()

        def run(ids: Numbers) -> None:
            owner = Element(ids, self.header.owner, True)
            value = self.statements(self.definition.body, {**scope, self.header.parameter: owner})
            if value is None:
                raise ReferenceFailure(f"{self.definition.name} returns nothing")
            part = self.kept(self.array(value))
            rows = len(part) if of_entries else len(ids)
            parts.append(spread(part, (rows, *part.shape[1:])))

        self.in_chunks(order, 1 + self.entries.counts(order), run)
        return joined(0, *parts)

    # Loops

    def for_each(self, statement: ast.For, scope: Scope) -> None:
        """Runs a loop over rows or nonzeros in chunks, and one over the entries of each owner at once."""
        match statement:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=of, attr=method), args=[])):
                if isinstance(self.expression(of, scope), _Lists) and method in ("rows", "nonzeros"):
                    self.outer_loop(name, method, statement.body, scope)
                    return
            case ast.For():
                inner, _ = self.descend(statement.target, statement.iter, statement.body, scope)
                self.statements(statement.body, inner)
                # `return j["k"]`, behind the loop, names the data of all entries.
                scope.update({name: inner[name] for name in self._entry_loops([statement])})
                return
        raise ReferenceFailure(f"line {statement.lineno}: there is no such loop in an op")

    def outer_loop(self, name: str, method: str, body: list[ast.stmt], scope: Scope) -> None:
        """`for i in A.rows()` or `for z in A.nonzeros()`."""
        kind = self.header.owner if method == "rows" else self.header.entry
        order = np.arange(self.entries.sizes[kind])
        weights = 1 + (self.entries.counts(order) if method == "rows" else np.zeros_like(order))

        def run(ids: Numbers) -> None:
            self.statements(body, {**scope, name: Element(ids, kind, True)})

        self.in_chunks(order, weights, run)
        scope[name] = Element(order, kind, True)
        for ended in self._entry_loops(body):
            scope[ended] = Element(np.arange(self.entries.sizes[self.header.entry]), self.header.entry, True)

    def _returns_entries(self) -> bool:
        """Whether the result names data of entries; else it is one of owners, even where it is the same for all."""
        names = set(self._entry_loops(self.definition.body))
        returned = [statement for statement in self.definition.body if isinstance(statement, ast.Return)]
        return any(isinstance(node, ast.Name) and node.id in names for node in walk(returned))

    def _entry_loops(self, body: Iterable[ast.AST]) -> Iterable[str]:
        """The variables of the loops over entries in a loop's body, whose data may be returned behind it."""
        for node in walk(body):
            match node:
                case ast.For(target=ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_]), iter=over):
                    yield from () if is_counted(over) else (name,)

    def descend(self, target: ast.expr, over: ast.expr, body: Sequence[ast.AST], scope: Scope) -> tuple[Scope, Numbers]:
        """The scope of a loop over the entries of the rows' owners, and the row that each entry comes from."""
        match over:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="row"), args=[owner]) if isinstance(
                scope.get(name), _Lists
            ):
                element = self.expression(owner, scope)
            case _:
                element = self.expression(over, scope)
        if not isinstance(element, Element) or element.set != self.header.owner:
            raise ReferenceFailure(f"line {over.lineno}: {ast.unparse(over)[:80]} has no entries")
        ids, parents = self.entries.at(np.asarray(element.ids, dtype=np.int64))
        bound: Scope = {}
        match target:
            case ast.Name(id=name):
                bound[name] = Element(ids, self.header.entry, element.distinct)
            case ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=weight)]):
                bound[name] = Element(ids, self.header.entry, element.distinct)
                bound[weight] = self.weights(ids)
        return {**self.inner_scope(scope, parents, bound, body), **bound}, parents

    def weights(self, ids: npt.NDArray[np.integer]) -> Array:
        """The weights of entries, or the values of nonzeros."""
        if self.entries.weights is None:
            raise ReferenceFailure(f"{self.definition.name} uses weights, but none are given")
        return self.kept(pick(self.entries.weights, (ids,)))

    # Expressions

    def attribute(self, element: Element, name: str) -> Binding:
        """`z.row`, `z.col`, `z.value`, or `z.x` for `x[z]`."""
        if element.set == self.header.entry and self.header.kind in MATRICES:
            match name:
                case "row":
                    return Element(self.entries.owners[element.ids], self.header.owner, False)
                case "col":
                    return Element(self.entries.targets[element.ids], self.header.target, False)
                case "value":
                    return self.weights(element.ids)
        if name in self.tables:
            return self.picked(self.tables[name], [element])
        raise ReferenceFailure(f"a {element.set} has no {name}")

    def data_of(self, element: Element, name: str) -> Array:
        """`j["y"]`: data of an entry, or else, in a square matrix, of the row that its column is."""
        header = self.header
        square = header.kind in MATRICES and header.owner == header.target
        if square and element.set == header.entry and (header.entry, name) not in self.data:
            element = Element(self.entries.targets[element.ids], header.owner, False)
        return super().data_of(element, name)

    def gather(self, table: Binding, index: ast.expr, scope: Scope) -> Binding:
        """`T[i]`: of an entry the row of its target, unless the tensor has a row for each entry."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        picked = [self.expression(part, scope) for part in parts]
        elements = [entry for entry in picked if isinstance(entry, Element)]
        if not isinstance(table, Table) or not len(elements) == len(picked) == table.sets:
            raise ReferenceFailure(f"line {index.lineno}: not rows of a tensor")
        return self.picked(table, elements)

    def picked(self, table: Table, elements: Sequence[Element]) -> Array | Rows:
        """The rows of a tensor that these elements pick."""
        assert isinstance(table, NamedTable)
        entry = self.header.entry
        return self.rows_of(
            table,
            tuple(
                self.entries.targets[element.ids] if element.set == entry and over != entry else element.ids
                for element, over in zip(elements, table.over, strict=True)
            ),
        )

    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """`sum(w * T[i] for i, w in b)`: 0 for an owner without entries."""
        match node.generators:
            case [
                ast.comprehension(
                    target=ast.Name(id=name),
                    iter=ast.Call(func=ast.Attribute(value=of, attr="rows" | "nonzeros" as method)),
                )
            ] if isinstance(self.expression(of, scope), _Lists):
                kind = self.header.owner if method == "rows" else self.header.entry
                return self.of_all(function, name, kind, node, scope)
            case [ast.comprehension(target=target, iter=over, ifs=[])]:
                inner, parents = self.descend(target, over, [node.elt], scope)
                values = self.value(node.elt, inner)
                values = spread(values, (len(parents), *values.shape[1:]))
                return self.kept(reduce_runs(function, values, parents, self._rows(over, scope)))
        raise ReferenceFailure(f"line {node.lineno}: not a reduction over entries")

    def _rows(self, over: ast.expr, scope: Scope) -> int:
        """How many owners a reduction has a result for."""
        owner = self.expression(over.args[0] if isinstance(over, ast.Call) else over, scope)
        assert isinstance(owner, Element)
        return len(owner.ids)
