"""What the kernels of an inspector share: the index arrays that they read, and those that they fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps


@dataclass(frozen=True)
class Inspection:
    """An inspector of a name: arrays that are `given`, and that it finds, by what they hold (`of`); the counts that
    these need; and whether it runs `once`, when a graph is given. What it holds by a name is the array's (`[...]`)."""

    name: str
    given: tuple[Buffer, ...]
    of: Mapping[str, Buffer]
    counts: tuple[tuple[str, Count], ...]
    once: bool
    origin: Origin

    def __getitem__(self, held: str) -> str:
        return self.of[held].name

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """All of them."""
        return (*self.given, *self.of.values())

    def steps(self, *taken: Extent) -> Steps:
        """The statements of one of its kernels, none yet; other names that it may not use are `taken`."""
        return Steps.over(self.arrays, self.origin, (*taken, *(name for name, _ in self.counts)))

    def kernel(
        self, name: str, steps: Steps, threads: int, *said: str, arrays: Sequence[Buffer] = ()
    ) -> ScheduledKernel:
        """A kernel of what has been written; it has the arrays that it touches, in this order."""
        made = steps.kernel(f"{self.name}_{name}", "inspector", threads, arrays or self.arrays, *said)
        return replace(made, counts=self.counts, once=self.once)


def index_arrays(extents: Mapping[str, Extent | tuple[Extent, ...]], names: Names, origin: Origin) -> dict[str, Buffer]:
    """New index arrays of these extents, by what they hold, which they are named after."""
    shapes = {held: own if isinstance(own, tuple) else (own,) for held, own in extents.items()}
    return {held: Buffer(name=names.new(held), kind="index", extents=e, origin=origin) for held, e in shapes.items()}
