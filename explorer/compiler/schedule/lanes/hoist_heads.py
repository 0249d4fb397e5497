"""Heads outside: a nest whose rows all have a dimension of heads becomes one for each head.

Attention with heads takes, for every edge, a loop over the heads around each loop over a row. The heads do not meet
before the result, so that their loop may stand around everything that an iteration does: then a lane has to do with
one head, whose scalars it keeps, and a row on it is that of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Names, once, walk
from explorer.compiler.ir.statements import all_names, rename
from explorer.compiler.schedule.edit.common_subexpressions import computed_once
from explorer.compiler.schedule.lanes.flat_heads import flat_heads
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit, nest_of, nest_of_any
from explorer.compiler.schedule.lanes.output_rows import sums_in_rows


@once
def rows_nest(kernel: loops.Kernel) -> Nest:
    """A kernel with its sums in rows, and of one head where it has heads, of one dimension or two, as lanes can share
    it; raises Unfit, with why it has no heads where a lane cannot have its part of all rows either."""
    nest = sums_in_rows(nest_of_any(kernel))
    reasons: list[Unfit] = []
    for way in (_of_a_head, lambda whole: _of_a_head(flat_heads(whole)), _as_it_is):
        try:
            return way(nest)
        except Unfit as reason:
            reasons.append(reason)
    raise reasons[0]


def _of_a_head(nest: Nest) -> Nest:
    """The nest of one head, if it has heads."""
    moved = heads_outside(nest)
    if moved is None:
        return _as_it_is(nest)
    several = nest.kernel.size(moved[1].extent) > 1
    return replace(_as_it_is(moved[0]), heads=moved[1] if several else None)


def _as_it_is(nest: Nest) -> Nest:
    return nest_of(computed_once(nest.kernel))


def heads_outside(nest: Nest) -> tuple[Nest, loops.For] | None:
    """The nest of one head with the loop over the heads, whose body is empty; None where there are no heads.

    Raises Unfit where something is of all heads at a time."""
    rows = _outer_rows(nest)
    nested = [node for node in walk(nest.loop) if isinstance(node, loops.For) and _around_rows(nest, node)]
    segments = {id(node) for loop in nest.segment_loops for node in walk(loop)}
    extents = {node.extent for node in nested if id(node) in segments}
    if len(extents) > 1:
        extents &= {row.extents[0] for row in rows}
    if len(extents) != 1 or not rows:
        return None
    extent = extents.pop()
    if any(row.extents[0] != extent for row in rows):
        raise Unfit("not all of its rows have heads")
    return _Heads(nest, extent).moved()


def _outer_rows(nest: Nest) -> list[loops.Row]:
    """The rows of an iteration, those apart that are declared for each head."""
    heads = (node for node in walk(nest.loop) if isinstance(node, loops.For) and nest.static(node))
    own = {id(child) for loop in heads for child in walk(loop) if isinstance(child, loops.Row)}
    return [node for node in walk(nest.loop) if isinstance(node, loops.Row) and id(node) not in own]


def _around_rows(nest: Nest, loop: loops.For) -> bool:
    return nest.static(loop) and any(isinstance(child, loops.For) and nest.over_row(child) for child in loop.body)


class _Heads:
    def __init__(self, nest: Nest, extent: str | int) -> None:
        self.nest, self.extent = nest, extent
        self.names = Names(all_names(nest.kernel))
        self.variable = self.names.new("head")
        self.head: Atom = self.variable if nest.kernel.size(extent) > 1 else 0
        self.rows = {row.name: row for row in _outer_rows(nest)}
        self.scalars = {name for name, row in self.rows.items() if len(row.extents) == 1}
        writes = [node for node in walk(nest.loop) if isinstance(node, (loops.Store, loops.Accumulate))]
        stored = [node.target for node in writes if node.target in self.scalars]
        summed = {node.target for node in writes if isinstance(node, loops.Accumulate)}
        self.named = {name for name in stored if stored.count(name) == 1} - summed
        """Rows of one number a head that are no sum: scalars, once there is one head."""

    def moved(self) -> tuple[Nest, loops.For]:
        """The nest of one head, and the loop over all."""
        body = self._body(self.nest.loop.body, {})
        starts = {node.target: node for node in body if isinstance(node, loops.Store) and node.target in self.scalars}
        kept = [statement for statement in body if not any(statement is start for start in starts.values())]
        declared = tuple(self._declared(statement, starts) for statement in kept)
        loop = replace(self.nest.loop, body=declared)
        nest = Nest(replace(self.nest.kernel, body=(loop,)), loop)
        origin = self.nest.loop.origin
        return nest, loops.For(variable=self.variable, extent=self.extent, body=(), origin=origin)

    def _declared(self, statement: loops.Statement, starts: dict[str, loops.Store]) -> loops.Statement:
        """A row of one number a head as an accumulator, of the number that it starts with."""
        if isinstance(statement, loops.Row) and statement.name in self.scalars:
            start = starts.get(statement.name)
            value = start.operands[0] if start is not None and start.function == "copy" else ""
            if not isinstance(value, float):
                raise Unfit(f"{statement.name} starts with no constant")
            return loops.Accumulator(name=statement.name, start=value, origin=statement.origin)
        if isinstance(statement, loops.Store) and statement.target in self.scalars:
            raise Unfit(f"{statement.target} is stored more than once")
        return statement

    def _body(self, body: tuple[loops.Statement, ...], names: dict[str, Atom]) -> tuple[loops.Statement, ...]:
        found: list[loops.Statement] = []
        for statement in body:
            found += self._statement(statement, names)
        return tuple(found)

    def _statement(self, statement: loops.Statement, names: dict[str, Atom]) -> tuple[loops.Statement, ...]:
        match statement:
            case loops.For() if self.nest.static(statement) and statement.extent == self.extent:
                self._check_loop(statement, names)
                return self._body(statement.body, {**names, statement.variable: self.head})
            case loops.For():
                return self._flat(statement, names) or (replace(statement, body=self._body(statement.body, names)),)
            case loops.Row() if statement.name not in self.rows:
                return (statement,)
            case loops.Row() if len(statement.extents) > 1:
                return (replace(statement, extents=statement.extents[1:]),)
            case loops.Row():
                return () if statement.name in self.named else (statement,)
        # it puts atoms of any kind in the place of names
        return (self._of_head(rename(statement, cast(Mapping[str, str], names))),)

    def _check_loop(self, loop: loops.For, names: dict[str, Atom]) -> None:
        """A loop goes over heads where it is in no other of as many iterations, and sums nothing up over them."""
        if self.head in names.values():
            raise Unfit(f"the loop over {loop.variable} has as many iterations as there are heads, and is in one's")
        local = {loops.result_of(node) for node in walk(loop)}
        for node in walk(loop):
            if isinstance(node, loops.Accumulate) and not node.indices and node.target not in local:
                raise Unfit(f"{node.target} is a sum over {loop.variable}, which has as many iterations as heads")

    def _of_head(self, statement: loops.Statement) -> loops.Statement:
        """An access to a row of heads as one to that of this head."""
        match statement:
            case loops.Load() if statement.buffer in self.rows:
                self._check(statement.indices, statement)
                if statement.buffer not in self.scalars:
                    return replace(statement, indices=statement.indices[1:])
                value, origin = (statement.buffer,), statement.origin
                return loops.Compute(result=statement.result, function="copy", operands=value, origin=origin)
            case loops.Store() | loops.Accumulate() if statement.target in self.rows:
                self._check(statement.indices, statement)
                if statement.target in self.named:
                    function, values = statement.function, statement.operands
                    return loops.Compute(
                        result=statement.target, function=function, operands=values, origin=statement.origin
                    )
                return replace(statement, indices=statement.indices[1:])
        return statement

    def _check(self, indices: tuple[object, ...], statement: loops.Statement) -> None:
        if indices[:1] != (self.head,):
            raise Unfit(f"{loops.print_statement(statement)} is of all heads")

    def _flat(self, loop: loops.For, names: dict[str, Atom]) -> tuple[loops.Statement, ...]:
        """`for i in 0..64 { d = i % 16; h = i // 16; ... }` as the loop over one head's elements; empty for others."""
        splits = [node for node in loop.body if isinstance(node, loops.Index) and node.operands[:1] == (loop.variable,)]
        if sorted(node.function for node in splits) != ["div", "mod"]:
            return ()
        inner, outer = sorted(splits, key=lambda node: node.function == "div")
        length = inner.operands[1]
        sizes = self.nest.kernel
        whole = isinstance(length, int) and sizes.size(loop.extent) == length * sizes.size(self.extent)
        if not whole or outer.operands[1] != length:
            return ()
        assert isinstance(length, int)
        first, variable = self.names.new("first"), self.names.new("d")
        start = loops.Index(result=first, function="mul", operands=(self.head, length), origin=loop.origin)
        place = loops.Index(result=loop.variable, function="add", operands=(first, variable), origin=loop.origin)
        renamed = {**names, inner.result: variable, outer.result: self.head}
        rest = tuple(child for child in loop.body if child not in splits)
        body = (place, *self._body(rest, renamed))
        return start, replace(loop, variable=variable, extent=length, body=body)
