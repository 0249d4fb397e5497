"""One side's part of a sum, a slab of its depth at a time, in shared memory: a tile's facts, or its negatives.

What is an element of an array as it is, in whole vectors, is copied on the side, while the slab before is summed;
anything else is computed on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import ElementType
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.edit.nests import element_type
from explorer.compiler.schedule.shared_lists.match import Side
from explorer.compiler.target import VECTOR

PADDING = VECTOR
"""Elements behind each row of a slab: vectors of one depth in neighbouring rows lie in different banks."""


@dataclass(frozen=True)
class Slabs:
    """How a sum is taken: `depth` elements at a time of all, `step` of them at once, in so many `stages`, by so many
    `threads`."""

    variable: str
    whole: int
    depth: int
    step: int
    stages: int
    threads: int

    @property
    def count(self) -> int:
        """How many slabs there are."""
        return -(-self.whole // self.depth)

    @property
    def ragged(self) -> bool:
        """Whether the last slab has fewer elements."""
        return bool(self.whole % self.depth)


class Operand:
    """The `rows` of one side that a tile has, whose slabs lie in `tiles`, one for each of the side's values. `place`
    says which fact, or negative, a row is; `known` are names that stand for the same in the whole tile."""

    def __init__(self, kernel: loops.Kernel, side: Side, rows: int, slabs: Slabs, tiles: tuple[str, ...]) -> None:
        self._kernel, self._side, self._slabs = kernel, side, slabs
        self.tiles = dict(zip(side.values, tiles, strict=False))
        self._across = slabs.depth // slabs.step
        most = min(rows, slabs.threads // self._across)
        self._down = next(down for down in range(most, 0, -1) if rows % down == 0)
        self._passes = rows // self._down
        self._kept: dict[str, str] = {}

    @contextmanager
    def _each(self, steps: Steps) -> Iterator[tuple[Extent, str, str]]:
        """Each element of a slab that a thread brings: the pass, the row in it, and the place along the depth."""
        with (
            steps.loop("row", self._down, "thread") as down,
            steps.loop("q", self._slabs.depth, "thread", step=self._slabs.step) as along,
            steps.all("pass", self._passes) as which,
        ):
            yield which, down, along

    def _row(self, steps: Steps, which: Extent, down: str) -> Extent:
        return steps.index("row", "add", steps.index("first", "mul", which, self._down), down)

    def prepare(self, steps: Steps, place: Mapping[str, Atom], begin: Extent, last: Extent) -> None:
        """Finds what all slabs need of the rows from `begin` on: those behind the `last` are the last again."""
        if not self.tiles:
            return
        read = {name for s in self._side.elements for name in loops.reads_of(s)} | {*self._side.values}
        types: dict[str, ElementType] = {self._side.variable: "i32"}
        types |= {str(loops.result_of(s)): element_type(self._kernel, s) for s in self._side.scalars}
        extents = [self._passes, self._down]
        self._kept = {
            name: steps.tile("kept", extents, "register", type=type_) for name, type_ in types.items() if name in read
        }
        with self._each(steps) as (which, down, _):
            position = steps.index("position", "add", begin, self._row(steps, which, down))
            own = steps.index("place", "min", position, last)
            known = steps.copy(self._side.scalars, {**place, self._side.variable: own})
            for name, tile in self._kept.items():
                steps.store(tile, [which, down], known[name])

    def load(self, steps: Steps, place: Mapping[str, Atom], slab: Extent, stage: Extent, *, copied: bool) -> None:
        """Brings a slab, from depth `slab` on, into a stage: copied, or computed."""
        slabs, side = self._slabs, self._side
        if not self.tiles:
            return
        with self._each(steps) as (which, down, along):
            row = self._row(steps, which, down)
            depth = steps.index("d", "add", slab, along)
            with steps.where(depth, "<", slabs.whole, needed=slabs.ragged):
                kept = {name: steps.load(name, tile, which, down) for name, tile in self._kept.items()}
                known: dict[str, Atom] = {**place, **kept, slabs.variable: depth}
                if copied:
                    others = [s for s in side.elements if not isinstance(s, loops.Load)]
                    known = steps.copy(others, known)
                    for value, load in zip(side.values, side.loads, strict=True):
                        steps.copy_async(self.tiles[value], [stage, row, along], load, known)
                else:
                    known = steps.copy(side.elements, known)
                    for value in side.values:
                        steps.store(self.tiles[value], [stage, row, along], known[value])

    def values(self, steps: Steps, stage: Extent, row: Extent, along: Extent) -> dict[str, Atom]:
        """A row's values at a place along the slab."""
        return {value: steps.load(value, tile, stage, row, along) for value, tile in self.tiles.items()}
