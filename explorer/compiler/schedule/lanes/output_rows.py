"""Sums in rows: what a nest adds to an output goes into a row of its own, and to memory once, when it is complete."""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, Node, merge, walk
from explorer.compiler.ir.statements import all_names
from explorer.compiler.schedule.edit.nests import kept_in
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import Nest, Unfit

Access = loops.Load | loops.Store | loops.Accumulate


def sums_in_rows(nest: Nest) -> Nest:
    """The nest with a row for each output that it adds to or reads again; raises Unfit.

    An output starts as zeros in the loops, and so does the row where the nest does not fill it itself."""
    touched = {loops.array_of(node) for node in walk(nest.loop) if not isinstance(node, loops.Store)}
    names = Names(all_names(nest.kernel))
    for buffer in nest.kernel.buffers:
        if buffer.kind == "output" and buffer.name in touched:
            nest = output_in_row(nest, buffer, names)
    return nest


def _accesses(nest: Nest, buffer: loops.Buffer) -> list[Node]:
    return [node for node in walk(nest.loop) if loops.array_of(node) == buffer.name]


def output_in_row(nest: Nest, buffer: loops.Buffer, names: Names) -> Nest:
    """The nest with a row, or an accumulator, for an output, of new `names`; raises Unfit."""
    kernel, loop, accesses = nest.kernel, nest.loop, _accesses(nest, buffer)
    extents = buffer.extents[1:]
    own = all(isinstance(node, Access) and node.indices[:1] == (loop.variable,) for node in accesses)
    if own and not extents and all(isinstance(node, loops.Accumulate) for node in accesses):
        return _in_scalar(nest, buffer, accesses, names)
    if not extents or not own or any(isinstance(e, str) and e not in dict(kernel.sizes) for e in extents):
        raise Unfit(f"it goes back to elements of {buffer.name} that no row holds")
    write = Writer.named(names, merge(*(node.origin for node in accesses)))
    row = names.new("y")
    changed = tuple(kept_in(statement, buffer.name, row) for statement in loop.body)
    declared: list[loops.Statement] = [loops.Row(name=row, extents=extents, origin=write.origin)]
    if not _fills_first(nest, buffer.name):
        declared += write.cleared(row, extents)
    stored = write.stored(row, extents, row, buffer.name, loop.variable)
    nested = replace(loop, body=(*declared, *changed, *stored))
    return Nest(replace(kernel, body=(nested,)), nested)


def _in_scalar(nest: Nest, buffer: loops.Buffer, accesses: list[Node], names: Names) -> Nest:
    """The nest with an accumulator for an output of one number an iteration, which it only adds to."""
    loop, origin = nest.loop, merge(*(node.origin for node in accesses))
    total = loops.Accumulator(name=names.new("s"), start=0.0, origin=origin)
    changed = tuple(kept_in(statement, buffer.name, total.name) for statement in loop.body)
    stored = loops.Store(
        target=buffer.name, indices=(loop.variable,), function="copy", operands=(total.name,), origin=origin
    )
    nested = replace(loop, body=(total, *changed, stored))
    return Nest(replace(nest.kernel, body=(nested,)), nested)


def _fills_first(nest: Nest, buffer: str) -> bool:
    """Whether the nest stores all of its row before it does anything else with it."""
    for statement in nest.loop.body:
        found = [node for node in walk(statement) if loops.array_of(node) == buffer]
        if found:
            return isinstance(found[0], loops.Store) and isinstance(statement, loops.For) and nest.static(statement)
    return False
