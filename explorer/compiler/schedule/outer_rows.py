"""Splits sums of outer products whose rows are computed first: the rows, all at once, and then the products of each.

A segment may have thousands of rows, and there may be one segment: rows are computed for all segments together."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Names, merge, walk
from explorer.compiler.passes.statements import pure, slice_for
from explorer.compiler.schedule.outer_sums import segments_of
from explorer.compiler.schedule.steps import arrays_of
from explorer.compiler.schedule.writer import Writer


def split_rows(kernel: loops.Kernel, names: Names) -> tuple[loops.Kernel, ...]:
    """For each loop over the rows of segments, the kernel of its rows and that of its sums; none for other kernels."""
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(loop, loops.For) or not loop.parallel:
        return ()
    bounds, rest = loop.body[:3], loop.body[3:]
    over = [statement for statement in rest if isinstance(statement, loops.For)]
    scalars = tuple(statement for statement in rest if pure(statement))
    if not over or len(over) + len(scalars) < len(rest) or not all(pure(bound) for bound in bounds):
        return ()
    made: list[loops.Kernel] = []
    for at, row in enumerate(over):
        parts = _split(kernel, replace(loop, body=(*bounds, row)), scalars, names, at)
        if not parts:
            return ()
        made += parts
    return tuple(made)


def _split(
    kernel: loops.Kernel, loop: loops.For, scalars: tuple[loops.Statement, ...], names: Names, at: int
) -> tuple[loops.Kernel, ...]:
    *bounds, row = loop.body
    assert isinstance(row, loops.For)
    segments = segments_of(kernel, loop, tuple(bounds), row)
    *before, nest = row.body
    if segments is None or not isinstance(nest, loops.For):
        return ()
    read = {name for node in walk(nest) for name in arrays_of(node)}
    tiles = [s for s in before if isinstance(s, loops.Row) and s.name in read]
    if len(tiles) != 1:
        return ()
    (tile,) = tiles
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    named = {name for s in before for node in walk(s) for name in (*loops.reads_of(node), *arrays_of(node))}
    if (outputs | {loop.variable}) & named or any(tile.name in arrays_of(n) for n in walk(nest) if _writes(n)):
        return ()
    used = tuple(slice_for(tuple(s for s in before if pure(s)), (nest,)))
    used = (*slice_for(scalars, (*used, nest)), *used)
    computed = {loops.result_of(node) for s in before if not pure(s) for node in walk(s)} - {tile.name}
    if any(computed & set(loops.reads_of(node)) for s in (*used, nest) for node in walk(s)):
        return ()
    made = Buffer(name=names.new("rows"), kind="output", extents=(segments[0], *tile.extents), origin=tile.origin)
    writer = Writer(kernel, tile.origin)
    variables = writer.over(tile.extents)
    load = writer.load("y", tile.name, *variables)
    stored = writer.nested(
        variables, tile.extents, (load, writer.store(made.name, load.result, row.variable, *variables))
    )
    head = tuple(slice_for(scalars, tuple(before)))
    rows = replace(row, lower=0, extent=segments[0], parallel=True, body=(*head, *before, *stored))
    sums = replace(
        loop, body=(*bounds, replace(row, body=(*used, _redirected(nest, tile.name, made.name, row.variable))))
    )
    return (
        _kernel(kernel, f"{kernel.name}_rows{at}", rows, made),
        _kernel(kernel, f"{kernel.name}_sums{at}", sums, made),
    )


def _writes(node: object) -> bool:
    return isinstance(node, loops.Store | loops.Accumulate)


def _redirected(nest: loops.For, tile: str, rows: str, row: str) -> loops.For:
    """A nest that reads the tile from the row's place among all rows."""
    body: list[loops.Statement] = []
    for statement in nest.body:
        if isinstance(statement, loops.For):
            statement = _redirected(statement, tile, rows, row)
        elif isinstance(statement, loops.Load) and statement.buffer == tile:
            statement = replace(statement, buffer=rows, indices=(row, *statement.indices))
        body.append(statement)
    return replace(nest, body=tuple(body))


def _kernel(kernel: loops.Kernel, name: str, loop: loops.For, made: Buffer) -> loops.Kernel:
    """A part of a kernel, with the buffers that it uses."""
    used = {name for node in walk(loop) for name in arrays_of(node)}
    written = {node.target for node in walk(loop) if isinstance(node, loops.Store | loops.Accumulate)}
    buffers = tuple(
        replace(buffer, kind="temporary") if buffer is made and made.name not in written else buffer
        for buffer in (*kernel.buffers, made)
        if buffer.name in used
    )
    return replace(kernel, name=name, buffers=buffers, body=(loop,), origin=merge(*(s.origin for s in loop.body)))
