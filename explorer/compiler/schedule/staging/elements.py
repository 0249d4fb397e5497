"""Staging: what the elements of a warp's piece need of arrays, fetched before the first one is used.

An element's column is the address of its row, so that a row waits for two loads, one after the other, and columns come
from memory 32 bytes at a time as the warp gets to them. Where the column is found through an order, or an edge has a
weight that is computed from its ends, a row waits for more of them, and all lanes of a row compute the weight alike.
Here each lane looks up and computes what other elements than its own need as well, into the warp's slice of shared
memory, and only the rows are left to wait for. G-Sparse §III-B preloads a tile of nonzeros in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.frozen import replace
from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.statements import names_read, rename, slice_for
from explorer.compiler.schedule.edit.nests import element_type
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.mapping import LANES
from explorer.compiler.schedule.lanes.state import Segment
from explorer.compiler.schedule.staging.tiles import Scalar, ScalarTiles
from explorer.compiler.target import FLOAT_BYTES

BOTH, INDICES, VALUES = STAGED = ("both", "indices", "values")
"""What of elements is fetched into shared memory (G-Sparse §III-D: two switches of its search space)."""
MOST_BYTES = 32 * 1024
"""Shared memory of a block: with five of them a multiprocessor still has a third of its 256 KB for its cache."""


class Staging:
    """The scalars of a segment's elements that nothing but the element is needed for, those that others are made of
    first; each that more than such scalars read has a tile of `chunk` elements for each of a block's `warps`. There are
    fewer, or none, where the tiles would take too much memory. What is `staged` may be indices alone, or values alone;
    what these are made of is then looked up again where it is read."""

    def __init__(self, segment: Segment, chunk: int, write: Writer, warps: int, staged: str = BOTH) -> None:
        self.segment, self.chunk, self.write = segment, chunk, write
        self.constants = tuple(
            s
            for s in segment.before
            if isinstance(s, loops.Compute) and not any(isinstance(operand, str) for operand in s.operands)
        )
        self.scalars: tuple[Scalar, ...] = ()  # those that the tiles are filled by
        self.taken: tuple[Scalar, ...] = ()  # those that the segment's loop no longer has
        self.kept: tuple[Scalar, ...] = ()
        for scalars in (self._closed(), self._direct()):
            taken = tuple(each for each in scalars if staged in (BOTH, self._kind(each)))
            kept = self._read_outside(taken)
            if len(kept) * chunk * FLOAT_BYTES * warps <= MOST_BYTES:
                self.scalars, self.taken, self.kept = self._with_sources(scalars, taken), taken, kept
                break
        names = {each.result: write.names.new(f"{_hint(each)}_tile") for each in self.kept}
        self.tiles = ScalarTiles(segment.nest.kernel, self.kept, names, chunk)
        self.start, self.place = write.names.new("start"), write.names.new("at")

    def _closed(self) -> tuple[Scalar, ...]:
        """The scalars of an element that are computed from arrays, its number and one another alone."""
        given = {buffer.name for buffer in self.segment.nest.kernel.buffers if buffer.kind != "output"}
        known, found = {self.segment.loop.variable, *(each.result for each in self.constants)}, list[Scalar]()
        for statement in self.segment.loop.body:
            match statement:
                case loops.Load() if statement.buffer in given:
                    atoms = statement.indices
                case loops.Index() | loops.Compute():
                    atoms = statement.operands
                case _:
                    continue
            names = {atom for atom in atoms if isinstance(atom, str)}
            if names and names <= known:
                known.add(statement.result)
                found.append(statement)
        return tuple(found)

    def _kind(self, scalar: Scalar) -> str:
        """Which of the two a scalar is."""
        return INDICES if element_type(self.segment.nest.kernel, scalar) == "i32" else VALUES

    @staticmethod
    def _with_sources(scalars: Sequence[Scalar], taken: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Those that are taken, with what they are made of, in order."""
        needed = {id(each) for each in (*taken, *slice_for(tuple(scalars), taken))}
        return tuple(each for each in scalars if id(each) in needed)

    def _direct(self) -> tuple[Scalar, ...]:
        """Those of them that are loaded from an element's place."""
        own = (self.segment.loop.variable,)
        return tuple(each for each in self._closed() if isinstance(each, loops.Load) and each.indices == own)

    @property
    def streamed(self) -> tuple[str, ...]:
        """Of the arrays that scalars are loaded from, those that are read once."""
        return read_once(self.segment, self.taken)

    def _read_outside(self, scalars: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Those that the rest of an element's statements read."""
        read = names_read(self._rest(scalars))
        return tuple(each for each in scalars if each.result in read)

    def _rest(self, scalars: Sequence[Scalar]) -> tuple[loops.Statement, ...]:
        return tuple(s for s in self.segment.loop.body if not any(s is each for each in scalars))

    @property
    def kernel(self) -> loops.Kernel:
        """The kernel with the tiles as arrays."""
        kernel = self.segment.nest.kernel
        return replace(kernel, buffers=(*kernel.buffers, *self.tiles.arrays))

    @property
    def loop(self) -> loops.For:
        """The loop over the segment, which reads the tiles."""
        loop = self.segment.loop
        if not self.kept:
            return loop
        place = self.write.define(self.place, "sub", loop.variable, self.start)
        return replace(loop, body=(place, *self.tiles.loads(self.place), *self._rest(self.taken)))

    def fill(self, warp: str) -> tuple[kernels.Statement, ...]:
        """The tiles, filled with what the elements of the warp of this number have; past the end with the last one
        again."""
        if not self.kept:
            return ()
        write, elements = self.write, self.segment.elements
        start = write.define(self.start, "mul", warp, self.chunk)
        final = write.index("final", "sub", elements, 1)
        filled = write.where(self.start, "<", elements, final, self.filling(final.result))
        return (start, *self.declared, filled, kernels.Barrier(level="warp", origin=write.origin))

    @property
    def declared(self) -> tuple[kernels.Tile, ...]:
        """The tiles."""
        return self.tiles.declared(self.write.origin)

    def filling(self, final: str) -> kernels.Loop:
        """The loop that fills the tiles from the element `start` on: past the last one, `final`, with that again."""
        write = self.write
        t = write.names.new("t")
        ahead = write.index("ahead", "add", self.start, t)
        element = write.index("element", "min", ahead.result, final)
        names = {self.segment.loop.variable: element.result}
        constants = slice_for(self.constants, self.scalars)
        names |= {
            str(loops.result_of(each)): write.names.new(f"staged_{_hint(each)}") for each in (*constants, *self.scalars)
        }
        scalars = [rename(each, names) for each in (*constants, *self.scalars)]
        assert not any(isinstance(each, (loops.For, loops.Row)) for each in scalars)
        stores = (write.store(self.tiles.names[each.result], names[each.result], t) for each in self.kept)
        each = write.loop(t, self.chunk, ahead, element, *scalars, *stores, bind="lane", width=LANES)  # type: ignore[arg-type]
        return replace(each, unroll=0)

    @property
    def arrays(self) -> tuple[str, ...]:
        """What has tiles, by its array or, where it is computed, its name."""
        return tuple(map(_hint, self.kept))

    @property
    def line(self) -> str:
        """What the schedule says of it, with the bound."""
        names = ", ".join(self.arrays)
        upto = f"min({self.start} + {self.chunk}, {self.segment.elements}) - 1"
        return f"stage {names} in shared memory, a warp's kNnzTile = {self.chunk} together: [{self.start}, {upto}]"


def _hint(scalar: loops.Statement) -> str:
    return scalar.buffer if isinstance(scalar, loops.Load) else str(loops.result_of(scalar))


def read_once(segment: Segment, scalars: Sequence[Scalar]) -> tuple[str, ...]:
    """The arrays that these scalars of elements are loaded from and that are read at each element's own place alone,
    so once."""
    loads = [node for node in walk(segment.loop) if isinstance(node, loops.Load)]
    again = {load.buffer for load in loads if load.indices != (segment.loop.variable,)}
    taken = {each.buffer for each in scalars if isinstance(each, loops.Load)} - again
    return tuple(buffer.name for buffer in segment.nest.kernel.buffers if buffer.name in taken)
