"""Writes fused loop nests: elements of values where they are consumed, at the outermost loop that knows their indices.

A scope is the body of a loop while it grows. Some scopes are positions: the loop over an index set, in which the
values of that set have their row. An edge loop inside a node loop is such a position too, and knows that its edges
lead to that node: what is gathered through the same map there is the node's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.compiler.frozen import replace
from explorer.compiler.ir import graph as g
from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import CONTAINERS, SetNames, containment
from explorer.compiler.ir.node import Atom, Extent, Names, Origin, merge, serving
from explorer.compiler.ir.set_maps import THROUGH, is_sorted
from explorer.compiler.passes.loops.scope import Scope, Target, close_all, position_name

REDUCTION_STARTS = {
    **dict.fromkeys(("sum", "mean", "norm1", "norm2"), 0.0),
    **{"product": 1.0, "max": float("-inf"), "min": float("inf")},
}
AS_THEY_END = ("sum", "product")
"""What a segment without elements leaves as it begins."""


class Nest:
    """Elements of a graph's values inside one kernel. `rows` are the values that get a row of their own, `stored`
    those that have a buffer: their elements are loaded, except where this kernel computes them."""

    def __init__(
        self, graph: g.Graph, names: Names, rows: set[str], stored: dict[str, str], negatives: int = 0
    ) -> None:
        self.graph = graph
        self.sets = SetNames.of(graph)
        self.contained = negatives  # how many elements each one of a container has
        self.names = names
        self.rows_needed = rows
        self.stored = stored
        self.values = _values(graph)
        self.takers = _takers(self.values.values())
        self.maps = {entry.name: entry for entry in graph.maps}
        self.targets: dict[tuple[str, Scope], Target] = {}
        self.spans: dict[Atom, tuple[str, int, int]] = {}
        """What an index is known to be: a loop's variable, a number that is added to it, and how far the loop goes."""
        self.computing: set[str] = set()  # the stored values that this kernel computes itself

    def element(self, value: g.Value, indices: tuple[Atom, ...], scope: Scope) -> Atom:
        """One element of a value, computed once at the outermost place that can; returns the atom that holds it."""
        if isinstance(value.operator, g.Constant):
            return value.operator.value
        place = self._place(value, indices, scope)
        chain = place.chain()
        # No further out than its own position: a loop around this one may be over the same set, at another element.
        for enclosing in reversed(chain[chain.index(self._home(value, scope)) :]):
            if (value.name, indices) in enclosing.known:
                return enclosing.known[value.name, indices]
        if value.name in self.stored and value.name not in self.computing:
            atom: Atom = self._load(self.stored[value.name], self._stored_row(value, scope), indices, value, place)
        elif value.name in self.rows_needed or (value.name, self._home(value, scope)) in self.targets:
            atom = self._read_row(value, indices, place)
        else:
            atom = self._compute(value, indices, place)
        place.known[value.name, indices] = atom
        return atom

    def store(self, value: g.Value, target: Target, home: Scope) -> None:
        """Computes a whole value into a buffer at a position; what reads it in this kernel reads it there."""
        self._fill_whole(value, target, home)
        if value.shape:
            self.targets[value.name, home] = target

    def _home(self, value: g.Value, scope: Scope) -> Scope:
        """The position of the value's set; what depends on no set belongs to the outermost."""
        positions = [s for s in scope.chain() if s.index_set]
        return next((s for s in reversed(positions) if s.index_set == value.index_set), positions[0])

    def _stored_row(self, value: g.Value, scope: Scope) -> tuple[Atom, ...]:
        """Where a stored value has the row of the position that reads it; what belongs to no set has one row."""
        home = self._home(value, scope)
        return (0,) if value.index_set == "unit" and home.index_set != "unit" else home.position

    def _place(self, value: g.Value, indices: tuple[Atom, ...], scope: Scope) -> Scope:
        """The outermost scope in which the value's position and all indices are known."""
        chain = scope.chain()
        depth = chain.index(self._home(value, scope))
        for index in indices:
            at = [d for d, s in enumerate(chain) if index == s.variable or index in s.defined]
            depth = max([depth, *at])
        return chain[depth]

    # Rows

    def _read_row(self, value: g.Value, indices: tuple[Atom, ...], place: Scope) -> Atom:
        home = self._home(value, place)
        if (value.name, home) not in self.targets:
            self.targets[value.name, home] = self._fill_row(value, home)
        target = self.targets[value.name, home]
        return self._load(target.name, target.prefix, indices, value, place)

    def _load(
        self, buffer: str, position: tuple[Atom, ...], indices: tuple[Atom, ...], value: g.Value, place: Scope
    ) -> str:
        result = self.names.new(buffer.lower())
        place.add(loops.Load(result=result, buffer=buffer, indices=(*position, *indices), origin=value.origin))
        return result

    def _fill_row(self, value: g.Value, home: Scope) -> Target:
        """Computes a whole value into a row at its position."""
        computed = isinstance(value.operator, (g.Contract, g.Segment))
        target = Target(self.names.new("y" if computed else "q"))
        home.add(loops.Row(name=target.name, extents=value.shape, origin=value.origin))
        self._fill_whole(value, target, home)
        return target

    def _fill_whole(self, value: g.Value, target: Target, home: Scope) -> None:
        match value.operator:
            case g.Concat() as concat:
                offset = 0
                for name in concat.operands:
                    self._fill(value, self.values[name], target, offset, home)
                    offset += self.graph.size(self.values[name].shape[-1])
            case g.Segment() as segment if value.shape:
                self._fill_segment(value, segment, target, home)
            case _:
                self._fill(value, value, target, 0, home)

    def _fill(self, value: g.Value, source: g.Value, target: Target, offset: int, home: Scope) -> None:
        """Stores every element of `source` in the target, `offset` elements along in the last dimension."""
        scopes = self._open(source.shape, home)
        inner, indices = scopes[-1], tuple(scope.variable for scope in scopes[1:])
        compute = self._compute if source is value and value.shape else self.element
        atom = compute(source, indices, inner)
        at: tuple[Atom, ...] = indices
        if offset:
            at = (*indices[:-1], self._index("add", (indices[-1], offset), inner, value.origin))
        self._store(target, at, atom, inner, value.origin)
        close_all(scopes, source.shape)

    def _store(self, target: Target, indices: tuple[Atom, ...], atom: Atom, scope: Scope, origin: Origin) -> None:
        at = (*target.prefix, *indices)
        scope.add(loops.Store(target=target.name, indices=at, function="copy", operands=(atom,), origin=origin))

    def _open(self, shape: g.Shape, scope: Scope) -> list[Scope]:
        """Loops over a shape, one in the other; the first entry is the scope around them."""
        scopes = [scope]
        for extent in shape:
            scopes.append(Scope(scopes[-1], self._variable(extent)))
        return scopes

    def _variable(self, extent: Extent) -> str:
        variable = self.names.new(extent.lower() if isinstance(extent, str) else "i")
        self.spans[variable] = variable, 0, self.graph.size(extent)
        return variable

    # Segments

    def _fill_segment(self, value: g.Value, segment: g.Segment, target: Target, home: Scope) -> None:
        """`clear; for each element of the segment { for each column { target += ... } }`, then what empty ones need."""
        reduction = "sum" if segment.function == "mean" else segment.function
        start = REDUCTION_STARTS[segment.function]
        if start != 0.0 or not target.prefix:  # an output starts as zeros
            scopes = self._open(value.shape, home)
            at = tuple(scope.variable for scope in scopes[1:])
            self._store(target, at, start, scopes[-1], value.origin)
            close_all(scopes, value.shape)
        bounds = self._bounds(segment, home, value.origin)
        position, segments = self._segment_positions(segment, home, value.origin)
        columns = self._open(value.shape, position)
        at = tuple(scope.variable for scope in columns[1:])
        atom = self.element(self.values[segments[-1][2].operand], at, columns[-1])
        columns[-1].add(
            loops.Accumulate(
                target=target.name,
                indices=(*target.prefix, *at),
                reduction=reduction,
                function="copy",
                operands=(atom,),
                origin=value.origin,
            )
        )
        close_all(columns, value.shape)
        for loop, (lower, upper), _ in reversed(segments):
            loop.close(upper, lower)
        if segment.function not in AS_THEY_END:
            scopes = self._open(value.shape, home)
            at = tuple(scope.variable for scope in scopes[1:])
            whole = self._load(target.name, target.prefix, at, value, scopes[-1])
            ended = self._end_segment(segment, whole, bounds, scopes[-1], value.origin)
            self._store(target, at, ended, scopes[-1], value.origin)
            close_all(scopes, value.shape)

    def scatter(self, value: g.Value, target: str, home: Scope) -> None:
        """Adds the row of one element to the sum that it belongs to: `out[row[z], d] += ...`."""
        assert isinstance(value.operator, g.Segment)
        operand = self.values[value.operator.operand]
        row = self._follow(value.operator.map, replace(operand, index_set=home.index_set), home)
        columns = self._open(value.shape, home)
        at = tuple(scope.variable for scope in columns[1:])
        operands = (self.element(operand, at, columns[-1]),)
        columns[-1].add(
            loops.Accumulate(
                target=target,
                indices=(*row, *at),
                reduction="sum",
                function="copy",
                operands=operands,
                origin=value.origin,
            )
        )
        close_all(columns, value.shape)

    def _segment_scalar(self, value: g.Value, segment: g.Segment, place: Scope) -> Atom:
        reduction = "sum" if segment.function == "mean" else segment.function
        total = self.names.new("s")
        start = REDUCTION_STARTS[segment.function]
        place.add(loops.Accumulator(name=total, start=start, origin=value.origin))
        bounds = self._bounds(segment, place, value.origin)
        position, segments = self._segment_positions(segment, place, value.origin)
        atom = self.element(self.values[segments[-1][2].operand], (), position)
        self._accumulate(total, reduction, "copy", (atom,), position, value.origin)
        for loop, (lower, upper), _ in reversed(segments):
            loop.close(upper, lower)
        if segment.function in AS_THEY_END:
            return total
        return self._end_segment(segment, total, bounds, place, value.origin)

    def _end_segment(
        self, segment: g.Segment, total: Atom, bounds: tuple[Extent, Extent], place: Scope, origin: Origin
    ) -> Atom:
        """The mean of a sum, or 0 where the segment is empty."""
        function = "segment_mean" if segment.function == "mean" else "unless_empty"
        return self._scalar("u", function, (total, *bounds), place, origin)

    def _bounds(self, segment: g.Segment, place: Scope, origin: Origin) -> tuple[Extent, Extent]:
        """Where the position's segment begins and ends."""
        entry = self.maps[segment.map]
        if containment(entry):
            return 0, self.contained
        if entry.codomain == "unit":
            return 0, self.sets.counts[entry.domain]
        if segment.map not in place.bounds:
            pointers, _ = self.sets.inverses[segment.map]
            home = next(s for s in reversed(place.chain()) if s.index_set)
            (row,) = home.position
            begin, after, end = self.names.new("begin"), self.names.new("n"), self.names.new("end")
            place.add(loops.Load(result=begin, buffer=pointers, indices=(row,), origin=origin))
            place.add(loops.Index(result=after, function="add", operands=(row, 1), origin=origin))
            place.add(loops.Load(result=end, buffer=pointers, indices=(after,), origin=origin))
            place.bounds[segment.map] = begin, end
        return place.bounds[segment.map]

    def _segment_positions(
        self, segment: g.Segment, place: Scope, origin: Origin
    ) -> tuple[Scope, list[tuple[Scope, tuple[Extent, Extent], g.Segment]]]:
        """The position of a segment's elements, and its loops with their bounds, to be closed from the last on.

        A sum of sums adds what the inner ones add to, at once: so no row is needed for them."""
        loops_open = []
        while True:
            bounds = self._bounds(segment, place, origin)
            place, loop = self._segment_position(segment, place, origin)
            loops_open.append((loop, bounds, segment))
            inner = self.values[segment.operand].operator
            kept = segment.operand in self.stored or (segment.operand, place) in self.targets
            if not isinstance(inner, g.Segment) or kept or (segment.function, inner.function) != ("sum", "sum"):
                return place, loops_open
            segment = inner

    def _segment_position(self, segment: g.Segment, place: Scope, origin: Origin) -> tuple[Scope, Scope]:
        """The position of the segment's elements, and the loop to close when it is done."""
        entry = self.maps[segment.map]
        start = next(s for s in reversed(place.chain()) if s.index_set)
        hint = "j" if containment(entry) else position_name(entry.domain)
        variable = self.names.new(hint)
        loop = Scope(place, variable)
        position: Atom = variable
        if not is_sorted(entry, self.graph.edges) and entry.codomain != "unit" and not containment(entry):
            position = self.names.new(hint)
            _, order = self.sets.inverses[segment.map]
            loop.add(loops.Load(result=position, buffer=order, indices=(variable,), origin=origin))
        inner = loop
        if containment(entry):
            loop.index_set, loop.position = entry.domain, (*start.position, position)
        elif entry.domain in CONTAINERS:
            container = self._index("div", (position, self.contained), loop, origin)
            own = self._index("mod", (position, self.contained), loop, origin)
            loop.index_set, loop.position = CONTAINERS[entry.domain], (container,)
            inner = loop.also(entry.domain, (container, own))
        else:
            loop.index_set, loop.position = entry.domain, (position,)
        inner.along, inner.start = segment.map, start
        return inner, loop

    # Elements

    def _index(self, function: str, operands: tuple[Atom, ...], scope: Scope, origin: Origin) -> Atom:
        """Integer arithmetic, done at once where both operands are numbers, or the quotient is the same in a whole
        loop: that of a row's own element in a matrix, `(d + 2 * D) // D`."""
        left, right = operands
        if function in ("div", "mod") and left in self.spans and isinstance(right, int):
            variable, first, size = self.spans[left]
            quotient = first // right
            if size and quotient == (first + size - 1) // right:
                rest = first - quotient * right
                return quotient if function == "div" else self._index("add", (variable, rest), scope, origin)
        if (function, right) in (("add", 0), ("mul", 1), ("div", 1)):
            return left
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "mul": left * right, "div": left // right, "mod": left % right}[function]
        result = self.names.new("n")
        scope.add(loops.Index(result=result, function=function, operands=operands, origin=origin))
        if function == "add" and left in self.spans and isinstance(right, int):
            variable, first, size = self.spans[left]
            self.spans[result] = variable, first + right, size
        return result

    def _scalar(self, hint: str, function: str, operands: tuple[Atom, ...], place: Scope, origin: Origin) -> str:
        result = self.names.new(hint)
        place.add(loops.Compute(result=result, function=function, operands=operands, origin=origin))
        return result

    def _compute(self, value: g.Value, indices: tuple[Atom, ...], place: Scope) -> Atom:
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
            case g.Segment() as segment:
                return self._segment_scalar(value, segment, place)
            case g.Transpose() as transpose:
                swapped = (*indices[:-2], indices[-1], indices[-2])
                return self.element(self.values[transpose.operand], swapped, place)
            case g.Slice() as part:
                last = self._index("add", (indices[-1], part.start), place, value.origin)
                return self.element(self.values[part.operand], (*indices[:-1], last), place)
            case g.Repeat() as repeat:
                return self.element(self.values[repeat.operand], indices[1:], place)
            case g.Reshape() as reshape:
                return self._reshape(value, self.values[reshape.operand], indices, place)
        raise TypeError(f"no element of {value.operator!r}")

    def _gather(self, value: g.Value, gather: g.Gather, indices: tuple[Atom, ...], place: Scope) -> Atom:
        source = self.values.get(gather.tensor)
        if source is not None and (source.name not in self.stored or source.name in self.computing):
            return self.element(source, indices, place)
        buffer = gather.tensor if source is None else self.stored[source.name]
        if source is not None and source.index_set == "unit":
            return self._load(buffer, (0,), indices, value, place)
        rows = tuple(atom for path in gather.indices for atom in self._follow(path, value, place))
        return self._load(buffer, rows, indices, value, place)

    def _follow(self, path: str, value: g.Value, place: Scope) -> tuple[Atom, ...]:
        """The row to which a path of maps leads from the value's position."""
        home = self._home(value, place)
        if path == value.index_set:
            return home.position
        steps = path.split(".")
        # A map of the triple, read for one of its negatives, starts at the triple.
        home = next(s for s in reversed(home.chain()) if s.index_set == self.maps[steps[0]].domain)
        while steps and home.along and (home.along == steps[0] or self._through(home.along, steps[0])):
            steps = [*([] if home.along == steps[0] else [self._through(home.along, steps[0])]), *steps[1:]]
            assert home.start is not None
            home = home.start
        at = home.position
        for step in steps:
            key = (f"map {step}", at)
            if key not in home.known:
                result = self.names.new("i" + step)
                origin = serving(f"index {step}", "fuse", self.takers.get(step, ()))
                home.add(loops.Load(result=result, buffer=step, indices=at, origin=origin))
                home.known[key] = result
            at = (home.known[key],)
        return at

    def _through(self, along: str, end: str) -> str:
        """The map by which an edge's pair goes on to its end; "" where there is none. A score's ids may be called as
        an edge's maps are."""
        return THROUGH.get((along, end), "") if self.maps[along].domain == "edge" else ""

    def _contract(self, value: g.Value, contract: g.Contract, indices: tuple[Atom, ...], place: Scope) -> Atom:
        letters, _, out = contract.signature.partition("->")
        left_letters, _, right_letters = letters.partition(",")
        left, right = self.values[contract.left], self.values[contract.right]
        extents = dict(zip(left_letters + right_letters, left.shape + right.shape, strict=True))
        summed = [letter for letter in dict.fromkeys(left_letters + right_letters) if letter not in out]
        bound: dict[str, Atom] = dict(zip(out, indices, strict=True))
        scopes = self._open(tuple(extents[letter] for letter in summed), place)
        bound |= {letter: scope.variable for letter, scope in zip(summed, scopes[1:], strict=True)}
        if summed:
            total = self.names.new("s")
            place.add(loops.Accumulator(name=total, start=0.0, origin=value.origin))
        operands = (
            self.element(left, tuple(bound[letter] for letter in left_letters), scopes[-1]),
            self.element(right, tuple(bound[letter] for letter in right_letters), scopes[-1]),
        )
        if not summed:
            return self._scalar("u", "mul", operands, place, value.origin)
        self._accumulate(total, "sum", "mul", operands, scopes[-1], value.origin)
        close_all(scopes, tuple(extents[letter] for letter in summed))
        return total

    def _accumulate(
        self, total: str, reduction: str, function: str, operands: tuple[Atom, ...], scope: Scope, origin: Origin
    ) -> None:
        scope.add(
            loops.Accumulate(
                target=total, indices=(), reduction=reduction, function=function, operands=operands, origin=origin
            )
        )

    def _reduce(self, value: g.Value, reduce: g.Reduce, indices: tuple[Atom, ...], place: Scope) -> Atom:
        operand = self.values[reduce.operand]
        total = self.names.new("s")
        place.add(loops.Accumulator(name=total, start=REDUCTION_STARTS[reduce.function], origin=value.origin))
        inner = Scope(place, self._variable(operand.shape[-1]))
        atom = self.element(operand, (*indices, inner.variable), inner)
        reduction = reduce.function if reduce.function in ("max", "min", "product") else "sum"
        function, atoms = {"norm1": ("abs", (atom,)), "norm2": ("mul", (atom, atom))}.get(
            reduce.function, ("copy", (atom,))
        )
        self._accumulate(total, reduction, function, atoms, inner, value.origin)
        inner.close(operand.shape[-1])
        if reduce.function == "mean":
            count = float(self.graph.size(operand.shape[-1]))
            return self._scalar("u", "div", (total, count), place, value.origin)
        if reduce.function == "norm2":
            return self._scalar("u", "sqrt", (total,), place, value.origin)
        return total

    def _reshape(self, value: g.Value, operand: g.Value, indices: tuple[Atom, ...], place: Scope) -> Atom:
        """The operand's element at the same row-major position."""
        flat: Atom = 0
        for index, extent in zip(indices, value.shape, strict=True):
            scaled = self._index("mul", (flat, self.graph.size(extent)), place, value.origin)
            flat = index if scaled == 0 else self._index("add", (scaled, index), place, value.origin)
        source: list[Atom] = []
        for extent in reversed(operand.shape[1:]):
            size = self.graph.size(extent)
            source.insert(0, self._index("mod", (flat, size), place, value.origin) if size > 1 else 0)
            flat = self._index("div", (flat, size), place, value.origin)
        return self.element(operand, (flat, *source) if operand.shape else (), place)


def _values(graph: g.Graph) -> dict[str, g.Value]:
    """The values by name; constants, which have no statement of their own, contribute to those that read them."""
    constants = {value.name: value.origin for value in graph.values if isinstance(value.operator, g.Constant)}
    values = {value.name: value for value in graph.values}
    for value in graph.values if constants else ():
        if read := [constants[name] for name in g.operands(value.operator) if name in constants]:
            values[value.name] = replace(value, origin=merge(value.origin, *read))
    return values


def _takers(values: Iterable[g.Value]) -> dict[str, list[Origin]]:
    """The origins of the values that take a map, by its name."""
    found: dict[str, list[Origin]] = {}
    for value in values:
        steps = {step for path in g.indices_of(value.operator) for step in path.split(".")}
        if isinstance(value.operator, g.Segment):
            steps.add(value.operator.map)
        for step in steps:
            found.setdefault(step, []).append(value.origin)
    return found
