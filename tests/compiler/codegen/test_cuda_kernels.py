"""CUDA from scheduled kernels written by hand: what NVRTC makes of it, its origins, and its text."""

from __future__ import annotations

import re

import pytest

from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.codegen.cuda.words import FUNCTIONS
from explorer.compiler.codegen.text import Code
from explorer.compiler.ir.kernels import AtomicAccumulate, Count, ScheduledKernel
from explorer.compiler.ir.loops import Accumulate, Compute, Load, Store
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import operations_of, walk
from explorer.compiler.options import ARCHITECTURES, Options
from explorer.compiler.report import Report
from explorer.compiler.unsupported import Unsupported
from tests.compiler.codegen import scheduled, scheduled_product, scheduled_segments

KERNELS = {
    "rows by single lanes": scheduled.transe(33, 1),
    "rows by vectors": scheduled.transe(512, 4),
    "rows by vectors that leave lanes out": scheduled.transe(100, 4),
    "rows by pairs": scheduled.transe(130, 2),
    "a row in registers": scheduled.rows_in_registers(64, 100, 1),
    "a row of vectors in registers": scheduled.rows_in_registers(64, 256, 4),
    "segments by groups of lanes": scheduled_segments.segment_sum(32, 4, 8),
    "segments by warps": scheduled_segments.segment_sum(100, 4, 32),
    "dot products by groups of lanes": scheduled_segments.sampled_dots(64, 8),
    "chunks of nonzeros": scheduled_segments.nonzeros_in_chunks(100, 4),
    "chunks of nonzeros by pairs": scheduled_segments.nonzeros_in_chunks(66, 2),
    "chunks of nonzeros one by one": scheduled_segments.nonzeros_in_chunks(33, 1),
    "a row that lanes share": scheduled.two_products(100, 1),
    "a row of vectors that lanes share": scheduled.two_products(128, 4),
    "sums across groups of lanes": scheduled.sums_across_groups(64),
    "indices kept and counted": scheduled.ranks(),
    "a product in tiles": scheduled_product.product(128),
    "a product in large tiles": scheduled_product.product(128, depth=64),
}
"""By what is special about them."""

every_kernel = pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()])


def cuda(kernel: ScheduledKernel, arch: str = "sm_90") -> Code:
    return generate_cuda(kernel, Report(Options(arch=arch)))


def text(code: Code) -> str:
    return "".join(f"{line.text}\n" for line in code.lines)


@pytest.mark.sampled(3)
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
    found = operations_of(*(line.origin for line in cuda(kernel).lines))
    assert operations_of(*(node.origin for node in computing)) <= found
    assert any(isinstance(node, AtomicAccumulate) for node in computing) == (
        "atomicAdd(" in text(cuda(kernel, "sm_80"))
    )


@every_kernel
def test_only_declarations_and_braces_have_no_origin(kernel: ScheduledKernel) -> None:
    structure = re.compile(
        r"\s*(|}|#pragma unroll.*|constexpr int .*|//.*|extern \"C\" .*|\w+_kernel\(|(template <.*> )?__device__ .*;"
        r"|((const (int|float)\* __restrict__|int\*|float\*|int) \w+(, ?|\) {))+)"
    )
    for line in cuda(kernel).lines:
        assert bool(line.origin) != bool(structure.fullmatch(line.text)), line.text


def test_a_row_of_vectors_reads_like_the_kernel() -> None:
    kernel, _, functions = text(cuda(scheduled.rows_in_registers(64, 256, 4))).partition("\n// Device functions")
    body = kernel.partition("return;\n")[2]
    assert "fma_float4" in functions
    assert (
        body
        == """\
  const int ih = h[b];
  const int ir = r[b];
  float4 y[2] = {};
  #pragma unroll 4
  for (int d = 0; d < D; d++) {
    const float e = E[(long long)ih * D + d];
    #pragma unroll
    for (int slot = 0; slot < 2; slot++) {
      const int k1 = 4 * (lane + 32 * slot);
      const float4 p = *reinterpret_cast<const float4*>(&P[((long long)ir * D + d) * K + k1]);
      y[slot] = fma_float4(e, p, y[slot]);
    }
  }
  float s = -1e+30f;
  #pragma unroll
  for (int slot1 = 0; slot1 < 2; slot1++) {
    const int k2 = 4 * (lane + 32 * slot1);
    const float4 r1 = *reinterpret_cast<const float4*>(&R[(long long)ir * K + k2]);
    const float4 v = y[slot1] + r1;
    const float4 a = relu_float4(v);
    s = fmaxf(s, max_elements(a));
  }
  s = lanes_max<32>(s);
  if (lane == 0) out[b] = s;
}
"""
    )


def test_lanes_that_part_are_reduced_by_groups_and_one_of_each_stores() -> None:
    written = text(cuda(scheduled_segments.sampled_dots(64, 8)))
    assert "s = lanes_sum<8>(s, neighbours<8>());\n    if (lane % 8 == 0) out[z] = s;" in written
    assert "for (int z = begin + lane / 8; z < end; z += 4) {" in written


@pytest.mark.parametrize("step", [2, 4])
def test_every_function_has_a_form_on_vectors(step: int) -> None:
    operands = {name: len(set(re.findall(r"\{(\d)\}", formula))) for name, formula in FUNCTIONS.items()}
    programs = tuple(scheduled.function_of_vectors(name, count, step) for name, count in operands.items())
    module = Module(origin=(), name="Functions", result="out", gradients=(), programs=programs)
    code = generate_cuda(module, Report(Options()))
    numbered = iter(range(len(programs)))
    unique = re.sub(r"\bFunction_kernel\b", lambda match: f"f{next(numbered)}", text(code))
    compile_text(unique, "sm_90")


def test_large_tiles_are_given_at_the_launch() -> None:
    (small,), (large,) = (
        cuda(scheduled_product.product(128)).launches,
        cuda(scheduled_product.product(128, depth=64)).launches,
    )
    assert (small.shared_bytes, small.columns) == (0, 2)
    assert large.shared_bytes == 4 * (64 * 68 + 64 * 128)
    with pytest.raises(Unsupported, match=r"bytes of shared memory"):
        cuda(scheduled_product.product(1024, depth=512))


def test_launches_have_the_counts_that_they_need() -> None:
    code = cuda(scheduled_segments.nonzeros_in_chunks(100, 4))
    (launch,) = code.launches
    assert launch.arguments == ("ptr", "col", "weight", "X", "out", "Z", "N")
    assert launch.blocks == Count((("chunks", 1),))
    assert dict(code.counts) == {"chunks": Count((("Z", 1024),))}


def test_a_kernel_without_blocks_is_refused() -> None:
    with pytest.raises(Unsupported, match="loops over blocks"):
        cuda(scheduled.scheduled("Empty", {}, [], 32))
