"""The primitives of a schedule: each changes one thing of a nest, says so in the kernel's schedule, or refuses.

All raise ScheduleError, with the reason, where the change would not compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from explorer.compiler.frozen import replace
from explorer.compiler.ir.kernels import (
    Count,
    Level,
    Loop,
    Memory,
    ScheduledKernel,
    Statement,
    Tile,
    Where,
)
from explorer.compiler.ir.loops import Accumulate, Compute, Index, Load, Store
from explorer.compiler.ir.node import Atom, Extent, once, walk
from explorer.compiler.schedule.edit.queries import (
    Body,
    ScheduleError,
    access_of,
    array_of,
    edit,
    edit_loop,
    find_loop,
    find_tile,
    loops_in,
    names_of,
    places,
    scheduled,
    static_extent,
    tiles_of,
)

LEVEL_ORDER: tuple[Level, ...] = ("block", "column", "warp", "lane", "thread")
VECTORS = (2, 4)


def split(kernel: ScheduledKernel, variable: str, by: int, outer: str, inner: str) -> ScheduledKernel:
    """`for b in 0..B` as `outer` around `inner` of `by` iterations, guarded where the extent may not divide."""
    loop = find_loop(kernel, variable)
    if loop.lower != 0 or loop.step != 1 or loop.bind:
        raise ScheduleError(f"{variable} starts at {loop.lower}, has the step {loop.step} or is bound already")
    if isinstance(loop.extent, Count):
        raise ScheduleError(f"the iterations of {variable} are counted, not named")
    names = names_of(kernel)
    if names.new(outer) != outer or names.new(inner) != inner:
        raise ScheduleError(f"{outer} or {inner} is the name of something else")
    size = static_extent(kernel, loop.extent)
    extent = Count(((loop.extent, by),)) if size is None else -(-size // by)
    product = names.new(f"{variable}_base")
    place: Body = (
        Index(origin=loop.origin, result=product, function="mul", operands=(outer, by)),
        Index(origin=loop.origin, result=variable, function="add", operands=(product, inner)),
    )
    body = loop.body
    if size is None or size % by:
        body = (Where(origin=loop.origin, left=variable, comparison="<", right=loop.extent, body=body),)
    inside = replace(loop, variable=inner, extent=by, body=(*place, *body))
    whole = replace(loop, variable=outer, extent=_plain(extent), body=(inside,), unroll=1)
    return scheduled(edit_loop(kernel, variable, lambda _: whole), f"split {variable} by {by} into {outer}, {inner}")


def _plain(extent: Extent | Count) -> Extent | Count:
    """A count of one undivided extent as that extent."""
    if isinstance(extent, Count) and len(extent.terms) == 1 and extent.terms[0][1] == 1:
        return extent.terms[0][0]
    return extent


def bind(kernel: ScheduledKernel, variable: str, level: Level, width: int = 0) -> ScheduledKernel:
    """The iterations of a loop shared by the members of a level, by `width` of them where it is given."""
    loop = find_loop(kernel, variable)
    if loop.bind:
        raise ScheduleError(f"{variable} is bound to {loop.bind} already")
    if isinstance(loop.extent, Count) and level != "block":
        raise ScheduleError(f"{variable} has as many iterations as are counted at run time: only blocks can share them")
    around = [node.bind for node in _around(kernel.body, variable)]
    if any(LEVEL_ORDER.index(outer) > LEVEL_ORDER.index(level) for outer in around if outer):
        raise ScheduleError(f"{variable} is inside a loop that {' and '.join(filter(None, around))} share")
    change = replace(loop, bind=level, width=width)
    members = f" of {width}" if width else ""
    return scheduled(edit_loop(kernel, variable, lambda _: change), f"bind {variable} to {level}{members}")


def _around(body: Body, variable: str) -> list[Loop]:
    """The loops around the loop of a variable, outermost first."""
    for statement in body:
        if isinstance(statement, Loop) and variable in loops_in(statement):
            return [] if statement.variable == variable else [statement, *_around(statement.body, variable)]
        if isinstance(statement, Where) and (found := _around(statement.body, variable)):
            return found
    return []


def unroll(kernel: ScheduledKernel, variable: str, times: int = 0) -> ScheduledKernel:
    """So many iterations side by side, or all of them."""
    loop = find_loop(kernel, variable)
    if times == 0 and (static_extent(kernel, loop.extent) is None or not isinstance(loop.lower, int)):
        raise ScheduleError(f"how many iterations {variable} has is known only at run time")
    line = f"unroll {variable}" + (f" by {times}" if times else "")
    return scheduled(edit_loop(kernel, variable, lambda old: replace(old, unroll=times)), line)


def vectorise(kernel: ScheduledKernel, variable: str, width: int) -> ScheduledKernel:
    """The loop in vectors of 2 or 4 elements."""
    loop = find_loop(kernel, variable)
    if reason := why_not_vector(kernel, loop, width):
        raise ScheduleError(reason)
    line = f"vectorise {variable} by {width}"
    return scheduled(edit_loop(kernel, variable, lambda old: replace(old, step=width)), line)


def why_not_vector(kernel: ScheduledKernel, loop: Loop, width: int) -> str:
    """Why a loop cannot go in vectors; empty where it can."""
    size = static_extent(kernel, loop.extent)
    if width not in VECTORS or loop.step != 1:
        return f"{loop.variable} has the step {loop.step}, and vectors are of {' or '.join(map(str, VECTORS))}"
    if size is None or not isinstance(loop.lower, int) or size % width or loop.lower % width:
        return f"the bounds {loop.lower}..{loop.extent} are not known multiples of {width}"
    lengths = row_lengths(kernel)
    vectors, places = {loop.variable}, {loop.variable}
    for statement in loop.body:
        if _is_place(statement, places, width):
            places.add(statement.result)
            vectors.add(statement.result)
        elif reason := _why_not_in_vectors(kernel, statement, vectors, places, width, lengths):
            return reason
    return ""


def _is_place(statement: Statement, places: set[str], width: int) -> TypeGuard[Index]:
    """Whether a statement shifts the places that a vector takes by whole vectors."""
    if not isinstance(statement, Index) or statement.function != "add":
        return False
    by = [operand for operand in statement.operands if operand not in places]
    return len(by) == 1 and isinstance(by[0], int) and by[0] % width == 0


@once
def row_lengths(kernel: ScheduledKernel) -> dict[str, int | None]:
    """How long the rows of each buffer and tile are, None where that is known only at run time."""
    extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
    extents |= {node.name: node.extents for node in tiles_of(kernel)}
    return {name: static_extent(kernel, extent[-1]) if extent else 1 for name, extent in extents.items()}


def _why_not_in_vectors(
    kernel: ScheduledKernel,
    statement: Statement,
    vectors: set[str],
    places: set[str],
    width: int,
    lengths: dict[str, int | None],
) -> str:
    """Why one statement cannot work on vectors, which lie at `places`; adds what it names to `vectors` where that is
    one."""
    access = access_of(statement)
    if access is not None:
        if any(index in vectors for index in access.indices[:-1]) or (access.indices[-1] in vectors - places):
            return f"{array_of(access)} is not read or written at consecutive elements"
        wide = access.indices[-1] in places
        if wide and (length := lengths.get(array_of(access))) is not None and length % width:
            return f"the rows of {array_of(access)} have {length} elements"
        if wide and lengths.get(array_of(access)) is None:
            return f"the length of the rows of {array_of(access)} is known only at run time"
    match statement:
        case Load():
            if access is not None and access.indices[-1] in places:
                vectors.add(statement.result)
                return "" if _holds_floats(kernel, statement.buffer) else f"{statement.buffer} holds indices"
            return ""
        case Compute():
            vectors |= {statement.result} if _any(statement.operands, vectors) else set()
            return f"{statement.result} is computed of an index" if _any(statement.operands, places) else ""
        case Store() | Accumulate():
            if _any(statement.operands, places):
                return f"{statement.target} is computed of an index"
            wide = bool(statement.indices) and statement.indices[-1] in places
            if isinstance(statement, Store) and not wide:
                return f"{statement.target} is stored at one element by all"
            return "" if wide or _any(statement.operands, vectors) else f"{statement.target} counts iterations"
        case Index() if not _any(statement.operands, vectors):
            return ""
    return f"there is {type(statement).__name__.lower()} in the loop"


def _holds_floats(kernel: ScheduledKernel, array: str) -> bool:
    return all(buffer.type == "f32" for buffer in kernel.buffers if buffer.name == array)


def _any(operands: tuple[Atom, ...], names: set[str]) -> bool:
    return any(operand in names for operand in operands)


def place(kernel: ScheduledKernel, tile: str, memory: Memory) -> ScheduledKernel:
    """A tile in registers or in shared memory. In registers each of its elements must be one thread's."""
    target = find_tile(kernel, tile)
    if memory == "register" and (reason := why_not_private(kernel, target)):
        raise ScheduleError(reason)

    def of(statement: Statement) -> Body:
        mine = isinstance(statement, Tile) and statement.name == tile
        return (replace(statement, memory=memory),) if mine and isinstance(statement, Tile) else (statement,)

    where = {"register": "registers", "shared": "shared memory"}[memory]
    return scheduled(kernel, f"place {tile} in {where}", edit(kernel.body, of))


def why_not_private(kernel: ScheduledKernel, tile: Tile) -> str:
    """Why the elements of a tile of one dimension are not each one lane's; empty where they are."""
    if len(tile.extents) != 1:
        return f"{tile.name} has {len(tile.extents)} dimensions"
    size, steps = static_extent(kernel, tile.extents[0]), set()
    for loop, indices in accesses_in_lanes(kernel.body, tile.name):
        if loop is None or indices != (loop.variable,):
            return f"lanes read {tile.name} from one another"
        if loop.lower != 0 or static_extent(kernel, loop.extent) != size:
            return f"a loop over {tile.name} has the bounds {loop.lower}..{loop.extent}"
        steps.add((loop.step, loop.width))
    return f"the loops over {tile.name} differ in their steps" if len(steps) > 1 else ""


def accesses_in_lanes(body: Body, array: str) -> Iterator[tuple[Loop | None, tuple[Atom, ...]]]:
    """Each access to an array: the loop around it that lanes share, if any, and the indices."""
    for around, access in places(body, array):
        yield next((loop for loop in reversed(around) if loop.bind == "lane"), None), access.indices


def bind_buffer(kernel: ScheduledKernel, variable: str, order: str) -> ScheduledKernel:
    """The iterations of a variable in the order that an index buffer of as many elements gives (G-Sparse §III-B,
    Algorithm 2): `b = order[at]`, where `b` was a loop's variable, or an index below a bound, of a loop split before.

    What balances the members of a level is a permutation that puts iterations of like work together."""
    extent = _iterations_of(kernel, variable)
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    if order not in buffers or buffers[order].extents != (extent,) or buffers[order].type != "i32":
        raise ScheduleError(f"{order} is not an index buffer of {extent} elements")
    at = names_of(kernel).new(f"{variable}_at")

    def change(statement: Statement) -> tuple[Statement, ...]:
        load = Load(origin=statement.origin, result=variable, buffer=order, indices=(at,))
        match statement:
            case Loop() if statement.variable == variable:
                return (replace(statement, variable=at, body=(load, *statement.body)),)
            case Index() if statement.result == variable:
                return (replace(statement, result=at),)
            case Where() if (statement.left, statement.comparison) == (variable, "<"):
                return (replace(statement, left=at, body=(load, *statement.body)),)
        return (statement,)

    return scheduled(replace(kernel, body=edit(kernel.body, change)), f"bind {variable} to rows by {order}")


def _iterations_of(kernel: ScheduledKernel, variable: str) -> object:
    """How many iterations a variable has: those of its loop, or those below the bound of the condition on it."""
    if not any(isinstance(node, Index) and node.result == variable for node in walk(kernel)):
        return find_loop(kernel, variable).extent
    bounds = [
        node.right
        for node in walk(kernel)
        if isinstance(node, Where) and (node.left, node.comparison) == (variable, "<")
    ]
    if len(bounds) != 1:
        raise ScheduleError(f"{variable} is not below one bound")
    return bounds[0]
