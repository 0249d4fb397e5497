"""What a kernel takes of a streaming multiprocessor (SM), and how many of its warps that leaves room for.

The figures are ptxas's own, from the log that its option -v writes (what `nvcc --resource-usage` prints): unlike the
cubin, it tells spills from other local memory. The tests hold registers, shared memory and stack against the cubin's
ELF sections. The limits are the CUDA C++ Programming Guide's ("Technical Specifications per Compute Capability"),
how registers and shared memory are handed out is that of `cuda_occupancy.h`, the toolkit's occupancy calculator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from explorer.compiler.frozen import dataclass
from explorer.compiler.target import TARGETS

PARTS = 4
"""Of a multiprocessor, each with a quarter of the registers, for warps of its own."""
REGISTER_UNIT, SHARED_UNIT = 256, 128
"""A warp's registers, and the bytes of a block's shared memory, are handed out in these."""
SHARED_RESERVED = 1_024
"""Bytes of shared memory that the system takes for each block."""


@dataclass(frozen=True)
class Occupancy:
    """How many warps and blocks of a kernel an SM holds at once, at most, and the resources that run out first."""

    warps: int
    blocks: int
    most_warps: int
    limited_by: tuple[str, ...]  # of "warps", "blocks", "registers", "shared memory"

    def __str__(self) -> str:
        return f"{self.warps} of {self.most_warps} warps an SM, limited by {' and '.join(self.limited_by)}"


@dataclass(frozen=True)
class Resources:
    """What ptxas gave a kernel.

    `registers` are 32-bit ones a thread, `shared_bytes` are static ones a block, `stack_bytes` are local memory a
    thread, spilled registers among them; `spill_store_bytes` and `spill_load_bytes` are written and read a thread for
    spills, each instruction counted once. `block_threads` is how large a block is launched, and compiled for."""

    kernel: str
    arch: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    block_threads: int

    @property
    def occupancy(self) -> Occupancy:
        """Static occupancy: what fits, not what a run reaches."""
        return occupancy(self.arch, self.block_threads, self.registers, self.shared_bytes)

    @property
    def spills(self) -> str:
        """The spills in words."""
        if not (self.spill_store_bytes or self.spill_load_bytes):
            return "no spills"
        return f"spills of {self.spill_store_bytes:,} B stored and {self.spill_load_bytes:,} B loaded"

    def __str__(self) -> str:
        return (
            f"{self.registers} registers and {self.stack_bytes:,} B of stack a thread, {self.spills};"
            f" {self.shared_bytes:,} B of shared memory a block of {self.block_threads} threads; {self.occupancy}"
        )

    def to_json(self) -> dict[str, Any]:
        """Its fields, and those of its occupancy in warps an SM."""
        fits = self.occupancy
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "stack_bytes": self.stack_bytes,
            "spill_store_bytes": self.spill_store_bytes,
            "spill_load_bytes": self.spill_load_bytes,
            "block_threads": self.block_threads,
            "occupancy_warps": fits.warps,
            "occupancy_blocks": fits.blocks,
            "most_warps": fits.most_warps,
            "limited_by": list(fits.limited_by),
            "text": str(self),
        }


def occupancy(arch: str, block_threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """How many blocks of so many threads, registers a thread and bytes of shared memory a block fit in an SM."""
    sm = TARGETS[arch]
    warps, block_warps = sm.threads // sm.warp, -(-block_threads // sm.warp)
    warp_registers = _round_up(max(registers, 1) * sm.warp, REGISTER_UNIT)
    # A block whose warps are spread evenly must fit in the registers too, or it cannot be launched at all.
    launches = warp_registers * _round_up(block_warps, PARTS) <= sm.registers
    warps_by_registers = sm.registers // PARTS // warp_registers * PARTS if launches else 0
    fitting = {
        "warps": warps // block_warps,
        "blocks": sm.blocks,
        "registers": warps_by_registers // block_warps,
        "shared memory": sm.shared // _round_up(shared_bytes + SHARED_RESERVED, SHARED_UNIT),
    }
    blocks = min(fitting.values())
    limits = tuple(name for name, count in fitting.items() if count == blocks)
    return Occupancy(blocks * block_warps, blocks, warps, limits)


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


_ENTRY = re.compile(r"^ptxas info +: Compiling entry function '([^']+)' for '([^']+)'$")
_PROPERTIES = re.compile(r"^ptxas info +: Function properties for (\S+)$")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads$")
_USED = re.compile(r"^ptxas info +: Used (\d+) registers\b")
_STACK = re.compile(r"\b(\d+) bytes cumulative stack size\b")
_SHARED = re.compile(r"\b(\d+) bytes smem\b")


def read_resources(log: str, arch: str, threads: Mapping[str, int]) -> tuple[Resources, ...]:
    """What a log of ptxas -v says of the kernels named, in their order; `threads` are those of a block of each.

    A kernel that the log does not describe in full is left out."""
    found = {resources.kernel: resources for resources in _read(log, arch, threads)}
    return tuple(found[kernel] for kernel in threads if kernel in found)


def _read(log: str, arch: str, threads: Mapping[str, int]) -> Iterator[Resources]:
    kernel = described = ""
    frame: tuple[int, int, int] | None = None
    for line in log.splitlines():
        if entry := _ENTRY.match(line):
            kernel, described, frame = entry[1], "", None
        elif properties := _PROPERTIES.match(line):
            described = properties[1]
        elif (spills := _SPILLS.search(line)) and described == kernel:
            frame = (int(spills[1]), int(spills[2]), int(spills[3]))
        elif (used := _USED.match(line)) and frame is not None and kernel in threads:
            stack, shared = _STACK.search(line), _SHARED.search(line)
            yield Resources(
                kernel=kernel,
                arch=arch,
                registers=int(used[1]),
                shared_bytes=int(shared[1]) if shared else 0,
                stack_bytes=int(stack[1]) if stack else frame[0],  # what it calls included
                spill_store_bytes=frame[1],
                spill_load_bytes=frame[2],
                block_threads=threads[kernel],
            )
