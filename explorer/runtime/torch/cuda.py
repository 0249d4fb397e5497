"""Compiled kernels on PyTorch's tensors of a GPU: on its memory, on its current stream, with little said twice.

What depends on sizes alone - grids, functions, where arrays lie - is found once for each sizes; a call then allocates,
fills in addresses and launches. What depends on a graph alone - inspectors' kernels - runs once for the graph's tensors
and each stream. A program with a backward pass runs in two parts where the kernels allow it: those that
make the result, and later, when its gradient is there, the others, which find what the first left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch

from explorer.compiler.codegen.text import Launch
from explorer.compiler.compilation import Compilation
from explorer.runtime.arrays import Extents
from explorer.runtime.data.triples import InputError
from explorer.runtime.targets.gpu.device import available_bytes, compiled_for_device, cupy_module, faults
from explorer.runtime.targets.gpu.memory import check_fits, sizes_of
from explorer.runtime.targets.gpu.phases import Layout, Phase, Phases
from explorer.runtime.targets.gpu.program import VECTOR_BYTES, GpuProgram, check_extents
from explorer.runtime.torch.cache import Kept
from explorer.runtime.torch.streams import current, is_capturing
from explorer.runtime.torch.structure import Tensor

Outcome = tuple[tuple[Tensor, ...], dict[str, Tensor]]
"""The results, and gradients by tensor."""

MOST_SIZES = 64
"""Sizes of which plans are kept."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Launches where sizes are known, ready for the driver.

    `slots` has eight bytes for each of the `arrays`, and behind them for each number that kernels take; `steps` are
    by launch the function, blocks, columns, threads, bytes of shared memory, and where `parameters` has the addresses
    of its arguments' slots. `offsets` says where the arrays that the launches make, and nobody gets, lie in `total`
    bytes, `shapes` what a caller gets."""

    steps: tuple[tuple[Any, int, int, int, int, int], ...]
    slots: np.ndarray[Any, np.dtype[np.uint64]]
    parameters: np.ndarray[Any, np.dtype[np.uint64]]
    arrays: tuple[str, ...]
    offsets: Mapping[str, int]
    total: int
    shapes: Mapping[str, tuple[int, ...]]
    lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, launches: Sequence[tuple[Any, tuple[int, int], Launch]], sizes: Mapping[str, int], **rest: Any) -> Plan:
        """The plan of launches with their functions and grids, all of one device."""
        named = dict.fromkeys(name for *_, launch in launches for name in launch.arguments)
        arrays = tuple(name for name in named if name not in sizes)
        names = (*arrays, *(name for name in named if name in sizes))
        slots = np.zeros(max(1, len(names)), np.uint64)
        slot_of = {name: slots.ctypes.data + slots.itemsize * number for number, name in enumerate(names)}
        parameters = np.array([slot_of[n] for *_, launch in launches for n in launch.arguments], np.uint64)
        steps, first = [], parameters.ctypes.data
        for function, grid, launch in launches:
            steps.append((function.ptr, *grid, launch.threads, launch.shared_bytes, first))
            first += parameters.itemsize * len(launch.arguments)
        for number, name in enumerate(names):
            slots[number] = sizes.get(name, 0)
        return cls(tuple(steps), slots, parameters, arrays, **rest)

    def launch(self, addresses: Sequence[int], stream: int) -> None:
        """Queues all kernels on the stream of this address, where the arrays lie at these `addresses`, in their order;
        the driver reads the slots as it does."""
        launch_kernel = cupy_module().cuda.driver.launchKernel
        with faults(), self.lock:
            self.slots[: len(self.arrays)] = addresses
            for function, blocks, columns, threads, shared_bytes, parameters in self.steps:
                launch_kernel(function, blocks, columns, 1, threads, 1, 1, shared_bytes, stream, parameters, 0)


@dataclass(frozen=True, eq=False)
class Bound:
    """A plan whose arrays are known by their `places` among addresses: those of what is there before, behind them those
    of what a caller gets, and of what nobody does."""

    plan: Plan
    sizes: Mapping[str, int]
    places: tuple[int, ...]

    @classmethod
    def of(cls, plan: Plan, sizes: Mapping[str, int], names: list[str]) -> Bound:
        """The plan behind arrays of these names, to which its own are added; of two of one name the last counts."""
        names += *plan.shapes, *plan.offsets
        place_of = {name: place for place, name in enumerate(names)}
        return cls(plan, sizes, tuple(place_of[name] for name in plan.arrays))


@dataclass(frozen=True, eq=False)
class Started:
    """A run whose results are there: what its second part needs. `held` are tensors whose memory that reads."""

    plan: Plan
    addresses: dict[str, int]
    held: Sequence[Tensor]
    sizes: Mapping[str, int]

    @property
    def reads(self) -> frozenset[str]:
        """The arrays that are there and that the second part reads."""
        return frozenset(self.plan.arrays)


@dataclass(frozen=True, eq=False)
class Inspected:
    """What inspectors found of a graph: where their arrays lie in the memory that they were given."""

    addresses: dict[str, int]
    memory: Tensor | None


NOTHING = Inspected({}, None)


class OnCuda:
    """A program's kernels on the current stream of PyTorch, and on its memory, compiled for the device. `upstreams`
    names the gradients of the results, none in a program without a backward pass."""

    def __init__(self, compilation: Compilation, upstreams: tuple[str, ...]) -> None:
        self.program = GpuProgram.of(compiled_for_device(compilation))
        self.code, self.upstreams = self.program.code, upstreams
        self.reads = frozenset(buffer.name for buffer in self.code.buffers) - self.code.made
        self.reads_first = self.reads.difference(upstreams)
        self.results = self.program.results
        self.phases = Phases.of(self.program, upstreams)
        self.divided = bool(self.phases.parts)
        self._buffers = {buffer.name: buffer for buffer in self.code.buffers}
        self._plans: dict[Any, tuple[dict[str, int], Plan]] = {}
        self._sizes: dict[Any, dict[str, int]] = {}
        self._sizes_last: tuple[Extents, dict[str, int]] | None = None
        self._inspected: Kept[Inspected] = Kept()
        inspected = {name for launch in self.phases.once.launches for name in launch.arguments}
        self._looked_at = tuple(sorted(inspected & self.reads))

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """Launches the kernels and returns at once; what is returned is written when the stream has come to it."""
        device = next(iter(arrays.values())).device
        sizes = self._sizes_of(extents)
        with current(device) as stream:
            plan = self._planned(sizes, device, self.phases.whole)
            inspected = self._inspect(arrays, sizes, device, stream)
            made = _made(plan, device)
            arena = self._arena(plan, sizes, device)
            addresses = _addresses(plan, arena, arrays, made) | inspected.addresses
            plan.launch([addresses[name] for name in plan.arrays], stream)
        return self.results_of(made), self.gradients_of(made)

    def start(self, arrays: Mapping[str, Tensor], extents: Extents) -> tuple[tuple[Tensor, ...], Started]:
        """Launches what makes the results; only of a program that is `divided`. `arrays` are without their
        gradients."""
        device = next(iter(arrays.values())).device
        sizes = self._sizes_of(extents)
        with current(device) as stream:
            forward, backward = (self._planned(sizes, device, phase) for phase in self.phases.parts)
            inspected = self._inspect(arrays, sizes, device, stream)
            made = _made(forward, device)
            arena = self._arena(forward, sizes, device)
            addresses = _addresses(forward, arena, arrays, made) | inspected.addresses
            forward.launch([addresses[name] for name in forward.arrays], stream)
        # Their memory alone: a result will know what made it, which holds this, and neither would ever be freed. And a
        # parameter has other memory once its module is moved, where the gradients still read what it had.
        results = self.results_of(made)
        held = [tensor.detach() for tensor in (*results, *arrays.values())]
        return results, Started(backward, addresses, (arena, inspected.memory, *held), sizes)

    def finish(self, started: Started, upstreams: Sequence[Tensor]) -> dict[str, Tensor]:
        """Launches the rest, when the gradients of the results are there: the gradients by tensor."""
        device, plan = upstreams[0].device, started.plan
        with current(device) as stream:
            made = _made(plan, device)
            arena = self._arena(plan, started.sizes, device)
            own = _addresses(plan, arena, dict(zip(self.upstreams, upstreams, strict=True)), made)
            addresses = started.addresses | own
            plan.launch([addresses[name] for name in plan.arrays], stream)
        return self.gradients_of(made)

    def inspected(self, arrays: Mapping[str, Tensor], extents: Extents) -> Inspected:
        """What inspectors find of a graph, whose arrays are among these, on the current stream."""
        device = next(iter(arrays.values())).device
        with current(device) as stream:
            return self._inspect(arrays, self._sizes_of(extents), device, stream)

    def bound(self, names: Sequence[str], extents: Extents, device: Any, divided: bool) -> tuple[Bound, ...]:
        """The phases behind arrays of these names, where extents have these sizes: all in one, or where it is `divided`
        the first, and the second behind the first's arrays and the gradients of the results."""
        sizes, known, found = self._sizes_of(extents), [*names], list[Bound]()
        with current(device):  # whose functions they are
            for phase in self.phases.parts if divided else (self.phases.whole,):
                known += self.upstreams if found else ()
                found.append(Bound.of(self._planned(sizes, device, phase), sizes, known))
        return tuple(found)

    def launch(self, bound: Bound, addresses: list[int], device: Any) -> tuple[dict[str, Tensor], Tensor | None]:
        """Launches a phase behind what lies at these addresses, to which those of its own arrays are added: what a
        caller gets, and the memory of what nobody does."""
        plan = bound.plan
        with current(device) as stream:
            made = _made(plan, device)
            arena = self._arena(plan, bound.sizes, device)
            addresses += [address_of(name, tensor) for name, tensor in made.items()]
            first = 0 if arena is None else arena.data_ptr()
            addresses += [first + offset for offset in plan.offsets.values()]
            plan.launch([addresses[place] for place in bound.places], stream)
        return made, arena

    def _inspect(self, arrays: Mapping[str, Tensor], sizes: dict[str, int], device: Any, stream: int) -> Inspected:
        """What the inspectors find of a graph, whose arrays are among these: what they found, where they have seen it
        on this stream. What is recorded for later, into a graph of launches, has inspectors of its own."""
        if not self.phases.once.launches:
            return NOTHING
        given = {name: arrays[name] for name in self._looked_at}

        def look() -> Inspected:
            plan = self._planned(sizes, device, self.phases.once)
            memory = self._arena(plan, sizes, device)
            addresses = _addresses(plan, memory, given)
            plan.launch([addresses[name] for name in plan.arrays], stream)
            return Inspected({name: addresses[name] for name in plan.offsets}, memory)

        if is_capturing():
            return look()
        return self._inspected.get(given, (tuple(sizes.items()), device, stream), look)

    def results_of(self, made: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results among what was made."""
        return tuple(made[name] for name in self.results)

    def gradients_of(self, made: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The gradients among it, by tensor."""
        return {tensor: made[name] for tensor, name in self.program.gradients}

    def _sizes_of(self, extents: Extents) -> dict[str, int]:
        """The sizes of all extents and counts; raises InputError for what kernels cannot count to."""
        last = self._sizes_last
        if last is not None and last[0] is extents:  # which calls in a row share
            return last[1]
        key = tuple(extents.items())
        sizes = self._sizes.get(key)  # at once, for another thread may clear them
        if sizes is None:
            sizes = sizes_of(self.code, extents)
            check_extents(sizes)
            if len(self._sizes) >= MOST_SIZES:
                self._sizes.clear()
                self._plans.clear()
            self._sizes[key] = sizes
        self._sizes_last = extents, sizes
        return sizes

    def _planned(self, sizes: dict[str, int], device: Any, phase: Phase) -> Plan:
        """The plan of a phase, found once for each sizes and device. It is kept with its sizes, so that no others take
        their identity, also where another thread has cleared these before."""
        key = id(sizes), device, id(phase)
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = sizes, self._plan(phase, sizes)
        return known[1]

    def _plan(self, phase: Phase, sizes: Mapping[str, int]) -> Plan:
        layout = Layout.of(self.program, phase, sizes)
        ready = [
            (self.program.function_of(launch), grid, launch)
            for launch in phase.launches
            if (grid := (launch.blocks.value(sizes), launch.columns))[0]  # CUDA refuses a grid of none
        ]
        numbers = {name: size for name, size in sizes.items() if name not in self._buffers}
        placed = layout.placed
        return Plan.of(ready, numbers, offsets=placed.offsets, total=placed.total, shapes=layout.shapes)

    def _arena(self, plan: Plan, sizes: Mapping[str, int], device: Any) -> Tensor | None:
        """The memory of what nobody gets, None of nothing; raises InputError, with the largest arrays, where there is
        not so much."""
        if not plan.total:
            return None
        try:
            return torch.empty(plan.total, dtype=torch.uint8, device=device)
        except torch.cuda.OutOfMemoryError:
            check_fits(plan.total, available_bytes(), [self._buffers[name] for name in plan.offsets], sizes)
            raise


def _made(plan: Plan, device: Any) -> dict[str, Tensor]:
    """What a caller gets."""
    return {name: torch.empty(shape, dtype=torch.float32, device=device) for name, shape in plan.shapes.items()}


def _addresses(plan: Plan, arena: Tensor | None, *groups: Mapping[str, Tensor]) -> dict[str, int]:
    """Where all arrays lie."""
    first = 0 if arena is None else arena.data_ptr()
    found = {name: first + offset for name, offset in plan.offsets.items()}
    for tensors in groups:
        for name, tensor in tensors.items():
            found[name] = address_of(name, tensor)
    return found


def address_of(name: str, tensor: Tensor) -> int:
    """Where a contiguous tensor lies on the device. Raises InputError where vectors cannot be read from there."""
    address = int(tensor.data_ptr())
    if address % VECTOR_BYTES:
        raise InputError(
            f"{name} begins at an address of the device that is no multiple of {VECTOR_BYTES} bytes: copy it."
        )
    return address
