"""Heads of two dimensions as heads of one, so that they can be outside of what an iteration does for each.

for g in 0..2                       for h in 0..6
  for m in 0..3              ->       g = h // 3; m = h % 3
    y[g, m] += v[g, m]                y[h] += v[g, m]
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent, Names
from explorer.compiler.ir.statements import all_names, names_read
from explorer.compiler.schedule.edit.nests import Body
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit


def flat_heads(nest: Nest) -> Nest:
    """The nest with one dimension for the first two of all of its rows; raises Unfit where not all have the same, or
    they are gone through otherwise than together."""
    rows = {s.name: s for s in nest.loop.body if isinstance(s, loops.Row)}
    first = {row.extents[:2] for row in rows.values()}
    if len(first) != 1 or len(next(iter(first))) != 2:
        raise Unfit("its rows have no two dimensions of heads")
    outer, inner = first.pop()
    flat = _Flat(nest, rows, (outer, inner), Names(all_names(nest.kernel)))
    loop = replace(nest.loop, body=flat.body(nest.loop.body, ("", "", "")))
    return Nest(replace(nest.kernel, body=(loop,)), loop)


@dataclass(frozen=True)
class _Flat:
    nest: Nest
    rows: dict[str, loops.Row]
    extents: tuple[Extent, Extent]
    names: Names

    def body(self, body: Body, at: tuple[str, str, str]) -> Body:
        """Statements inside the loops of two variables, which are now one."""
        return tuple(each for statement in body for each in self._statement(statement, at))

    def _statement(self, statement: loops.Statement, at: tuple[str, str, str]) -> Body:
        match statement:
            case loops.For(body=(loops.For() as inner,)) if (statement.extent, inner.extent) == self.extents:
                return (self._both(statement, inner),)
            case loops.For():
                return (replace(statement, body=self.body(statement.body, at)),)
            case loops.Row() if statement.name in self.rows:
                return (replace(statement, extents=(self._size(), *statement.extents[2:])),)
            case loops.Load() if statement.buffer in self.rows:
                return (replace(statement, indices=self._place(statement, at)),)
            case loops.Store() | loops.Accumulate() if statement.target in self.rows:
                return (replace(statement, indices=self._place(statement, at)),)
        return (statement,)

    def _both(self, outer: loops.For, inner: loops.For) -> loops.For:
        """The two loops as one."""
        head, width, origin = self.names.new("h"), self.nest.kernel.size(self.extents[1]), inner.origin
        body = self.body(inner.body, (outer.variable, inner.variable, head))
        places = (
            loops.Index(result=outer.variable, function="div", operands=(head, width), origin=origin),
            loops.Index(result=inner.variable, function="mod", operands=(head, width), origin=origin),
        )
        read = names_read(body)
        used = tuple(place for place in places if place.result in read)
        return replace(inner, variable=head, extent=self._size(), body=(*used, *body))

    def _size(self) -> int:
        outer, inner = self.extents
        return self.nest.kernel.size(outer) * self.nest.kernel.size(inner)

    def _place(
        self, statement: loops.Load | loops.Store | loops.Accumulate, at: tuple[str, str, str]
    ) -> tuple[Atom, ...]:
        *variables, head = at
        if not head or list(statement.indices[:2]) != variables:
            raise Unfit(f"{loops.print_statement(statement)} is not of the heads around it")
        return (head, *statement.indices[2:])
