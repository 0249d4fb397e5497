"""Staging: what the elements of a warp's piece have in arrays of their own, fetched before the first one is used.

An element's column is the address of its row, so that a row waits for two loads, one after the other, and columns come
from memory 32 bytes at a time as the warp gets to them. Here the lanes load them side by side into the warp's slice of
shared memory, and only the rows are left to wait for. G-Sparse §III-B preloads a tile of nonzeros in the same way.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.schedule.lane_groups import WARPS
from explorer.compiler.schedule.lanes import LANES
from explorer.compiler.schedule.segments import Segment
from explorer.compiler.schedule.writer import Writer

MOST_BYTES = 32 * 1024
"""Shared memory of a block: with five of them a multiprocessor still has a third of its 256 KB for its cache."""
BYTES = 4
"""Of an element of an array."""


class Staging:
    """The arrays that a segment's elements index alone, each with a tile of a warp's `chunk` elements; none where the
    tiles would take too much memory."""

    def __init__(self, segment: Segment, chunk: int, write: Writer) -> None:
        self.segment, self.chunk, self.write = segment, chunk, write
        own = (segment.loop.variable,)
        loads = (node for node in walk(segment.loop) if isinstance(node, loops.Load) and node.indices == own)
        read = {load.buffer for load in loads}
        self.arrays = tuple(buffer for buffer in segment.nest.kernel.buffers if buffer.name in read)
        if len(self.arrays) * chunk * BYTES * WARPS > MOST_BYTES:
            self.arrays = ()
        self.tiles = {array.name: write.names.new(f"{array.name}_tile") for array in self.arrays}
        self.start, self.place = write.names.new("start"), write.names.new("at")

    @property
    def kernel(self) -> loops.Kernel:
        """The kernel with the tiles as arrays."""
        kernel = self.segment.nest.kernel
        tiles = (replace(array, name=self.tiles[array.name], extents=(self.chunk,)) for array in self.arrays)
        return replace(kernel, buffers=(*kernel.buffers, *tiles))

    @property
    def loop(self) -> loops.For:
        """The loop over the segment, which reads the tiles."""
        loop = self.segment.loop
        if not self.arrays:
            return loop
        place = replace(self.write.index("", "sub", loop.variable, self.start), result=self.place)
        return replace(loop, body=(place, *(self._staged(statement) for statement in loop.body)))

    def _staged(self, statement: loops.Statement) -> loops.Statement:
        if isinstance(statement, loops.For):
            return replace(statement, body=tuple(self._staged(child) for child in statement.body))
        if not isinstance(statement, loops.Load) or statement.buffer not in self.tiles:
            return statement
        if statement.indices != (self.segment.loop.variable,):
            return statement
        return replace(statement, buffer=self.tiles[statement.buffer], indices=(self.place,))

    def fill(self, warp: str) -> tuple[kernels.Statement, ...]:
        """The tiles, filled with the elements of the warp of this number; past the end with the last one again."""
        if not self.arrays:
            return ()
        write, elements = self.write, self.segment.elements
        start = replace(write.index("", "mul", warp, self.chunk), result=self.start)
        final = write.index("final", "sub", elements, 1)
        t = write.names.new("t")
        ahead = write.index("ahead", "add", self.start, t)
        element = write.index("element", "min", ahead.result, final.result)
        loads = [write.load(f"staged_{array.name}", array.name, element.result) for array in self.arrays]
        stores = (write.store(self.tiles[load.buffer], load.result, t) for load in loads)
        each = write.loop(t, self.chunk, ahead, element, *loads, *stores, bind="lane", width=LANES)
        tiles = (
            kernels.Tile(
                name=tile,
                extents=(self.chunk,),
                memory="shared",
                type="i32" if array.type == "i32" else "f32",
                origin=write.origin,
            )
            for array, tile in zip(self.arrays, self.tiles.values(), strict=True)
        )
        filled = write.where(self.start, "<", elements, final, replace(each, unroll=0))
        return (start, *tiles, filled, kernels.Barrier(level="warp", origin=write.origin))

    @property
    def line(self) -> str:
        """What the schedule says of it, with the bound."""
        names, upto = ", ".join(self.tiles), f"min({self.start} + {self.chunk}, {self.segment.elements}) - 1"
        return f"stage {names} in shared memory, a warp's {self.chunk} together: [{self.start}, {upto}]"
