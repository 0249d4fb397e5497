"""Sums of few segments, element by element: each adds by atomics to the row of the segment that it says it is in.

    parallel for r in 0..etypes                            for z in 0..edges
      for e in etype_ptr[r]..etype_ptr[r + 1]        ->      r = etype[z]
        z = etype_order[e]                                   for f { for g { out[r, f, g] += v[z, g, f] } }
        for f { for g { out[r, f, g] += v[z, g, f] } }

For sums whose rows are too large for the registers of lanes, and that are of no outer products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.index_sets import ORDER, few
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.set_maps import holds_sorted
from explorer.compiler.ir.statements import names_read, pure, slice_for, written_names
from explorer.compiler.passes.loops.cleared import ADDS, clear_output
from explorer.compiler.schedule.edit.nests import Body, map_of, only_loop, part


def add_elements(kernel: loops.Kernel, maps: Mapping[str, Buffer], edges: str) -> tuple[loops.Kernel, ...]:
    """The kernels that clear what is summed, and the one whose iterations are elements; none for other nests. `maps`
    are by an array of where segments begin the one that says of each element in which segment it is, `edges` the end
    that a graph's edges are sorted by."""
    loop = only_loop(kernel)
    if loop is None or not few(loop.extent):
        return ()
    *scalars, segment = loop.body
    if not isinstance(segment, loops.For) or not all(map(pure, scalars)):
        return ()
    index = map_of(maps, scalars, segment)
    outputs = [buffer for buffer in kernel.buffers if buffer.kind == "output"]
    if index is None or len(outputs) != len(written_names([segment]) & {buffer.name for buffer in outputs}):
        return ()
    element, body = _element(segment, f"{index.name}{ORDER}")
    needed = slice_for(tuple(scalars), body)
    outside = {segment.lower, segment.extent, segment.variable} - {element}
    if outside & names_read((*needed, *body)) or (element == segment.variable and not holds_sorted(index, edges)):
        return ()
    row = loops.Load(result=loop.variable, buffer=index.name, indices=(element,), origin=segment.origin)
    own = (row, *needed, *body)
    elements = replace(loop, variable=element, extent=index.extents[0], body=own, parallel=False, note="")
    known = () if index in kernel.buffers else (index,)
    adding = replace(part(kernel, kernel.name, elements, *known), template=ADDS)
    return *(clear_output(kernel, buffer) for buffer in outputs), adding


def _element(segment: loops.For, order: str) -> tuple[str, Body]:
    """What tells the elements of a segment apart, and what is done for each: where one is only looked up in the order,
    what is found there."""
    for statement in segment.body:
        if isinstance(statement, loops.Load) and (statement.buffer, statement.indices) == (order, (segment.variable,)):
            rest = tuple(other for other in segment.body if other is not statement)
            if segment.variable not in names_read(rest):
                return statement.result, rest
    return segment.variable, segment.body
