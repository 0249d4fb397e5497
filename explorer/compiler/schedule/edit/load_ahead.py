"""Batches: the loads of several iterations of a loop first, then what is made of them.

Unrolling alone leaves it to the assembler how many gathers are in flight, and it prefers fewer registers: three or
four. Here the loads of a batch go into registers before anything uses one of them. Past the end they are of the last
element again, since a clamped index needs no condition; what is made of those is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.kernels import reads_of
from explorer.compiler.ir.node import Atom, Names, walk
from explorer.compiler.ir.statements import rename, slice_for
from explorer.compiler.schedule.edit.statement_writer import Writer

Guard = Callable[[tuple[kernels.Statement, ...]], tuple[kernels.Statement, ...]]
"""Makes the computing part of an iteration do nothing where it is past the last one."""


@dataclass
class _Parts:
    """A loop's body in two: what loads, into tiles of a batch, and what computes, from those tiles."""

    tiles: list[kernels.Tile] = field(default_factory=list)
    loads: list[kernels.Statement] = field(default_factory=list)
    rest: list[kernels.Statement] = field(default_factory=list)


class Batch:
    """The body of a loop over `variable`, cut in two; `size` is how many iterations a batch has.

    Raises ValueError where the computing part needs more of the loading one than numbers."""

    def __init__(
        self,
        body: tuple[kernels.Statement, ...],
        variable: str,
        size: int,
        buffers: Mapping[str, loops.Buffer],
        names: Names,
    ) -> None:
        self.variable, self.size, self.buffers, self.names = variable, size, buffers, names
        self.slot, self.other = names.new("slot"), names.new("slot")
        self.place = names.new(variable)
        self.fresh: dict[str, str] = {variable: self.place}
        self.parts = _Parts()
        for statement in body:
            self._divide(statement)
        loaded = set(self.fresh) - {variable}
        rest = [node for statement in self.parts.rest for node in walk(statement)]
        if any(name in loaded for node in rest for name in reads_of(node)):
            raise ValueError("an index is used for more than loads")
        if not any(isinstance(node, kernels.Tile) and len(node.extents) > 1 for node in self.parts.tiles):
            raise ValueError("no rows are loaded")

    def _divide(self, statement: kernels.Statement) -> None:
        match statement:
            case loops.Index():
                self.parts.loads.append(self._renewed(statement))
            case loops.Load() if statement.buffer in self.buffers and self.buffers[statement.buffer].type == "i32":
                self.parts.loads.append(self._renewed(statement))
            case loops.Load() if statement.buffer in self.buffers:
                self.parts.rest.append(self._kept(statement, (), self.parts.loads))
            case kernels.Loop(bind="lane") if any(self._gathers(child) for child in statement.body):
                self._divide_loop(statement)
            case kernels.Loop() if any(self._gathers(node) for node in walk(statement)):
                raise ValueError("a loop inside the loop loads")
            case _:
                self.parts.rest.append(statement)

    def _gathers(self, node: object) -> bool:
        return isinstance(node, loops.Load) and node.buffer in self.buffers

    def _divide_loop(self, loop: kernels.Loop) -> None:
        """A loop over a row: its loads in a loop of their own."""
        variable = self.names.new(loop.variable)
        self.fresh[loop.variable] = variable
        loads: list[kernels.Statement] = []
        rest: list[kernels.Statement] = []
        places = tuple(child for child in loop.body if isinstance(child, loops.Index))
        for child in loop.body:
            if isinstance(child, loops.Load) and self._gathers(child):
                rest.append(self._kept(child, (loop,), loads))
            elif isinstance(child, loops.Index):
                loads.append(self._renewed(child))
            else:
                rest.append(child)
        rest = [*slice_for(places, tuple(rest)), *rest]
        for name in (loop.variable, *(place.result for place in places)):
            del self.fresh[name]
        self.parts.loads.append(replace(loop, variable=variable, body=tuple(loads)))
        self.parts.rest.append(replace(loop, body=tuple(rest)))

    def _renewed(self, statement: loops.Index | loops.Load) -> kernels.Statement:
        """The statement under a new name, reading new names."""
        renewed = rename(statement, self.fresh)
        self.fresh[statement.result] = self.names.new(statement.result)
        assert isinstance(renewed, (loops.Index, loops.Load))
        return replace(renewed, result=self.fresh[statement.result])

    def _kept(self, load: loops.Load, around: tuple[kernels.Loop, ...], loads: list[kernels.Statement]) -> loops.Load:
        """Adds to the loads the one into a tile; the load from there."""
        tile, result = self.names.new(f"{load.result}s"), self.names.new(load.result)
        extents = tuple(loop.extent for loop in around)
        assert all(isinstance(extent, (str, int)) for extent in extents)
        self.parts.tiles.append(
            kernels.Tile(name=tile, extents=(self.size, *extents), memory="register", origin=load.origin)  # type: ignore[arg-type]
        )
        renewed = rename(load, self.fresh)
        assert isinstance(renewed, loops.Load)
        indices = tuple(self.fresh[loop.variable] for loop in around)
        store = loops.Store(
            target=tile, indices=(self.slot, *indices), function="copy", operands=(result,), origin=load.origin
        )
        loads += [replace(renewed, result=result), store]
        return replace(load, buffer=tile, indices=(self.other, *(loop.variable for loop in around)))

    def statements(
        self, first: Atom, apart: int, last: Atom, loop: kernels.Loop, guard: Guard
    ) -> tuple[kernels.Statement, ...]:
        """The two loops over a batch whose iterations are `first`, `first + apart`, ...: in the one clamped to `last`,
        in the other guarded against what is past it."""
        write = Writer.named(self.names, loop.origin)

        def places(slot: str, result: str) -> tuple[kernels.Statement, ...]:
            if apart == 1:
                return (write.define(result, "add", first, slot),)
            offset = write.index("offset", "mul", slot, apart)
            return offset, write.define(result, "add", first, offset.result)

        ahead = self.names.new("ahead")
        clamped = (*places(self.slot, ahead), write.define(self.place, "min", ahead, last))
        computing = (*places(self.other, self.variable), *guard(tuple(self.parts.rest)))
        slots = kernels.Loop(variable=self.slot, extent=self.size, body=(), unroll=0, origin=loop.origin)
        return (
            *self.parts.tiles,
            replace(slots, body=(*clamped, *self.parts.loads)),
            replace(slots, variable=self.other, body=computing),
        )


def in_batches(
    loop: kernels.Loop, size: int, groups: int, buffers: Mapping[str, loops.Buffer], names: Names
) -> tuple[kernels.Statement, ...]:
    """A loop over a segment in batches of `size`, each iteration of the batch done by one of `groups` groups of lanes.

    Raises ValueError where its loads cannot come first."""
    batch = Batch(loop.body, loop.variable, size, buffers, names)
    assert isinstance(loop.extent, (str, int))
    extent = loop.extent

    write = Writer.named(names, loop.origin)

    def guard(body: tuple[kernels.Statement, ...]) -> tuple[kernels.Statement, ...]:
        return (write.where(loop.variable, "<", extent, *body),)

    whole = size * groups
    span = write.index("span", "sub", loop.extent, loop.lower)
    padded = write.index("padded", "add", span.result, whole - 1)
    count = write.index("batches", "div", padded.result, whole)
    last = write.index("end", "sub", loop.extent, 1)
    number = names.new("batch")
    done = write.index("done" if loop.lower else "first", "mul", number, whole)
    first = write.index("first", "add", loop.lower, done.result) if loop.lower else done
    if groups == 1:
        body = (*dict.fromkeys((done, first)), *batch.statements(first.result, 1, last.result, loop, guard))
    else:
        group = names.new("group")
        own = write.index("own", "add", first.result, group)
        steps = (own, *batch.statements(own.result, groups, last.result, loop, guard))
        body = (*dict.fromkeys((done, first)), write.loop(group, groups, *steps, bind="lane", width=groups))
    return span, padded, count, last, write.loop(number, count.result, *body)
