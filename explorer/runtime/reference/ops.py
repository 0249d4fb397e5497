"""Ops for the reference: bags, sparse matrices and block gathers.

All three are lists of entries: an entry belongs to an owner (a bag, a row, a query) and leads to a target (a row of a
table, a column, a block). A bag's body runs once for every bag, a query's for every query; a matrix is looped over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explorer.runtime.reference.evaluator import Binding, Result, Table, is_counted, of_each
from explorer.runtime.reference.graph import GraphData, Key, reduce_runs, softmax_of_runs
from explorer.runtime.reference.numbers.arithmetic import FLOAT64, Arithmetic
from explorer.runtime.reference.numbers.primitives import Array, Numbers, joined, pick, spread
from explorer.runtime.reference.rows import WHOLE, Element, RowEvaluator, Rows, Scope, Whole, walk
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
    further: tuple[tuple[str, tuple[str, str]], ...] = ()
    """Of a tensor of more dimensions, the maps from nonzeros to the others; those from bags to the ids beside them."""

    @property
    def prefix(self) -> str:
        """Of one of several bags what stands before the names of its arrays."""
        return self.entry.removesuffix("entry") if self.kind == "bag" else ""

    @classmethod
    def beside(cls, definition: Definition) -> tuple[Header, ...]:
        """The headers of all bags of an op that has several, or of what it is over."""
        lists = [each for each in definition.parameters if each[1].endswith("]")]
        first = cls.of(definition)
        if len(lists) > 1 and not all(annotation.startswith("bag[") for _, annotation in lists):
            raise ReferenceFailure(f"{definition.name}: there is no op over bags and what is none")
        others = ((name, annotation[4:-1].strip()) for name, annotation in lists[1:])
        return (first, *(replace(first, parameter=n, entry=f"{n}_entry", target=picked) for n, picked in others))

    @classmethod
    def of(cls, definition: Definition) -> Header:
        """The header of an op."""
        (parameter, annotation), *others = (each for each in definition.parameters if each[1].endswith("]"))
        beside = [each for each in definition.parameters if not each[1].endswith("]")]
        kind, _, sets = annotation.rstrip("]").partition("[")
        names = [name.strip() for name in sets.split(",")]
        if kind in CALLED_FOR and len(names) == 1:
            owner = CALLED_FOR[kind]
            ids = tuple((name, (owner, index_set)) for name, index_set in beside)
            return cls(parameter, kind, owner, f"{parameter}_entry" if others else "entry", names[0], ids)
        if kind in MATRICES and len(names) >= 2:
            further = tuple((name, ("nonzero", name)) for name in names[2:])
            return cls(parameter, kind, names[0], "nonzero", names[1], further)
        raise ReferenceFailure(f"{definition.name}: there is no op over {annotation}")


class Entries:
    """The owner and the target of every entry, and its weight or value, as they are given."""

    def __init__(self, header: Header, inputs: Inputs, arithmetic: Arithmetic) -> None:
        name = {"bag": f"{header.prefix}weight"}.get(header.kind, "value")
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
            ptr, idx = f"{header.prefix}ptr", "blocks" if header.kind == "blocks" else f"{header.prefix}idx"
            self.targets = np.asarray(inputs[idx], dtype=np.int64)
            self.owners = _owners(inputs[ptr])
            sizes = {header.owner: len(inputs[ptr]) - 1}
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

    def below(self, columns: Numbers) -> tuple[Numbers, Numbers]:
        """The nonzeros of these columns, one column after another, as `at` has those of owners."""
        order, counts = np.argsort(self.targets, kind="stable"), np.bincount(self.targets, minlength=max(columns) + 1)
        starts, counts = (np.cumsum(counts) - counts)[columns], counts[columns]
        parents = np.repeat(np.arange(len(columns)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[starts[parents] + within], parents


def _owners(ptr: npt.NDArray[np.generic]) -> Numbers:
    """The owner of each entry, from where each owner's begin."""
    ends = np.asarray(ptr, dtype=np.int64)
    return np.repeat(np.arange(len(ends) - 1), np.diff(ends))


@dataclass(frozen=True)
class NamedTable(Table):
    """A tensor with the names of its index sets: an entry picks its own row or its target's, as they say."""

    over: tuple[str, ...]


class _Lists(Whole):
    """What a matrix op's parameter `A` stands for."""


class OfColumn(Element):
    """A nonzero in a loop over those of a column."""


@dataclass(frozen=True)
class BagElement(Element):
    """A bag by the name of a parameter, `a` of `a: bag of item`: whose entries a loop over it goes over."""

    entry: str


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
        headers = Header.beside(definition)
        self.header = header = headers[0]
        self.headers = {each.entry: each for each in headers}
        maps = (*definition.maps, *header.further)
        self.ends = {(sets[0], name): sets[1] for name, sets in maps}
        sets = frozenset(name for each in headers for name in (each.owner, each.entry, each.target))
        sets |= definition.sets_beside(model.sizes(sizes))
        self.maps = {name: np.asarray(inputs[name], dtype=np.int64) for name, _ in maps if name in inputs}
        super().__init__(model, definition, inputs, sizes, 1, sets, arithmetic)
        extents = dict(definition.tensors)
        self.tables = {name: NamedTable(t.data, t.sets, extents[name][: t.sets]) for name, t in self.tables.items()}
        self.lists = {each.entry: Entries(each, inputs, arithmetic) for each in headers}
        self.entries = self.lists[header.entry]
        least = {sets[1]: int(self.maps[name].max(initial=-1)) + 1 for name, sets in header.further}
        sizes_of_lists = {name: size for each in self.lists.values() for name, size in each.sizes.items()}
        self.data = GraphData({**least, **self.table_sizes, **sizes_of_lists, WHOLE: 1})

    def result(self) -> Result:
        """What the op returns, a row a bag, a row of the matrix, a nonzero, or an entry, a tuple of several."""
        scope: Scope = {**self.tables, self.header.parameter: _Lists()}
        if self.header.kind in CALLED_FOR:
            return self.called_for_each(scope)
        value = self.statements(self.definition.body, scope)
        if value is None:
            raise ReferenceFailure(f"{self.definition.name} returns nothing")
        return of_each(lambda each: self.kept(self.array(each)), value)

    def called_for_each(self, scope: Scope) -> Result:
        """The results of the body for all owners, one after another."""
        order = np.arange(self.entries.sizes[self.header.owner])
        parts: list[Result] = []
        of_entries = self._returns_entries()

        def run(ids: Numbers) -> None:
            bags: Scope = {
                each.parameter: BagElement(ids, each.owner, True, each.entry) for each in self.headers.values()
            }
            beside: Scope = {
                name: Element(self.maps[name][ids], index_set, False) for name, (_, index_set) in self.header.further
            }
            if self.definition.family == "score":  # what comes with each fact is read as a value
                for name, table in self.tables.items():
                    if isinstance(table, NamedTable) and table.over == (self.header.owner,):
                        beside[name] = self.rows_of(table, (ids,))
            value = self.statements(self.definition.body, {**scope, **beside, **bags})
            if value is None:
                raise ReferenceFailure(f"{self.definition.name} returns nothing")

            def rows_of(each: Binding, of_entries: bool) -> Array:
                part = self.kept(self.array(each))
                return spread(part, (len(part) if of_entries else len(ids), *part.shape[1:]))

            kinds = of_entries * len(value) if isinstance(value, tuple) and len(of_entries) == 1 else of_entries
            parts.append(of_each(rows_of, value, kinds if isinstance(value, tuple) else kinds[0]))

        weights = np.ones_like(order)
        for each in self.lists.values():
            weights = weights + each.counts(order)
        # What a statement has of entries must be there of all before the next one reads it of another list's.
        lists = {name for each in self.headers.values() for name in (each.entry, each.owner)}
        self.in_chunks(order, weights, run, whole=not lists.isdisjoint(self.ends.values()))
        if isinstance(parts[0], tuple):
            return tuple(joined(0, *each) for each in zip(*parts, strict=True))
        return joined(0, *parts)

    def built_in_statement(self, name: str, call: ast.Call, scope: Scope) -> None:
        """`edge_softmax(A, "s")`: exp(x) over the sum of exp over all nonzeros of its row."""
        if name != "edge_softmax" or len(call.args) != 2 or self.header.kind not in MATRICES:
            super().built_in_statement(name, call, scope)
        key: Key = (self.header.entry, self.data_name(call.args[1], scope))
        owners = np.arange(self.entries.sizes[self.header.owner])
        ids, parents = self.entries.at(owners)
        self.data.assign(key, ids, softmax_of_runs(self.data.read(key, ids), parents, len(owners)))
        self.data.end_loop()

    # Loops

    def for_each(self, statement: ast.For, scope: Scope) -> None:
        """Runs a loop over rows or nonzeros in chunks, and one over the entries of each owner at once."""
        match statement:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=of, attr=method), args=[])):
                if isinstance(self.expression(of, scope), _Lists) and method in ("rows", "nonzeros", "cols"):
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
        """`for i in A.rows()`, `for j in A.cols()` or `for z in A.nonzeros()`."""
        kind = {"rows": self.header.owner, "cols": self.header.target}.get(method, self.header.entry)
        order = np.arange(self.entries.sizes[kind])
        weights = 1 + (self.entries.counts(order) if method == "rows" else np.zeros_like(order))
        if method == "cols":
            weights = weights + np.bincount(self.entries.targets, minlength=len(order))

        def run(ids: Numbers) -> None:
            self.statements(body, {**scope, name: Element(ids, kind, True)})

        self.in_chunks(order, weights, run)
        scope[name] = Element(order, kind, True)
        for ended in self._entry_loops(body):
            scope[ended] = Element(np.arange(self.entries.sizes[self.header.entry]), self.header.entry, True)

    def _returns_entries(self) -> tuple[bool, ...]:
        """Of each that is returned whether it names data of entries; else it is one of owners, even where it is the
        same for all."""
        names = set(self._entry_loops(self.definition.body))
        (returned,) = [each.value for each in self.definition.body if isinstance(each, ast.Return) and each.value]
        parts = returned.elts if isinstance(returned, ast.Tuple) else [returned]
        return tuple(any(isinstance(node, ast.Name) and node.id in names for node in walk([part])) for part in parts)

    def _entry_loops(self, body: Iterable[ast.AST]) -> Iterable[str]:
        """The variables of the loops over entries in a loop's body, whose data may be returned behind it."""
        for node in walk(body):
            match node:
                case ast.For(target=ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_]), iter=over):
                    yield from () if is_counted(over) else (name,)

    def descend(self, target: ast.expr, over: ast.expr, body: Sequence[ast.AST], scope: Scope) -> tuple[Scope, Numbers]:
        """The scope of a loop over the entries of the rows' owners, and the row that each entry comes from."""
        match over:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="col"), args=[column]) if isinstance(
                scope.get(name), _Lists
            ):
                return self.down(target, self.expression(column, scope), body, scope)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="row"), args=[owner]) if isinstance(
                scope.get(name), _Lists
            ):
                element = self.expression(owner, scope)
            case _:
                element = self.expression(over, scope)
        if not isinstance(element, Element) or element.set != self.header.owner:
            raise ReferenceFailure(f"line {over.lineno}: {ast.unparse(over)[:80]} has no entries")
        entry = element.entry if isinstance(element, BagElement) else self.header.entry
        ids, parents = self.lists[entry].at(np.asarray(element.ids, dtype=np.int64))
        bound: Scope = {}
        match target:
            case ast.Name(id=name):
                bound[name] = Element(ids, entry, element.distinct)
            case ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=weight)]):
                bound[name] = Element(ids, entry, element.distinct)
                bound[weight] = self.weights(ids, entry)
        return {**self.inner_scope(scope, parents, bound, body), **bound}, parents

    def down(self, target: ast.expr, column: Binding, body: Sequence[ast.AST], scope: Scope) -> tuple[Scope, Numbers]:
        """The scope of a loop over the nonzeros of the rows' columns, and the row that each comes from."""
        assert isinstance(column, Element)
        ids, parents = self.entries.below(np.asarray(column.ids, dtype=np.int64))
        entry = OfColumn(ids, self.header.entry, column.distinct)
        bound: Scope = {}
        match target:
            case ast.Name(id=name):
                bound[name] = entry
            case ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=weight)]):
                bound |= {name: entry, weight: self.weights(ids, entry.set)}
        return {**self.inner_scope(scope, parents, bound, body), **bound}, parents

    def weights(self, ids: npt.NDArray[np.integer], entry: str) -> Array:
        """The weights of entries of a set, or the values of nonzeros."""
        weights = self.lists[entry].weights
        if weights is None:
            raise ReferenceFailure(f"{self.definition.name} uses weights, but none are given")
        return self.kept(pick(weights, (ids,)))

    # Expressions

    def attribute(self, element: Element, name: str) -> Binding:
        """`z.row`, `z.col`, `z.value`, where a declared map leads, or `z.x` for `x[z]`."""
        if element.set == self.header.entry and self.header.kind in MATRICES:
            by_set = {self.header.owner: "row", self.header.target: "col"}
            match name if name in ("row", "col", "value") else by_set.get(name, name):
                case "row":
                    return Element(self.entries.owners[element.ids], self.header.owner, False)
                case "col":
                    return Element(self.entries.targets[element.ids], self.header.target, False)
                case "value":
                    return self.weights(element.ids, element.set)
        if (element.set, name) in self.ends:
            return Element(self.maps[name][element.ids], self.ends[element.set, name], False)
        own = self.headers.get(element.set, self.header)
        picked = own.owner if isinstance(element, OfColumn) else own.target
        if element.set in self.headers and (picked, name) in self.ends:
            return Element(self.maps[name][self.picks(element)], self.ends[picked, name], False)
        if name in self.tables:
            return self.picked(self.tables[name], [element])
        raise ReferenceFailure(f"a {element.set} has no {name}")

    def data_of(self, element: Element, name: str) -> Array:
        """`j["y"]`: data of an entry, or else of the column, or the row, that it picks."""
        header = self.header
        if header.kind in MATRICES and element.set == header.entry and (header.entry, name) not in self.data:
            picked = header.owner if isinstance(element, OfColumn) else header.target
            element = Element(self.picks(element), picked, False)
        return super().data_of(element, name)

    def indexed(self, base: Binding, index: ast.expr, scope: Scope) -> Binding:
        """`y[q]`, of what comes with each fact, is `y`, which is a value already; all else as it is elsewhere."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        bag = scope.get(parts[0].id) if isinstance(parts[0], ast.Name) else None
        if not isinstance(bag, BagElement) or isinstance(base, Table):
            return super().indexed(base, index, scope)
        value = self.array(base)
        return super().indexed(value, ast.copy_location(ast.Tuple(parts[1:], ast.Load()), index), scope)

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
        return self.rows_of(
            table,
            tuple(
                self.picks(element) if element.set in self.headers and over != element.set else element.ids
                for element, over in zip(elements, table.over, strict=True)
            ),
        )

    def picks(self, element: Element) -> Numbers:
        """What the variable of a loop over entries picks: a column, or where a column's are gone over, a row."""
        entries = self.lists[element.set]
        ends = entries.owners if isinstance(element, OfColumn) else entries.targets
        found: Numbers = ends[element.ids]
        return found

    def numbers_of(self, element: Element) -> npt.NDArray[np.integer]:
        """Of an entry the number of what it picks."""
        return self.picks(element) if element.set in self.headers else element.ids

    def comprehension(self, function: str, node: ast.GeneratorExp, scope: Scope) -> Array:
        """`sum(w * T[i] for i, w in b)`: 0 for an owner without entries."""
        match node.generators:
            case [
                ast.comprehension(
                    target=ast.Name(id=name),
                    iter=ast.Call(func=ast.Attribute(value=of, attr="rows" | "cols" | "nonzeros" as method)),
                )
            ] if isinstance(self.expression(of, scope), _Lists):
                kind = {"rows": self.header.owner, "cols": self.header.target}.get(method, self.header.entry)
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
