"""Questions about scheduled nests, and changes to their bodies, that the primitives and templates share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import is_not

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Tile, Where, defined_in
from explorer.compiler.ir.node import Atom, Names, Node, once

Body = tuple[Statement, ...]

Access = loops.Load | loops.Store | loops.Accumulate
NOTHING: frozenset[str] = frozenset()


class ScheduleError(Exception):
    """A primitive that is not legal where it was asked for; the message is the reason."""


def begin(kernel: loops.Kernel, body: tuple[loops.Statement, ...]) -> ScheduledKernel:
    """Statements of a kernel as a nest that nobody shares yet, every row in shared memory."""
    return ScheduledKernel(
        origin=kernel.origin,
        name=kernel.name,
        template=kernel.template,
        sizes=kernel.sizes,
        buffers=kernel.buffers,
        threads=1,
        schedule=(),
        body=tuple(_unshared(statement) for statement in body),
    )


def _unshared(statement: loops.Statement) -> Statement:
    match statement:
        case loops.For():
            return Loop(
                origin=statement.origin,
                variable=statement.variable,
                lower=statement.lower,
                extent=statement.extent,
                body=tuple(_unshared(child) for child in statement.body),
            )
        case loops.Row():
            return Tile(
                origin=statement.origin, name=statement.name, extents=statement.extents or (1,), memory="shared"
            )
    return statement


def names_of(kernel: ScheduledKernel) -> Names:
    """Allocates names that the kernel does not use."""
    buffers = {buffer.name for buffer in kernel.buffers}
    return Names(buffers.union(defined_in(kernel), loops.fixed_names(kernel.sizes, kernel.buffers)))


def _union(names: Callable[[Node], frozenset[str]], node: Node) -> frozenset[str]:
    """What is known of the statements in a node's body, together; they are asked once each."""
    return NOTHING.union(*map(names, node.body)) if isinstance(node, (Loop, Where, ScheduledKernel)) else NOTHING


@once
def loops_in(statement: Node) -> frozenset[str]:
    """The variables of the loops at and below a statement."""
    inner = _union(loops_in, statement)
    return inner | {statement.variable} if isinstance(statement, Loop) else inner


@once
def touched_in(node: Node) -> frozenset[str]:
    """The arrays of which elements are read or written at and below a node."""
    if isinstance(node, (Loop, Where, ScheduledKernel)):
        return _union(touched_in, node)
    access = access_of(node)
    return NOTHING if access is None else frozenset((array_of(access),))


def tiles_in(statement: Node) -> tuple[Tile, ...]:
    """The tiles declared at and below a statement, in program order."""
    return (statement,) if isinstance(statement, Tile) else _tiles_below(statement)


@once
def _tiles_below(statement: Node) -> tuple[Tile, ...]:
    return tuple(chain.from_iterable(map(tiles_in, statement.body))) if isinstance(statement, (Loop, Where)) else ()


def tiles_of(kernel: ScheduledKernel) -> tuple[Tile, ...]:
    """The tiles of a kernel, in program order."""
    return tuple(tile for statement in kernel.body for tile in tiles_in(statement))


def edit(body: Body, change: Callable[[Statement], Iterable[Statement]]) -> Body:
    """The body with every statement exchanged for what `change` makes of it, inner ones first; what stays as it is
    stays the same object."""
    edited: list[Statement] = []
    for statement in body:
        if isinstance(statement, (Loop, Where)):
            inner = edit(statement.body, change)
            if len(inner) != len(statement.body) or any(map(is_not, inner, statement.body)):
                statement = replace(statement, body=inner)
        edited += change(statement)
    return tuple(edited)


def edit_loop(kernel: ScheduledKernel, variable: str, change: Callable[[Loop], Statement]) -> ScheduledKernel:
    """The kernel with one loop exchanged."""

    return replace(kernel, body=edit_loops(kernel.body, frozenset((variable,)), lambda loop: (change(loop),)))


def edit_loops(body: Body, variables: frozenset[str], change: Callable[[Loop], Iterable[Statement]]) -> Body:
    """`edit` of the loops of these variables: statements that hold none of them are passed over."""
    edited: list[Statement] = []
    for statement in body:
        if not isinstance(statement, (Loop, Where)) or variables.isdisjoint(loops_in(statement)):
            edited.append(statement)
            continue
        inner = edit_loops(statement.body, variables, change)
        if len(inner) != len(statement.body) or any(map(is_not, inner, statement.body)):
            statement = replace(statement, body=inner)
        mine = isinstance(statement, Loop) and statement.variable in variables
        edited += change(statement) if mine and isinstance(statement, Loop) else (statement,)
    return tuple(edited)


def find_loop(kernel: ScheduledKernel, variable: str) -> Loop:
    """The loop of a variable; ScheduleError where there is none."""
    body, at = kernel.body, 0
    while at < len(body):
        statement = body[at]
        if isinstance(statement, (Loop, Where)) and variable in loops_in(statement):
            if isinstance(statement, Loop) and statement.variable == variable:
                return statement
            body, at = statement.body, 0
        else:
            at += 1
    raise ScheduleError(f"there is no loop {variable}")


def find_tile(kernel: ScheduledKernel, name: str) -> Tile:
    """The tile of a name; ScheduleError where there is none."""
    for tile in tiles_of(kernel):
        if tile.name == name:
            return tile
    raise ScheduleError(f"there is no tile {name}")


def scheduled(kernel: ScheduledKernel, line: str, body: Body | None = None) -> ScheduledKernel:
    """The kernel after a primitive, which leaves a line in its schedule."""
    return replace(kernel, schedule=(*kernel.schedule, line), body=kernel.body if body is None else body)


def static_extent(kernel: ScheduledKernel, extent: object) -> int | None:
    """The number that an extent or a bound stands for, where it is known when the kernel is compiled."""
    if isinstance(extent, str):
        return dict(kernel.sizes).get(extent)
    return extent if isinstance(extent, int) else None


def floats(kernel: ScheduledKernel, tile: Tile) -> int | None:
    """How many elements a tile has, where that is known."""
    product = 1
    for extent in tile.extents:
        size = static_extent(kernel, extent)
        if size is None:
            return None
        product *= size
    return product


def access_of(statement: Node) -> Access | None:
    """The statement if it reads or writes elements of a buffer or a tile; an accumulator has no elements."""
    match statement:
        case loops.Load():
            return statement
        case loops.Store() | loops.Accumulate() if statement.indices:
            return statement
    return None


def array_of(access: Access) -> str:
    """The buffer or tile whose element is read or written."""
    return access.buffer if isinstance(access, loops.Load) else access.target


def accesses(node: Node, array: str) -> list[Access]:
    """The accesses to one array at and below a node, in program order."""
    if array not in touched_in(node):
        return []
    if isinstance(node, (Loop, Where, ScheduledKernel)):
        return [access for child in node.body for access in accesses(child, array)]
    access = access_of(node)
    return [] if access is None else [access]


Place = tuple[tuple[Loop, ...], Access]
"""An access with the loops around it, outermost first."""


def places(body: Body, array: str, around: tuple[Loop, ...] = ()) -> list[Place]:
    """The accesses to an array, each with the loops around it, in program order."""
    found: list[Place] = []
    for statement in body:
        if array not in touched_in(statement):
            continue
        access = access_of(statement)
        if access is not None:
            found.append((around, access))
        if isinstance(statement, (Loop, Where)):
            inner = (*around, statement) if isinstance(statement, Loop) else around
            found += places(statement.body, array, inner)
    return found


def moved(statement: Statement, array: str, indices: tuple[Atom, ...]) -> Statement:
    """An access made to another place."""
    match statement:
        case loops.Load():
            return replace(statement, buffer=array, indices=indices)
        case loops.Store() | loops.Accumulate():
            return replace(statement, target=array, indices=indices)
    return statement
