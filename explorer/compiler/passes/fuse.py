"""Lowers a graph to one fused nest: everything that a triple needs is computed in one visit (cuKE §V-B).

Elements are computed where they are consumed, at the outermost loop that knows their indices. Only two kinds of value
get a row of their own: one that would else be recomputed in another loop (a product that a second sum reads), and one
that the negatives of a triple share.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.compiler.ir import graph as g
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Names, Origin, merge
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.rows import values_in_rows

REDUCTION_STARTS = {"sum": 0.0, "mean": 0.0, "norm1": 0.0, "norm2": 0.0, "max": float("-inf"), "min": float("inf")}


def fuse(graph: g.Graph, report: Report) -> loops.Kernel:
    """The graph as one kernel of template `batch`: a parallel loop over the triples, one nest in it."""
    kernel = _Fusion(graph, report).kernel()
    rows = sum(isinstance(node, loops.Row) for node in _statements(kernel.body))
    report.did(f"{len(graph.values)} values in one nest, {rows} of them in a row")
    return kernel


def _statements(body: tuple[loops.Statement, ...]) -> list[loops.Statement]:
    inner = [s for statement in body if isinstance(statement, loops.For) for s in _statements(statement.body)]
    return [*body, *inner]


@dataclass(eq=False)
class _Scope:
    """The body of a loop while it grows; `known` are the elements that it has computed already."""

    parent: _Scope | None
    variable: str
    body: list[loops.Statement] = field(default_factory=list)
    known: dict[tuple[str, tuple[Atom, ...]], Atom] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)

    def chain(self) -> list[_Scope]:
        """The scopes from the outermost to this one."""
        return [*(self.parent.chain() if self.parent else []), self]

    def add(self, statement: loops.Statement) -> None:
        """Appends a statement and remembers the name that it defines."""
        self.body.append(statement)
        name = loops.result_of(statement)
        if name is not None:
            self.defined.add(name)


class _Fusion:
    def __init__(self, graph: g.Graph, report: Report) -> None:
        self.graph = graph
        self.report = report
        self.values = {value.name: value for value in graph.values}
        self.rows_needed = values_in_rows(graph)
        self.rows: dict[str, str] = {}
        self.names = Names(self._taken())
        self.domains = {entry.name: entry.domain for entry in graph.maps}

    def _taken(self) -> set[str]:
        taken = {name for name, _ in self.graph.sizes} | {entry.name for entry in self.graph.maps}
        for tensor in self.graph.tensors:
            taken |= {tensor.name, *tensor.sets}
        return taken

    def kernel(self) -> loops.Kernel:
        """The whole nest with its buffers."""
        batch, out = self.names.new("B"), self.names.new("out")
        negatives = self.report.options.negatives
        extents: tuple[Extent, ...] = (batch,)
        top = _Scope(None, "")
        self.batch_scope = _Scope(top, self.names.new("b"))
        self.value_scope = self.batch_scope
        indices: tuple[Atom, ...] = (self.batch_scope.variable,)
        if negatives:
            extents = (batch, negatives.count)
            self.value_scope = _Scope(self.batch_scope, self.names.new("j"))
            indices = (self.batch_scope.variable, self.value_scope.variable)
        result = self.values[self.graph.result]
        atom = self.element(result, (), self.value_scope)
        store = loops.Store(target=out, indices=indices, function="copy", operands=(atom,), origin=result.origin)
        self.value_scope.add(store)
        if negatives:
            self.batch_scope.add(self._close(self.value_scope, negatives.count))
        nest = self._close(self.batch_scope, batch)
        return loops.Kernel(
            name=self.graph.name,
            template="batch",
            sizes=self.graph.sizes,
            buffers=self._buffers(batch, extents, out),
            body=(replace(nest, parallel=True),),
            origin=nest.origin,
        )

    def _buffers(self, batch: str, extents: tuple[Extent, ...], out: str) -> tuple[loops.Buffer, ...]:
        used = {value.operator.tensor for value in self.graph.values if isinstance(value.operator, g.Gather)}
        maps = {name for value in self.graph.values for name in g.indices_of(value.operator)}
        shapes: dict[str, tuple[Extent, ...]] = {"batch": (batch,), "negative": extents}
        index = [
            loops.Buffer(name=entry.name, kind="index", extents=shapes[entry.domain], origin=entry.origin)
            for entry in self.graph.maps
            if entry.name in maps
        ]
        tensors = [
            loops.Buffer(name=t.name, kind=t.kind, extents=(*t.sets, *t.dims), origin=t.origin)
            for t in self.graph.tensors
            if t.name in used
        ]
        return (*index, *tensors, loops.Buffer(name=out, kind="output", extents=extents, origin=()))

    def _close(self, scope: _Scope, extent: Extent) -> loops.For:
        origin = merge(*(statement.origin for statement in scope.body))
        return loops.For(variable=scope.variable, extent=extent, body=tuple(scope.body), origin=origin)

    def _home(self, value: g.Value) -> _Scope:
        """The scope of the value's index set: the triple's, or the negative's."""
        return self.value_scope if value.index_set == "negative" else self.batch_scope

    def _place(self, value: g.Value, indices: tuple[Atom, ...], scope: _Scope) -> _Scope:
        """The outermost scope in which the value's index set and all indices are known."""
        chain = scope.chain()
        depth = chain.index(self._home(value))
        for index in indices:
            at = [d for d, s in enumerate(chain) if index == s.variable or index in s.defined]
            depth = max([depth, *at])
        return chain[depth]

    def element(self, value: g.Value, indices: tuple[Atom, ...], scope: _Scope) -> Atom:
        """One element of a value, computed once at the outermost place that can; returns the atom that holds it."""
        if isinstance(value.operator, g.Constant):
            return value.operator.value
        place = self._place(value, indices, scope)
        for enclosing in reversed(place.chain()):
            if (value.name, indices) in enclosing.known:
                return enclosing.known[value.name, indices]
        if value.name in self.rows_needed:
            atom = self._read_row(value, indices, place)
        else:
            atom = self._compute(value, indices, place)
        place.known[value.name, indices] = atom
        return atom

    def _read_row(self, value: g.Value, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        if value.name not in self.rows:
            self.rows[value.name] = self._fill_row(value)
        result = self.names.new(self.rows[value.name])
        place.add(
            loops.Load(result=result, buffer=self.rows[value.name], indices=indices, origin=value.origin)
        )
        return result

    def _fill_row(self, value: g.Value) -> str:
        """Computes a whole value into a row at the scope of its index set; returns the row's name."""
        home = self._home(value)
        row = self.names.new("y" if isinstance(value.operator, g.Contract) else "q")
        home.add(loops.Row(name=row, extents=value.shape, origin=value.origin))
        if isinstance(value.operator, g.Concat):
            self._fill_concat(value, value.operator, row, home)
        else:
            self._fill(value, value, row, 0, home)
        return row

    def _fill_concat(self, value: g.Value, operator: g.Concat, row: str, home: _Scope) -> None:
        offset = 0
        for name in operator.operands:
            part = self.values[name]
            self._fill(value, part, row, offset, home)
            offset += self.graph.size(part.shape[-1])

    def _fill(self, value: g.Value, source: g.Value, row: str, offset: int, home: _Scope) -> None:
        """Stores every element of `source` into the row, `offset` elements along in the last dimension."""
        scopes = [home]
        for extent in source.shape:
            scopes.append(_Scope(scopes[-1], self._variable(extent)))
        inner, indices = scopes[-1], tuple(scope.variable for scope in scopes[1:])
        compute = self._compute if source is value else self.element
        atom = compute(source, indices, inner)
        target: tuple[Atom, ...] = indices
        if offset:
            target = (*indices[:-1], self._index("add", (indices[-1], offset), inner, value.origin))
        inner.add(loops.Store(target=row, indices=target, function="copy", operands=(atom,), origin=value.origin))
        for scope, extent in zip(reversed(scopes[1:]), reversed(source.shape), strict=True):
            assert scope.parent is not None
            scope.parent.add(self._close(scope, extent))

    def _variable(self, extent: Extent) -> str:
        return self.names.new(extent.lower() if isinstance(extent, str) else "i")

    def _index(self, function: str, operands: tuple[Atom, ...], scope: _Scope, origin: Origin) -> Atom:
        """Integer arithmetic, done at once where both operands are numbers."""
        left, right = operands
        if (function, right) in (("add", 0), ("mul", 1), ("div", 1)):
            return left
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "mul": left * right, "div": left // right, "mod": left % right}[function]
        result = self.names.new("n")
        scope.add(loops.Index(result=result, function=function, operands=operands, origin=origin))
        return result

    def _scalar(self, hint: str, function: str, operands: tuple[Atom, ...], place: _Scope, origin: Origin) -> str:
        result = self.names.new(hint)
        place.add(loops.Compute(result=result, function=function, operands=operands, origin=origin))
        return result

    def _compute(self, value: g.Value, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        match value.operator:
            case g.Gather() as gather:
                return self._gather(value, gather, indices, place)
            case g.Elementwise() as elementwise:
                atoms: list[Atom] = []
                for name in elementwise.operands:
                    operand = self.values[name]
                    atoms.append(self.element(operand, indices[: len(operand.shape)], place))
                if elementwise.parameter is not None:
                    atoms.append(elementwise.parameter)
                return self._scalar("u", elementwise.function, tuple(atoms), place, value.origin)
            case g.Contract() as contract:
                return self._contract(value, contract, indices, place)
            case g.Reduce() as reduce:
                return self._reduce(value, reduce, indices, place)
            case g.Transpose() as transpose:
                swapped = (*indices[:-2], indices[-1], indices[-2])
                return self.element(self.values[transpose.operand], swapped, place)
            case g.Slice() as part:
                last = self._index("add", (indices[-1], part.start), place, value.origin)
                return self.element(self.values[part.operand], (*indices[:-1], last), place)
            case g.Reshape() as reshape:
                return self._reshape(value, self.values[reshape.operand], indices, place)
        raise TypeError(f"no element of {value.operator!r}")

    def _gather(self, value: g.Value, gather: g.Gather, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        rows = tuple(self._index_load(name) for name in gather.indices)
        result = self.names.new(gather.tensor.lower())
        place.add(
            loops.Load(result=result, buffer=gather.tensor, indices=(*rows, *indices), origin=value.origin)
        )
        return result

    def _index_load(self, name: str) -> Atom:
        """`ih = h[b]`, once, at the scope of the map's domain; its origin is every gather through the map."""
        negative = self.domains[name] == "negative"
        scope = self.value_scope if negative else self.batch_scope
        key = (f"map {name}", ())
        if key not in scope.known:
            origin = merge(*(v.origin for v in self.values.values() if name in g.indices_of(v.operator)))
            result = self.names.new("i" + name)
            at = (self.batch_scope.variable, scope.variable) if negative else (scope.variable,)
            scope.add(loops.Load(result=result, buffer=name, indices=at, origin=origin))
            scope.known[key] = result
        return scope.known[key]

    def _contract(self, value: g.Value, contract: g.Contract, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        letters, _, out = contract.signature.partition("->")
        left_letters, _, right_letters = letters.partition(",")
        left, right = self.values[contract.left], self.values[contract.right]
        extents = dict(zip(left_letters + right_letters, left.shape + right.shape, strict=True))
        summed = [letter for letter in dict.fromkeys(left_letters + right_letters) if letter not in out]
        bound: dict[str, Atom] = dict(zip(out, indices, strict=True))

        def operands(inner: _Scope, bound: dict[str, Atom]) -> tuple[Atom, ...]:
            return (
                self.element(left, tuple(bound[letter] for letter in left_letters), inner),
                self.element(right, tuple(bound[letter] for letter in right_letters), inner),
            )

        if not summed:
            return self._scalar("u", "mul", operands(place, bound), place, value.origin)
        total = self.names.new("s")
        place.add(loops.Accumulator(name=total, start=0.0, origin=value.origin))
        scopes = [place]
        for letter in summed:
            scopes.append(_Scope(scopes[-1], self._variable(extents[letter])))
            bound[letter] = scopes[-1].variable
        self._accumulate(total, "sum", "mul", operands(scopes[-1], bound), scopes[-1], value.origin)
        for letter, scope in zip(reversed(summed), reversed(scopes[1:]), strict=True):
            assert scope.parent is not None
            scope.parent.add(self._close(scope, extents[letter]))
        return total

    def _accumulate(
        self, total: str, reduction: str, function: str, operands: tuple[Atom, ...], scope: _Scope, origin: Origin
    ) -> None:
        scope.add(
            loops.Accumulate(
                target=total, indices=(), reduction=reduction, function=function, operands=operands, origin=origin
            )
        )

    def _reduce(self, value: g.Value, reduce: g.Reduce, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        operand = self.values[reduce.operand]
        total = self.names.new("s")
        place.add(loops.Accumulator(name=total, start=REDUCTION_STARTS[reduce.function], origin=value.origin))
        inner = _Scope(place, self._variable(operand.shape[-1]))
        atom = self.element(operand, (*indices, inner.variable), inner)
        reduction = reduce.function if reduce.function in ("max", "min") else "sum"
        function, atoms = {"norm1": ("abs", (atom,)), "norm2": ("mul", (atom, atom))}.get(
            reduce.function, ("copy", (atom,))
        )
        self._accumulate(total, reduction, function, atoms, inner, value.origin)
        place.add(self._close(inner, operand.shape[-1]))
        if reduce.function == "mean":
            count = float(self.graph.size(operand.shape[-1]))
            return self._scalar("u", "div", (total, count), place, value.origin)
        if reduce.function == "norm2":
            return self._scalar("u", "sqrt", (total,), place, value.origin)
        return total

    def _reshape(self, value: g.Value, operand: g.Value, indices: tuple[Atom, ...], place: _Scope) -> Atom:
        """The operand's element at the same row-major position."""
        flat: Atom = 0
        for index, extent in zip(indices, value.shape, strict=True):
            scaled = self._index("mul", (flat, self.graph.size(extent)), place, value.origin)
            flat = index if scaled == 0 else self._index("add", (scaled, index), place, value.origin)
        source: list[Atom] = []
        for extent in reversed(operand.shape[1:]):
            size = self.graph.size(extent)
            source.insert(0, self._index("mod", (flat, size), place, value.origin))
            flat = self._index("div", (flat, size), place, value.origin)
        return self.element(operand, (flat, *source) if operand.shape else (), place)
