"""Compiled kernels on PyTorch's tensors of a GPU: on its memory, on its current stream, with little said twice.

What depends on sizes alone - grids, functions, where arrays lie - is found once for each sizes; a call then allocates,
fills in addresses and launches. A program with a backward pass runs in two parts where the kernels allow it: those that
make the result, and later, when its gradient is there, the others, which find what the first left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.compilation import Compilation
from explorer.runtime.arrays import Extents
from explorer.runtime.device_memory import buffer_bytes, check_fits, lifetimes, place, shape_of
from explorer.runtime.gpu import VECTOR_BYTES, GpuProgram, check_extents
from explorer.runtime.gpu_device import available_bytes, cupy_module, faults
from explorer.runtime.inputs import InputError
from explorer.runtime.torch_structure import Tensor

Outcome = tuple[Tensor, dict[str, Tensor]]
"""The result, and gradients by tensor."""

MOST_SIZES = 64
"""Sizes of which plans are kept."""


@dataclass(frozen=True)
class Parts:
    """A program's launches in two parts: what makes the result, and what only the gradients need; and the arrays that
    the second reads of the first."""

    forward: tuple[Launch, ...]
    backward: tuple[Launch, ...]
    crossing: frozenset[str]


def divide(code: Code, result: str, upstream: str) -> Parts | None:
    """The launches, which may each be done without the gradient `upstream` of the result or not; None where the result
    comes of some that need it, or where the second part would change what the first left."""
    later: set[int] = set()
    behind, touched = {upstream}, set[str]()
    for place_of, launch in enumerate(code.launches):
        if behind.intersection(launch.arguments) or launch.writes & touched:
            later.add(place_of)
            behind |= launch.writes
            touched.update(launch.arguments)
    needed, first = {result}, set[int]()
    for place_of in reversed(range(len(code.launches))):
        launch = code.launches[place_of]
        if place_of not in later and launch.writes & needed:
            first.add(place_of)
            needed.update(launch.arguments)
    forward = tuple(launch for at, launch in enumerate(code.launches) if at in first)
    backward = tuple(launch for at, launch in enumerate(code.launches) if at not in first)
    made = frozenset(name for launch in forward for name in launch.writes)
    if result not in made or any(launch.writes & made for launch in backward):
        return None
    return Parts(forward, backward, made & {name for launch in backward for name in launch.arguments})


@dataclass(frozen=True, eq=False)
class Plan:
    """Launches where sizes are known: each one's function, grid, block, shared memory, and its arguments, numbers or
    the names of arrays; and where the arrays that they make, and nobody gets, lie in `total` bytes."""

    launches: tuple[tuple[Any, tuple[int, int], tuple[int], int, tuple[str | np.int32, ...]], ...]
    offsets: Mapping[str, int]
    total: int

    def launch(self, addresses: Mapping[str, Any], stream: Any) -> None:
        """Queues all kernels on a stream of CuPy's."""
        with faults():
            for function, grid, block, shared_bytes, arguments in self.launches:
                values = tuple([addresses[each] if each.__class__ is str else each for each in arguments])
                function(grid, block, values, shared_mem=shared_bytes, stream=stream)


@dataclass(frozen=True, eq=False)
class Started:
    """A run whose result is there: what its second part needs. `held` are tensors whose memory that reads."""

    plan: Plan
    addresses: Mapping[str, Any]
    held: Sequence[Tensor]
    sizes: Mapping[str, int]


class OnCuda:
    """A program's kernels on the current stream of PyTorch, and on its memory. `upstream` names the gradient of the
    result, "" in a program without a backward pass."""

    def __init__(self, compilation: Compilation, upstream: str) -> None:
        self.program = GpuProgram.of(compilation)
        self.code, self.upstream = self.program.code, upstream
        self.reads = frozenset(buffer.name for buffer in self.code.buffers) - self.code.made
        self.result, *_ = self.program.kept
        self.parts = divide(self.code, self.result, upstream) if upstream else None
        self._buffers = {buffer.name: buffer for buffer in self.code.buffers}
        self._plans: dict[Any, tuple[Plan, ...]] = {}
        self._sizes: dict[Any, dict[str, int]] = {}
        self._streams: dict[tuple[int, int | None], Any] = {}

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """Launches the kernels and returns at once; what is returned is written when the stream has come to it."""
        device = next(iter(arrays.values())).device
        sizes = self._sizes_of(extents)
        with self._current(device) as stream:
            (plan,) = self._planned(sizes, device, "whole")
            made = self._made(self.program.kept, sizes, device)
            arena = self._arena(plan, sizes, device)
            plan.launch(self._addresses({**arrays, **made}, plan, arena), stream)
        return made[self.result], self._gradients(made)

    def start(self, arrays: Mapping[str, Tensor], extents: Extents) -> tuple[Tensor, Started]:
        """Launches what makes the result; only of a program with `parts`. `arrays` are without the gradient of it."""
        device = next(iter(arrays.values())).device
        sizes = self._sizes_of(extents)
        with self._current(device) as stream:
            forward, backward = self._planned(sizes, device, "parts")
            made = self._made((self.result,), sizes, device)
            arena = self._arena(forward, sizes, device)
            addresses = self._addresses({**arrays, **made}, forward, arena)
            forward.launch(addresses, stream)
        return made[self.result], Started(backward, addresses, (arena, made[self.result], *arrays.values()), sizes)

    def finish(self, started: Started, upstream: Tensor) -> dict[str, Tensor]:
        """Launches the rest, when the gradient of the result is there: the gradients by tensor."""
        device = upstream.device
        with self._current(device) as stream:
            names = tuple(name for _, name in self.program.gradients)
            made = self._made(names, started.sizes, device)
            arena = self._arena(started.plan, started.sizes, device)
            own = self._addresses({self.upstream: upstream, **made}, started.plan, arena)
            started.plan.launch({**started.addresses, **own}, stream)
        return self._gradients(made)

    def _gradients(self, made: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {tensor: made[name] for tensor, name in self.program.gradients}

    @contextmanager
    def _current(self, device: Any) -> Iterator[Any]:
        """PyTorch's current stream of a device, which both libraries use inside, as one of CuPy's."""
        cupy = cupy_module()
        key = torch.cuda.current_stream(device).cuda_stream, device.index
        if key not in self._streams:
            self._streams[key] = cupy.cuda.ExternalStream(*key)
        with torch.cuda.device(device), cupy.cuda.Device(device.index):
            yield self._streams[key]

    def _sizes_of(self, extents: Extents) -> dict[str, int]:
        """The sizes of all extents and counts; raises InputError for what kernels cannot count to."""
        key = tuple(extents.items())
        if key not in self._sizes:
            sizes = {str(name): int(size) for name, size in extents.items()}
            for name, count in self.code.counts:
                sizes[name] = count.value(sizes)
            check_extents(sizes)
            if len(self._sizes) >= MOST_SIZES:
                self._sizes.clear()
                self._plans.clear()
            self._sizes[key] = sizes
        return self._sizes[key]

    def _planned(self, sizes: dict[str, int], device: Any, kind: str) -> tuple[Plan, ...]:
        """The plan of the whole program, or those of its parts."""
        key = id(sizes), device, kind
        if key not in self._plans:
            if kind == "parts" and self.parts is not None:
                left = frozenset(name for launch in self.parts.forward for name in launch.writes)
                forward = self._plan(self.parts.forward, sizes, frozenset(), self.parts.crossing)
                self._plans[key] = forward, self._plan(self.parts.backward, sizes, left, frozenset())
            else:
                self._plans[key] = (self._plan(self.code.launches, sizes, frozenset(), frozenset()),)
        return self._plans[key]

    def _plan(
        self, launches: Sequence[Launch], sizes: Mapping[str, int], there: frozenset[str], kept: frozenset[str]
    ) -> Plan:
        """The plan of launches: arrays that are `there` were made before, those `kept` are needed after."""
        got = {*self.program.kept, *there}
        names = sorted({n for launch in launches for n in launch.arguments if n in self.code.made and n not in got})
        placed = place(
            lifetimes(names, launches, kept), {name: buffer_bytes(self._buffers[name], sizes) for name in names}
        )
        return Plan(tuple(self._launches(launches, sizes)), placed.offsets, placed.total)

    def _launches(self, launches: Sequence[Launch], sizes: Mapping[str, int]) -> Iterator[Any]:
        """The launches with numbers for extents, those of no blocks left out: CUDA refuses a grid of none."""
        for launch in launches:
            grid = (launch.blocks.value(sizes), launch.columns)
            if grid[0]:
                values = tuple(n if n in self._buffers else np.int32(sizes[n]) for n in launch.arguments)
                yield self.program.function_of(launch), grid, (launch.threads,), launch.shared_bytes, values

    def _made(self, names: Sequence[str], sizes: Mapping[str, int], device: Any) -> dict[str, Tensor]:
        """What a caller gets."""
        shapes = {name: shape_of(self._buffers[name], sizes) for name in names}
        return {name: torch.empty(shape, dtype=torch.float32, device=device) for name, shape in shapes.items()}

    def _arena(self, plan: Plan, sizes: Mapping[str, int], device: Any) -> Tensor:
        """The memory of what nobody gets; raises InputError, with the largest arrays, where there is not so much."""
        try:
            return torch.empty(plan.total, dtype=torch.uint8, device=device)
        except torch.cuda.OutOfMemoryError:
            check_fits(plan.total, available_bytes(), [self._buffers[name] for name in plan.offsets], sizes)
            raise

    def _addresses(self, tensors: Mapping[str, Tensor], plan: Plan, arena: Tensor) -> dict[str, Any]:
        """Where all arrays lie."""
        first = arena.data_ptr()
        found = {name: first + offset for name, offset in plan.offsets.items()}
        for name, tensor in tensors.items():
            found[name] = address_of(name, tensor)
        return found


def address_of(name: str, tensor: Tensor) -> Any:
    """Where a contiguous tensor lies on the device. Raises InputError where vectors cannot be read from there."""
    address = tensor.data_ptr()
    if address % VECTOR_BYTES:
        raise InputError(
            f"{name} begins at an address of the device that is no multiple of {VECTOR_BYTES} bytes: copy it."
        )
    return address
