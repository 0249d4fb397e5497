"""What of a program's kernels is launched together, and what memory each such phase takes.

Inspectors run once for a graph, and what they find is held from then on. Of a program with a backward pass the kernels
of the results are one phase and the others the next, where they can be divided: what the first one made is held until
the second is done. All else is one phase. Of a phase a caller gets some arrays, each an allocation of its own; all
others lie in one piece, those that are never needed at once in the same place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from explorer.compiler.codegen.text import Launch
from explorer.runtime.targets.gpu.memory import Placement, buffer_bytes, lifetimes, place, shape_of
from explorer.runtime.targets.gpu.program import GpuProgram
from explorer.runtime.targets.parts import divide

RESULT_BYTES = 4
"""Of an element of what a caller gets: float32."""


@dataclass(frozen=True)
class Phase:
    """Launches, the arrays that were made before them, and those that are needed after them."""

    launches: tuple[Launch, ...]
    there: frozenset[str]
    needed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Phases:
    """Those of a program: `whole` is all but the inspectors, `parts` the same in two where it can be divided."""

    once: Phase
    whole: Phase
    parts: tuple[Phase, ...]

    @classmethod
    def of(cls, program: GpuProgram, upstreams: Collection[str]) -> Phases:
        """The phases of a program, where these are the gradients of its results, none without a backward pass."""
        once = tuple(launch for launch in program.code.launches if launch.once)
        launches = tuple(launch for launch in program.code.launches if not launch.once)
        found = frozenset(name for launch in once for name in launch.writes)
        parts = divide(launches, program.results, upstreams) if upstreams else None
        both: tuple[Phase, ...] = ()
        if parts is not None:
            left = found | {name for launch in parts.forward for name in launch.writes}
            both = Phase(parts.forward, found, parts.crossing), Phase(parts.backward, left)
        # What inspectors find is all needed later, so nothing of it is named by launches of their own phase alone.
        return cls(Phase(once, frozenset(), found), Phase(launches, found), both)


@dataclass(frozen=True)
class Layout:
    """The memory of a phase: where what nobody gets lies in one piece, and the shapes of what a caller gets."""

    placed: Placement
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, program: GpuProgram, phase: Phase, sizes: Mapping[str, int]) -> Layout:
        """That of a phase, where extents have these sizes."""
        code, kept, there = program.code, {*program.kept}, phase.there
        buffers = {buffer.name: buffer for buffer in code.buffers}
        used = sorted({name for launch in phase.launches for name in launch.arguments if name in code.made})
        own = [name for name in used if name not in kept and name not in there]
        taken = {name: buffer_bytes(buffers[name], sizes) for name in own}
        placed = place(lifetimes(own, phase.launches, phase.needed), taken)
        return cls(placed, {n: shape_of(buffers[n], sizes) for n in used if n in kept and n not in there})

    @property
    def bytes(self) -> int:
        """What it takes, of what nobody gets and of what a caller does."""
        return self.placed.total + sum(RESULT_BYTES * prod(shape) for shape in self.shapes.values())


@dataclass(frozen=True)
class Held:
    """The bytes that a module of PyTorch holds of what kernels make: what inspectors found, the results' phase with the
    results, and the gradients' phase with the gradients, 0 without a backward pass."""

    inspected: int
    forward: int
    backward: int = 0

    @property
    def most(self) -> int:
        """All of it: until the gradients are there, nothing of the forward pass is given back."""
        return self.inspected + self.forward + self.backward

    @classmethod
    def of(cls, program: GpuProgram, upstreams: Collection[str], sizes: Mapping[str, int]) -> Held:
        """Of a program whose extents have these sizes. Raises ValueError where it has a backward pass that cannot be
        divided from the results."""
        phases = Phases.of(program, upstreams)
        inspected = Layout.of(program, phases.once, sizes).bytes
        if not upstreams:
            return cls(inspected, Layout.of(program, phases.whole, sizes).bytes)
        if not phases.parts:
            raise ValueError("The kernels of the results need their gradients.")
        forward, backward = (Layout.of(program, phase, sizes).bytes for phase in phases.parts)
        return cls(inspected, forward, backward)
