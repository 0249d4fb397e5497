"""What GPUs have, as far as a schedule depends on it: facts, in one table; what follows from them is a method here.

A number that somebody may choose, such as how many rows a block has, is a decision (`decisions`) and not in this file.
The limits are the CUDA C++ Programming Guide's ("Technical Specifications per Compute Capability"), the caches and
multiprocessors those of the A100 of 40 GB and the H100 SXM5 in their whitepapers, as are the bytes that memory
gives and the operations in float32 that cores do in a second, at most.
"""

from __future__ import annotations

from explorer.compiler.frozen import dataclass

STATIC_SHARED_BYTES = 48 * 1024
"""What a block may declare on every GPU; more is given at the launch."""
BLOCK_THREADS = 1024
"""Threads of the largest block, on every GPU."""
FLOAT_BYTES = 4
LINE_BYTES = 128
"""Of a line of the caches, which neighbours read together, on every GPU."""
WARP = 32
"""Threads of a warp, on every GPU: what `GpuTarget.warp` is, where the IR itself speaks of lanes."""
VECTOR = 4
"""Floats that a thread moves at once, 16 bytes: what `GpuTarget.vector` is."""
EXTENT_LIMIT = 2**31 - 2**20
"""Above every extent and count of a launch, for kernels count in 32 bits, and a block's share beyond the end."""


@dataclass(frozen=True)
class GpuTarget:
    """A GPU of an architecture. A multiprocessor has `registers` of 32 bits, and at most `threads`, `blocks` and
    `shared` bytes of shared memory at a time, of which a block may be given `shared_most`.

    With `warpgroups` four warps can multiply together (wgmma), with `vector_atomics` a vector is added to memory at
    once."""

    arch: str
    multiprocessors: int
    l2_bytes: int
    shared: int
    shared_most: int
    memory_gbs: float
    float32_gflops: float
    registers: int = 65_536
    threads: int = 2_048
    blocks: int = 32
    warp: int = WARP
    vector: int = VECTOR
    warpgroups: bool = False
    vector_atomics: bool = True

    def resident(self, threads: int, registers: int) -> int:
        """Blocks of so many threads that a multiprocessor has at a time, at most, where each thread has so many
        registers; at least 1."""
        return max(1, min(self.registers // (threads * registers), self.threads // threads, self.blocks))

    @property
    def busy_warps(self) -> int:
        """Warps that keep all multiprocessors busy: half of what they have room for, about (measured on an H100, where
        fewer elements a warp are better than fewer than 4,000 warps)."""
        return 30 * self.multiprocessors

    @property
    def cached_bytes(self) -> int:
        """Of arrays that the L2 cache holds, but for what else goes through it: 48 of an H100's 50 MB."""
        return self.l2_bytes * 24 // 25


TARGETS = {
    target.arch: target
    for target in (
        GpuTarget(
            "sm_80",
            108,
            40 << 20,
            shared=164 * 1024,
            shared_most=163 * 1024,
            memory_gbs=1_555,
            float32_gflops=19_500,
            vector_atomics=False,
        ),
        GpuTarget(
            "sm_90", 132, 50 << 20, shared=228 * 1024, shared_most=227 * 1024, memory_gbs=3_350, float32_gflops=66_900
        ),
        GpuTarget(
            "sm_90a",
            132,
            50 << 20,
            shared=228 * 1024,
            shared_most=227 * 1024,
            memory_gbs=3_350,
            float32_gflops=66_900,
            warpgroups=True,
        ),
    )
}
"""What PTX is made for, by architecture: any GPU from a generation on, or, with an a, that generation alone with all it
has. The facts are those of the GPU that has it first, an A100 and an H100."""
