"""What kernels take of a GPU: ptxas's log against the cubin's sections, occupancy against published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.resources import Occupancy, Resources, occupancy, read_resources
from explorer.compiler.options import ARCHITECTURES, Options
from tests.compiler.codegen.elf import Usage, usage

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*/*.emb"))

SHARING = """
extern "C" __global__ void __launch_bounds__(128) sharing(float* out) {
  __shared__ float tile[8][128];
  tile[threadIdx.x % 8][threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x / 16][127 - threadIdx.x];
}
"""
SPILLING = (
    'extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* out) {\n  float x[64];\n'
    + "".join(f"  x[{n}] = out[{n} * 1024 + threadIdx.x];\n" for n in range(64))
    + "  __syncthreads();\n"
    + "".join(f"  out[{n} * 4096 + threadIdx.x] = x[{n}] * x[{63 - n}];\n" for n in range(64))
    + "}\n"
)
"""32 products a thread stay live across a barrier, and 2 blocks of 1024 threads leave a thread 32 registers."""

every_arch = pytest.mark.parametrize("arch", ARCHITECTURES)


def compiled(text: str, arch: str, **threads: int) -> tuple[Resources, ...]:
    return read_resources(compile_text(text, arch).log, arch, threads)


# A text for sm_80 differs in one helper at most: every third backward pass tells, of the layers rgat. In float32 that
# for sm_90a is the one for sm_90.
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("path", "grad", "arch"),
    [
        pytest.param(path, grad, arch, id=f"{path.stem}-{'backward' if grad else 'forward'}-{arch}")
        for arch in ARCHITECTURES
        if not arch.endswith("a")
        for grad in (False, True)
        for path in (EXAMPLES[1::3] if grad and arch != Options().arch else EXAMPLES)
    ],
)
def test_no_row_is_in_local_memory_and_resources_are_those_of_the_cubin(path: Path, grad: bool, arch: str) -> None:
    stage = explorer.compile(path.read_text(), options={"grad": grad, "arch": arch}, on_demand=True).stages["ptx"]
    program = stage.program
    assert isinstance(program, explorer.compiler.codegen.text.Code)
    assert program.binary is not None
    assert ".local" not in stage.text
    told = {
        each.kernel: Usage(each.registers, each.shared_bytes, each.stack_bytes, each.block_threads)
        for each in stage.resources
    }
    assert list(told) == [launch.symbol for launch in program.launches]
    assert told == usage(program.binary.cubin, arch)


@every_arch
def test_shared_memory_is_what_the_kernel_declares(arch: str) -> None:
    (sharing,) = compiled(SHARING, arch, sharing=128)
    assert sharing.shared_bytes == 8 * 128 * 4
    assert (sharing.stack_bytes, sharing.spill_store_bytes, sharing.spill_load_bytes) == (0, 0, 0)
    assert sharing.spills == "no spills"
    assert usage(compile_text(SHARING, arch).cubin, arch)["sharing"].shared_bytes == sharing.shared_bytes


@every_arch
def test_spills_are_counted_and_lie_on_the_stack(arch: str) -> None:
    (spilling,) = compiled(SPILLING, arch, spilling=1_024)
    assert spilling.registers == 32
    assert spilling.spill_store_bytes > 0
    assert spilling.spill_load_bytes > 0
    assert 0 < spilling.stack_bytes <= spilling.spill_store_bytes
    assert spilling.stack_bytes == usage(compile_text(SPILLING, arch).cubin, arch)["spilling"].stack_bytes
    assert spilling.occupancy.warps == 64
    assert str(spilling.spill_store_bytes) in spilling.spills


def test_a_kernel_that_the_log_does_not_name_is_left_out() -> None:
    log = compile_text(SHARING, "sm_90").log
    assert [each.kernel for each in read_resources(log, "sm_90", {"other": 32, "sharing": 128})] == ["sharing"]
    assert read_resources("", "sm_90", {"sharing": 128}) == ()
    assert read_resources(log.replace("Function properties", "Something else"), "sm_90", {"sharing": 128}) == ()


@every_arch
@pytest.mark.parametrize(
    ("threads", "registers", "blocks", "warps"),
    [
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": an SM of 65,536 registers and 2,048 threads has
        # 100 % at up to 32 registers; at 37, 75 % in 12 blocks of 128 threads, and 63 % in 4 blocks of 320.
        (128, 32, 16, 64),
        (128, 37, 12, 48),
        (320, 37, 4, 40),
        # cuda_occupancy.h on an SM of 4 parts: 200 registers leave 2 warps a part, 168 leave 3.
        (64, 200, 4, 8),
        (64, 168, 6, 12),
        # As many registers as a thread can have: 2 blocks of 128 threads; a block of 1,024 cannot be launched.
        (128, 255, 2, 8),
        (1024, 255, 0, 0),
        (1024, 64, 1, 32),
    ],
)
def test_registers_limit_occupancy_as_published(
    arch: str, threads: int, registers: int, blocks: int, warps: int
) -> None:
    fits = occupancy(arch, threads, registers, 0)
    assert (fits.blocks, fits.warps) == (blocks, warps)
    assert "registers" in fits.limited_by or registers == 32


@every_arch
def test_blocks_and_warps_limit_occupancy_as_published(arch: str) -> None:
    # Compute capability 8.0 and 9.0: at most 32 blocks, 64 warps and 2,048 threads a multiprocessor.
    assert occupancy(arch, 32, 16, 0) == Occupancy(32, 32, 64, ("blocks",))
    assert occupancy(arch, 1024, 16, 0) == Occupancy(64, 2, 64, ("warps",))
    assert occupancy(arch, 96, 16, 0) == Occupancy(63, 21, 64, ("warps",))
    assert occupancy(arch, 64, 32, 0) == Occupancy(64, 32, 64, ("warps", "blocks", "registers"))


@pytest.mark.parametrize(
    ("arch", "largest"),
    [
        # Tuning guides: a block may use 163 KB of A100's 164 KB and 227 KB of H100's 228 KB, for the system takes 1 KB.
        ("sm_80", 163 * 1_024),
        ("sm_90", 227 * 1_024),
    ],
)
def test_shared_memory_limits_occupancy_as_published(arch: str, largest: int) -> None:
    assert occupancy(arch, 256, 32, largest) == Occupancy(8, 1, 64, ("shared memory",))
    assert occupancy(arch, 256, 32, largest + 1).blocks == 0
    # 48 KB, the most that a kernel gets without asking: 3 blocks of 49 KB on A100, 4 on H100.
    assert occupancy(arch, 256, 32, 48 * 1_024).blocks == {"sm_80": 3, "sm_90": 4}[arch]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (32, 31, 1_000, 32),
        (64, 200, 0, 4),
        (96, 168, 0, 4),
        (128, 12, 54_096, 4),
        (160, 40, 26_272, 8),
        (224, 255, 0, 1),
        (256, 40, 6_272, 6),
        (256, 40, 102_048, 2),
        (640, 96, 0, 1),
    ],
)
def test_occupancy_is_what_the_driver_of_an_h100_says(threads: int, registers: int, shared: int, blocks: int) -> None:
    """From cuOccupancyMaxActiveBlocksPerMultiprocessor (driver 13.0, 2026-11), which agreed in 1,896 cases of 29
    kernels: examples and others of 12 to 255 registers in blocks of 32 to 1,024 threads, up to 200,000 B more shared
    memory. Its registers, shared and local bytes of each kernel were those of ptxas's log too."""
    assert occupancy("sm_90", threads, registers, shared).blocks == blocks


def test_a_kernels_line_names_what_limits_it() -> None:
    resources = Resources("k", "sm_90", 48, 2_048, 8, 8, 4, 256)
    assert str(resources) == (
        "48 registers and 8 B of stack a thread, spills of 8 B stored and 4 B loaded; 2,048 B of shared memory a block"
        " of 256 threads; 40 of 64 warps an SM, limited by registers"
    )
    assert resources.to_json()["limited_by"] == ["registers"]
