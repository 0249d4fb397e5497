"""What splitting a nest in several kernels needs: the parts of an iteration, and the kernels that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.compiler.frozen import replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ElementType, inputs_of
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin, walk
from explorer.compiler.ir.statements import (
    is_segment,
    loop_origin,
    names_read,
    redirected,
    segment_bounds,
    written_names,
)

Body = tuple[loops.Statement, ...]


def every_loop(kernel: loops.Kernel) -> loops.For | None:
    """The loop that a kernel is, whether its iterations are independent or add up; None where it is something else."""
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    return loop if isinstance(loop, loops.For) and loop.lower == 0 else None


def only_loop(kernel: loops.Kernel) -> loops.For | None:
    """The parallel loop that a kernel is; None where it is something else."""
    loop = every_loop(kernel)
    return loop if loop is not None and loop.parallel else None


def part(kernel: loops.Kernel, name: str, loop: loops.For, *made: Buffer, origin: Origin = ()) -> loops.Kernel:
    """A part of a kernel: its buffers are those that the loop accesses, of the kernel and of what was `made` for the
    parts; outputs that others write are temporary. Its origin is that of its statements, if no other is given."""
    written = written_names([loop])
    used = written | names_read([loop])
    buffers = tuple(
        replace(buffer, kind="temporary") if buffer.kind == "output" and buffer.name not in written else buffer
        for buffer in (*kernel.buffers, *made)
        if buffer.name in used
    )
    origin = origin or loop_origin(loop.body, loop.extent, rows=True)
    return replace(kernel, name=name, buffers=buffers, body=(replace(loop, origin=origin),), origin=origin)


def array_of_each(kernel: loops.Kernel, statement: loops.Statement, extent: Extent, names: Names) -> Buffer:
    """An array for what a statement of a kernel's iteration names, a row, an accumulator or another scalar: for that of
    each of so many iterations."""
    name = names.new(f"{kernel.name}_{loops.result_of(statement)}")
    extents = statement.extents if isinstance(statement, loops.Row) else ()
    return Buffer(name=name, kind="output", extents=(extent, *extents), origin=statement.origin)


def loaded(arrays: Mapping[str, Buffer], index: str) -> tuple[loops.Load, ...]:
    """Loads of one's number, by its name, from each of the arrays that have one for each iteration."""
    return tuple(
        loops.Load(result=name, buffer=array.name, indices=(index,), origin=array.origin)
        for name, array in arrays.items()
        if len(array.extents) == 1
    )


def stored_in(statement: loops.Statement, name: str, buffer: str, row: str) -> loops.Statement:
    """A statement that accesses a row where it is stored: at `buffer[row, ...]`."""
    return all_stored_in(statement, {name: buffer}, row)


def all_stored_in(statement: loops.Statement, buffers: Mapping[str, str], row: str) -> loops.Statement:
    """A statement that accesses rows where they are stored: each in its own of `buffers`, at `buffer[row, ...]`."""
    return redirected(statement, buffers, lambda indices: (row, *indices))


def kept_in(statement: loops.Statement, rows: Mapping[str, str]) -> loops.Statement:
    """A statement that accesses `row[...]` where it accessed a row of a buffer, of `rows` by buffer: `stored_in`
    undone."""
    return redirected(statement, rows, lambda indices: indices[1:])


def multiplies(statement: loops.Statement, outer: str = "") -> bool:
    """Whether a statement computes a product of a row and a matrix: a loop in the loop `outer` adds up, for one of the
    two, products of an element of both and of something that is not of both."""
    if not isinstance(statement, loops.For):
        return False
    if any(multiplies(child, statement.variable) for child in statement.body):
        return True
    both = {outer, statement.variable}
    matrix = {s.result for s in statement.body if isinstance(s, loops.Load) and both <= set(s.indices)}
    local = {s.name for s in statement.body if isinstance(s, loops.Accumulator)}
    return any(
        isinstance(s, loops.Accumulate)
        and (s.reduction, s.function) == ("sum", "mul")
        and s.target not in local
        and not both <= set(s.indices)
        and len(matrix & set(s.operands)) == 1
        for s in statement.body
    )


def is_deep(kernel: loops.Kernel, body: Body) -> bool:
    """Whether statements for each element of a segment take a loop over a segment of their own, or a product with a
    matrix."""
    inner = [node for statement in body for node in walk(statement)]
    return any(isinstance(node, loops.For) and is_segment(kernel, node) for node in inner) or any(map(multiplies, body))


def static_loop(kernel: loops.Kernel, statement: loops.Statement) -> bool:
    """Whether a statement is a loop from 0 to an extent that is known when the kernel is compiled."""
    sizes = dict(kernel.sizes)
    return (
        isinstance(statement, loops.For)
        and statement.lower == 0
        and (isinstance(statement.extent, int) or statement.extent in sizes)
    )


def offsets_of(scalars: Iterable[loops.Statement], segment: loops.For, row: str) -> str | None:
    """The array of where segments begin, if the segment of a row lies between `ptr[row]` and `ptr[row + 1]`, as these
    scalars say: "" where it is another row's, None where it has no offsets."""
    found = segment_bounds(segment, {name: s for s in scalars if (name := loops.result_of(s)) is not None})
    return found and (found[0] if found[1] == row else "")


def map_of(maps: Mapping[str, Buffer], scalars: Iterable[loops.Statement], segment: loops.For) -> Buffer | None:
    """The array that says of each element in which segment it is, of `maps` by that of where segments begin; None where
    the segment begins elsewhere."""
    begin = next((s for s in scalars if loops.result_of(s) == segment.lower), None)
    return maps.get(begin.buffer) if isinstance(begin, loops.Load) else None


def first_extents(kernel: loops.Kernel, body: Body, index: str) -> set[Extent]:
    """The lengths of the arrays that an index is the first of, but for those of where segments begin, which are read
    at the next index too and have one element more."""
    extents = {buffer.name: buffer.extents[0] for buffer in kernel.buffers if buffer.extents}
    nodes = [node for statement in body for node in walk(statement)]
    following = {
        n.result for n in nodes if isinstance(n, loops.Index) and (n.function, n.operands) == ("add", (index, 1))
    }
    loads = [node for node in nodes if isinstance(node, loops.Load) and node.buffer in extents]
    offsets = {load.buffer for load in loads if following & set(load.indices)}
    return {extents[load.buffer] for load in loads if load.indices[:1] == (index,) and load.buffer not in offsets}


def only_adds(body: Iterable[loops.Statement], target: str, row: str = "") -> bool:
    """Whether all that statements do with a target is to sum in it; in its `row`, where one is given."""
    nodes = [node for statement in body for node in walk(statement)]
    writes = [n for n in nodes if isinstance(n, (loops.Store, loops.Accumulate)) and n.target == target]
    return target not in {name for node in nodes for name in inputs_of(node)} and all(
        isinstance(n, loops.Accumulate) and n.reduction == "sum" and (not row or n.indices[:1] == (row,))
        for n in writes
    )


def clears(kernel: loops.Kernel, statement: loops.Statement, name: str) -> bool:
    """Whether a statement sets all of a row to 0, and does nothing else."""
    while isinstance(statement, loops.For) and static_loop(kernel, statement) and len(statement.body) == 1:
        (statement,) = statement.body
    return isinstance(statement, loops.Store) and (statement.target, statement.operands) == (name, (0.0,))


def element_type(kernel: loops.Kernel, scalar: loops.Statement) -> ElementType:
    """What a tile holds for a scalar of a kernel: an index, or a number."""
    indices = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"}
    of_index = isinstance(scalar, loops.Load) and scalar.buffer in indices
    return "i32" if of_index or isinstance(scalar, loops.Index) else "f32"
