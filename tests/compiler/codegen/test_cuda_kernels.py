"""CUDA from scheduled kernels written by hand: what NVRTC makes of it, its origins, and its text."""

from __future__ import annotations

import re

import pytest

from explorer.compiler.codegen.cuda import generate_cuda
from explorer.compiler.codegen.nvrtc import compile_text
from explorer.compiler.codegen.text import Code
from explorer.compiler.ir.kernels import AtomicAccumulate, ScheduledKernel
from explorer.compiler.ir.loops import Accumulate, Compute, Load, Store
from explorer.compiler.ir.node import walk
from explorer.compiler.options import ARCHITECTURES, Options
from explorer.compiler.passes.report import Report
from tests.compiler.codegen import scheduled

KERNELS = {
    "rows by single lanes": scheduled.transe(33, 1),
    "rows by vectors": scheduled.transe(512, 4),
    "rows by vectors that leave lanes out": scheduled.transe(100, 4),
    "rows by pairs": scheduled.transe(130, 2),
    "a row in registers": scheduled.rows_in_registers(64, 100, 1),
    "a row of vectors in registers": scheduled.rows_in_registers(64, 256, 4),
    "segments by groups of lanes": scheduled.segment_sum(32, 4, 8),
    "segments by warps": scheduled.segment_sum(100, 4, 32),
    "dot products by groups of lanes": scheduled.sampled_dots(64, 8),
    "chunks of nonzeros": scheduled.nonzeros_in_chunks(100, 4),
    "chunks of nonzeros by pairs": scheduled.nonzeros_in_chunks(66, 2),
    "chunks of nonzeros one by one": scheduled.nonzeros_in_chunks(33, 1),
    "a row that lanes share": scheduled.two_products(100, 1),
    "a row of vectors that lanes share": scheduled.two_products(128, 4),
    "sums across groups of lanes": scheduled.sums_across_groups(64),
    "indices kept and counted": scheduled.ranks(),
    "a product in tiles": scheduled.product(128),
    "a product in large tiles": scheduled.product(128, depth=64),
}
"""By what is special about them."""

every_kernel = pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()])


def cuda(kernel: ScheduledKernel, arch: str = "sm_90") -> Code:
    return generate_cuda(kernel, Report(Options(arch=arch)))


def text(code: Code) -> str:
    return "".join(f"{line.text}\n" for line in code.lines)


@every_kernel
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_compiles_and_keeps_tiles_out_of_local_memory(kernel: ScheduledKernel, arch: str) -> None:
    compiled = compile_text(text(cuda(kernel, arch)), arch)
    assert compiled.ptx.count(".entry") == 1
    assert ".local" not in compiled.ptx
    assert "warning" not in compiled.log


@every_kernel
def test_every_operation_is_in_the_text(kernel: ScheduledKernel) -> None:
    computing = [node for node in walk(kernel) if isinstance(node, Load | Compute | Accumulate | Store)]
    found = {span for line in cuda(kernel).lines for span in line.origin}
    assert {span for node in computing for span in node.origin} <= found
    assert any(isinstance(node, AtomicAccumulate) for node in computing) == (
        "atomicAdd(" in text(cuda(kernel, "sm_80"))
    )


@every_kernel
def test_only_declarations_and_braces_have_no_origin(kernel: ScheduledKernel) -> None:
    structure = re.compile(
        r"\s*(}|#pragma unroll.*|constexpr int .*|//.*|extern \"C\" .*|\w+_kernel\("
        r"|(const )?(int|float)\* __restrict__ .*|long long .*\) {)"
    )
    for line in cuda(kernel).lines:
        assert bool(line.origin) != bool(structure.fullmatch(line.text)), line.text
