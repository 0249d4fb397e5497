"""Another encoding of what elements ascend by: a graph's destinations, a matrix's rows (PIGEON §3.3.5).

A map that its domain is sorted by need not be there for each element (COO): where each segment begins says as much
(CSC of a graph whose edges are sorted by destination, CSR of one by source, or of a matrix), and is searched by halves
for an element.

    idst = dst[e]                           index idst = last dst_ptr[0..nodes] <= e

Where a program has not read where segments begin, an inspector finds that once for a graph, from the map.

Source: PIGEON §3.3.5, GetSrcId and GetDstId as subscripts of COO or binary searches of CSR, and §3.6, its conversions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.bounds.lookups import lookups_of
from explorer.compiler.ir.index_sets import STARTS
from explorer.compiler.ir.kernels import Count, ScheduledKernel, Search, Statement, vector_indices
from explorer.compiler.ir.node import Extent, Names, made, walk
from explorer.compiler.ir.set_maps import holds_sorted
from explorer.compiler.report import Report
from explorer.compiler.schedule.edit.queries import Body, edit
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.inspection import Inspection
from explorer.compiler.target import BLOCK_THREADS

FORMS = {"dst": "GetDstId of CSC", "src": "GetSrcId of CSR", "row": "GetSrcId of CSR"}
"""What PIGEON calls the search for an element of a map, and the encoding."""


class Compression:
    """The maps that a module's kernels find by searches, and the arrays of where their segments begin."""

    def __init__(self, nests: Sequence[loops.Kernel], names: Names, report: Report) -> None:
        self.names, self.report = names, report
        arrays = {buffer.name: buffer for nest in nests for buffer in nest.buffers if buffer.kind == "index"}
        self.sorted = {name: array for name, array in arrays.items() if holds_sorted(array, report.options.edges)}
        self.starts = {name: arrays[f"{name}{STARTS}"] for name in self.sorted if f"{name}{STARTS}" in arrays}
        looked = [lookup for nest in nests for lookup in lookups_of(nest)]
        self.segments: dict[str, Extent] = {  # by map the extent of what it leads to
            lookup.index: lookup.extent
            for lookup in looked
            if not lookup.exclusive and (lookup.every, lookup.after) == (1, 0)
        }

    def encoded(self, kernels: tuple[ScheduledKernel, ...]) -> tuple[ScheduledKernel, ...]:
        """A nest's kernels as the option `encoding` wants them: with searches in the place of loads, behind those that
        find where segments begin, as far as no kernel has found that before."""
        found: list[ScheduledKernel] = []
        for kernel in kernels:
            maps = self._read(kernel)
            if not maps or self.report.option("encoding") != "compressed":
                found.append(kernel)
                continue
            found += [self._conversion(kernel, name) for name in maps if name not in self.starts]
            found.append(self._searching(kernel, maps))
        return tuple(found)

    def _read(self, kernel: ScheduledKernel) -> list[str]:
        """The maps that a kernel reads elements of, each by itself, where it has the extent of what they lead to, and
        has the number of elements from something else: a kernel that only counts them has the map alone."""
        buffers = {buffer.name for buffer in kernel.buffers} & self.sorted.keys()
        if kernel.template == "inspector" or not buffers:
            return []
        extents = {extent for buffer in kernel.buffers for extent in buffer.extents}
        others = {extent for buffer in kernel.buffers if buffer.name not in buffers for extent in buffer.extents}
        others |= {part for _, count in kernel.counts for part in count.names}
        wide = vector_indices(kernel)
        loads = {n.buffer for n in walk(kernel) if type(n) is loops.Load and wide.keys().isdisjoint(n.indices)}
        return [
            name
            for name, array in self.sorted.items()
            if name in buffers & loads and self.segments.get(name) in extents and others.issuperset(array.extents)
        ]

    def _conversion(self, kernel: ScheduledKernel, name: str) -> ScheduledKernel:
        """The kernel that finds where the segments of a map begin: behind all elements of those before."""
        array, segments = self.sorted[name], self.segments[name]
        origin = made(f"where the segments of {name} begin", "schedule", kernel.origin)
        ends = self.names.new(f"{name}_ends")
        starts = loops.Buffer(name=self.names.new(f"{name}{STARTS}"), kind="index", extents=(ends,), origin=origin)
        (elements,) = array.extents
        count = ends, Count(((segments, 1), (1, 1)))
        inspection = Inspection(kernel.name, (array,), {"starts": starts}, (count,), once=True, origin=origin)
        steps = inspection.steps(segments)
        with (
            steps.loop("block", Count(((ends, BLOCK_THREADS),)), "block") as block,
            steps.loop("t", BLOCK_THREADS, "thread") as thread,
        ):
            place = steps.index("n", "add", steps.index("first", "mul", block, BLOCK_THREADS), thread)
            with steps.where(place, "<", ends):
                before = steps.index("before", "sub", place, 1)
                last = steps.search("last", name, before, elements)
                steps.store(starts.name, [place], steps.index("begin", "add", last, 1))
        steps.know(facts.of_starts(starts.name, elements))
        self.starts[name] = starts
        line = f"search {name} for where each segment begins: {FORMS.get(name, 'compressed')}, once"
        return inspection.kernel("compress", steps, BLOCK_THREADS, line)

    def _searching(self, kernel: ScheduledKernel, maps: Sequence[str]) -> ScheduledKernel:
        """A kernel with searches for the elements of maps."""
        wide = vector_indices(kernel)

        def search(statement: Statement) -> Body:
            if type(statement) is not loops.Load or statement.buffer not in maps or statement.indices[0] in wide:
                return (statement,)
            starts, segments = self.starts[statement.buffer], self.segments[statement.buffer]
            (place,) = statement.indices
            searching = Search(
                result=statement.result,
                buffer=starts.name,
                value=place,
                lower=0,
                upper=segments,
                origin=statement.origin,
            )
            return (searching,)

        body = edit(kernel.body, search)
        changed = replace(kernel, body=body)
        read = {node.buffer for node in walk(changed) if isinstance(node, (loops.Load, Search))}
        given = dict.fromkeys((*kernel.buffers, *(self.starts[name] for name in maps)))
        lines = (f"{name} by a search of {self.starts[name].name}: {FORMS.get(name, 'compressed')}" for name in maps)
        return replace(
            changed,
            buffers=tuple(buffer for buffer in given if buffer.name not in maps or buffer.name in read),
            streamed=tuple(name for name in kernel.streamed if name not in maps or name in read),
            schedule=(*kernel.schedule, *lines),
        )
