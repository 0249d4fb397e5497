"""Preload: a tile of a row's elements in shared memory, by tiles, where a warp has one row at a time.

G-Sparse §III-B-a, Algorithm 1: for each of a block's kMTile rows, kNnzTile column indices and values are fetched by
lanes side by side, before the first row that they name is. How many a row has is known at run time alone; how many of
them a tile has is bounded by kNnzTile, so that is what is allocated, and the bound of a row's last tile is checked.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom
from explorer.compiler.schedule.edit.statement_writer import Writer
from explorer.compiler.schedule.lanes.log import LaneLog
from explorer.compiler.schedule.lanes.mapping import Nest, Spread, Unfit
from explorer.compiler.schedule.lanes.state import segment_of
from explorer.compiler.schedule.staging.elements import BOTH, MOST_BYTES, Staging
from explorer.compiler.schedule.staging.tile_bounds import UNBOUNDED, Interval, tile_bounds
from explorer.compiler.target import FLOAT_BYTES


class Rounds:
    """The elements of a row from `begin` to `end`, `size` at a time: a warp's tiles of `staging`, one after another."""

    def __init__(self, staging: Staging, size: int, begin: Atom, end: Atom) -> None:
        self.staging, self.size, self.begin, self.end = staging, size, begin, end
        self.write = staging.write
        self.upto, self.round = self.write.names.new("upto"), self.write.names.new("round")

    @property
    def loop(self) -> loops.For:
        """The loop over the elements of one tile."""
        return replace(self.staging.loop, lower=self.staging.start, extent=self.upto)

    def around(self, tile: tuple[kernels.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """What is done with one tile, for all tiles of a row, each fetched when the warp is done with that before."""
        write, size = self.write, self.size
        span = write.index("span", "sub", self.end, self.begin)
        padded = write.index("padded", "add", span.result, size - 1)
        rounds = write.index("tiles", "div", padded.result, size)
        done = write.index("done", "mul", self.round, size)
        first = write.define(self.staging.start, "add", self.begin, done.result)
        after = write.index("after", "add", first.result, size)
        upto = write.define(self.upto, "min", after.result, self.end)
        final = write.index("final", "sub", upto.result, 1)
        wait = kernels.Barrier(level="warp", origin=write.origin)
        fetched = (done, first, after, upto, final, self.staging.filling(final.result), wait)
        over = kernels.Loop(
            variable=self.round, extent=rounds.result, body=(*fetched, *tile, wait), origin=write.origin
        )
        return span, padded, rounds, over


class Preload:
    """The tiles of `size` elements of a nest's segment, of what is `staged` of them, one for each of a block's `warps`;
    raises Unfit."""

    def __init__(self, nest: Nest, size: int, warps: int, spread: Spread, staged: str = BOTH) -> None:
        if nest.heads is not None:
            raise Unfit("lanes have a row's heads, each on its own way through the row")
        if spread.segments > 1:
            raise Unfit(f"a warp has {spread.segments} rows at a time, each of a length of its own")
        self.segment, self.size, self.warps = segment_of(nest), size, warps
        self.write = Writer(nest.kernel, nest.loop.origin)
        self.staging = Staging(self.segment, size, self.write, warps, staged)
        if not self.staging.kept:
            of = "scalars" if staged == BOTH else staged
            raise Unfit(f"its elements have no {of} that {warps} warps have room for in {MOST_BYTES:,} bytes")
        self.begin, self.end = self.segment.loop.lower, self.segment.loop.extent
        self.rounds = Rounds(self.staging, size, self.begin, self.end)
        # no more rows in flight than a tile has elements for
        self.spread = replace(spread, unroll=max(1, min(spread.unroll, size // spread.sharing)), log=LaneLog())

    @property
    def nest(self) -> Nest:
        """The nest whose segment is one tile, which reads it from shared memory."""
        body = (*self.segment.before, self.rounds.loop, *self.segment.after)
        nest = self.segment.nest
        return replace(nest, kernel=self.staging.kernel, loop=replace(nest.loop, body=body))

    def around(self, tile: tuple[kernels.Statement, ...]) -> tuple[kernels.Statement, ...]:
        """What is done with one tile, for all tiles of a row, which are declared there."""
        return (*self.staging.declared, *self.rounds.around(tile))

    @property
    def lines(self) -> list[str]:
        """What the schedule says of it: the bounds inferred, and what is allocated."""
        size = self.size
        start = f"{self.begin} + {size} {self.rounds.round}"
        places = Interval(start, f"min({start} + {size}, {self.end}) - 1")
        arrays = tile_bounds(self.segment.loop, places)
        bounded = [name for name in arrays if arrays[name] != UNBOUNDED]
        others = [name for name in arrays if arrays[name] == UNBOUNDED]
        lines = [f"bound {name}: {arrays[name]}" for name in bounded]
        lines += [f"bound {', '.join(others)}: {UNBOUNDED}, by elements that are loaded"] if others else []
        extent = f"min({self.end} - {self.begin} - {size} {self.rounds.round}, {size})"
        each = f"{self.warps} x {size} of {', '.join(self.staging.arrays)}"
        needed = self.warps * size * FLOAT_BYTES * len(self.staging.kept)
        lines.append(
            f"preload {self.segment.loop.variable} by kNnzTile = {size} into shared memory: {extent} elements of a row,"
            f" allocated {each}, {needed:,} bytes a block"
        )
        return lines
