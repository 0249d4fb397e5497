"""Rows of memory kept in the lanes' registers: those that an iteration reads again, and those that it sums."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Tile, Where
from explorer.compiler.ir.loops import Load, Store
from explorer.compiler.ir.node import Atom, Names
from explorer.compiler.schedule.edit.queries import (
    Access,
    Body,
    ScheduleError,
    access_of,
    accesses,
    array_of,
    edit,
    edit_loops,
    moved,
    names_of,
    places,
    scheduled,
    static_extent,
)


def stage(kernel: ScheduledKernel, buffer: str, row: tuple[Atom, ...], tile: str) -> ScheduledKernel:
    """`buffer[*row, d]`, which loops that lanes share read one after another, kept in registers by the first."""
    if any(access for access in accesses_written(kernel, buffer)):
        raise ScheduleError(f"the kernel writes {buffer}")
    found = [place for place in places(kernel.body, buffer) if place[1].indices[:-1] == row]
    mine = [(around, access) for around, access in found if around and around[-1].variable == access.indices[-1]]
    loops = {around[-1].variable: around for around, _ in mine}
    if len(loops) < 2:
        raise ScheduleError(f"only one loop reads this row of {buffer}")
    (first, *outer), *others = (tuple(reversed(around)) for around in loops.values())
    size = static_extent(kernel, first.extent)
    for loop, *around in others:
        if (loop.lower, loop.extent, loop.bind, loop.step) != (0, first.extent, "lane", first.step):
            raise ScheduleError(f"{loop.variable} and {first.variable} differ in their bounds")
        if tuple(around[len(around) - len(outer) :]) != tuple(outer):
            raise ScheduleError(f"{loop.variable} does not come after {first.variable} in all cases")
    if first.lower != 0 or first.bind != "lane" or size is None:
        raise ScheduleError(f"lanes do not share {first.variable}, or its bounds are known only at run time")
    line = f"stage {buffer}[{', '.join(map(str, (*row, first.variable)))}] in registers as {tile}"
    body = edit_loops(kernel.body, frozenset(loops), lambda loop: _staged(loop, first, buffer, row, tile))
    return scheduled(kernel, line, body)


def accesses_written(kernel: ScheduledKernel, array: str) -> list[Access]:
    """The stores and sums in an array."""
    found = [access for statement in kernel.body for access in accesses(statement, array)]
    return [access for access in found if not isinstance(access, Load)]


def _staged(statement: Loop, first: Loop, buffer: str, row: tuple[Atom, ...], tile: str) -> tuple[Statement, ...]:
    wanted = (*row, statement.variable)
    body: list[Statement] = []
    stored = statement.variable != first.variable
    for child in statement.body:
        reads = isinstance(child, Load) and child.buffer == buffer and child.indices == wanted
        if reads and stored:
            child = moved(child, tile, (statement.variable,))
        body.append(child)
        if reads and not stored and isinstance(child, Load):
            stored = True
            keep = Store(
                origin=child.origin,
                target=tile,
                indices=(statement.variable,),
                function="copy",
                operands=(child.result,),
            )
            body.append(keep)
    changed = replace(statement, body=tuple(body))
    if statement.variable != first.variable:
        return (changed,)
    return (_tile(tile, first), changed)


def _tile(name: str, loop: Loop) -> Tile:
    assert isinstance(loop.extent, (str, int))
    return Tile(origin=loop.origin, name=name, extents=(loop.extent,), memory="register")


def accumulate_in(
    kernel: ScheduledKernel, output: str, row: tuple[Atom, ...], iteration: str, tile: str
) -> ScheduledKernel:
    """`output[*row, d]`, which an iteration of the loop `iteration` makes step by step, made in registers and stored
    at its end; where the last step is a store, by that."""
    found = places(kernel.body, output)
    for around, access in found:
        own = around and around[-1].bind == "lane" and access.indices == (*row, around[-1].variable)
        if not own or around[-1].lower != 0 or around[-1].extent != found[0][0][-1].extent:
            raise ScheduleError(f"{output} is not made of rows that lanes share")
    first = found[0][0][-1]
    if not isinstance(found[0][1], Store) or found[0][0][-2].variable != iteration or len(found) < 2:
        raise ScheduleError(f"{output} is not stored before it is read or summed in")
    last_loops, last = found[-1]
    only_stored = isinstance(last, Store) and last_loops[-2].variable == iteration
    names = names_of(kernel)
    if names.new(tile) != tile:
        raise ScheduleError(f"{tile} is the name of something else")

    def of(statement: Statement) -> Body:
        access = access_of(statement)
        if access is not None and array_of(access) == output and not (access is last and only_stored):
            return (moved(statement, tile, access.indices[-1:]),)
        if not isinstance(statement, Loop) or statement.variable != iteration:
            return (statement,)
        end = () if only_stored else (_store_row(output, row, tile, first, names, last),)
        return (_around_body(statement, (_tile(tile, first),), end),)

    line = f"accumulate {output}[{', '.join(map(str, (*row, first.variable)))}] in registers as {tile}"
    return scheduled(kernel, line, edit(kernel.body, of))


def _around_body(loop: Loop, before: Body, after: Body) -> Loop:
    """The loop with statements at both ends of its body, inside the index arithmetic and the guard of a split."""
    *head, last = loop.body
    if isinstance(last, Where):
        return replace(loop, body=(*head, replace(last, body=(*before, *last.body, *after))))
    return replace(loop, body=(*before, *loop.body, *after))


def _store_row(output: str, row: tuple[Atom, ...], tile: str, like: Loop, names: Names, last: Access) -> Loop:
    variable, element = names.new(like.variable), names.new(tile)
    load = Load(origin=last.origin, result=element, buffer=tile, indices=(variable,))
    store = Store(origin=last.origin, target=output, indices=(*row, variable), function="copy", operands=(element,))
    return replace(like, variable=variable, body=(load, store), origin=last.origin)
