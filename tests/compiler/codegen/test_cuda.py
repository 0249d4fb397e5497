"""CUDA from kernels written by hand: the mapping, the text, its origins, and what NVRTC makes of it."""

from __future__ import annotations

import re
import sys
from typing import Literal

import pytest

from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.binary.ptx import generate_ptx
from explorer.compiler.codegen.cuda.program import generate_cuda
from explorer.compiler.codegen.text import Code
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.kernels import Tile
from explorer.compiler.ir.loops import Accumulate, Compute, Kernel, Load, Row, Store
from explorer.compiler.ir.node import Names, operations_of, walk
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.program import schedule
from explorer.compiler.schedule.warps.iterations import warps
from explorer.compiler.schedule.warps.strategy import SHARED_BYTES
from explorer.compiler.unsupported import Unsupported
from tests.compiler.codegen import kernels

KERNELS = {
    "transe": kernels.transe(512),
    "transe of one": kernels.transe(1),
    "transr": kernels.transr(64, 64),
    "transr of odd sizes": kernels.transr(1000, 33),
    "transr beyond registers": kernels.transr(33, 3000),
    "rescal with negatives": kernels.rescal_tails(100, 7),
    "two products": kernels.two_products(33, 100),
    "not interchanged": kernels.not_interchanged(40, 50),
    "awkward names": kernels.awkward_names(),
    "halves": kernels.halves(20),
    "a matrix a triple": kernels.outer_rows(6, 40),
} | {f"function {name}": kernels.function_of(name) for name in FUNCTIONS}
"""By what is special about them."""

every_kernel = pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()])


ROWS = Options(inspect="false")
"""A warp a row, whatever it is multiplied by: products as tiles have tests of their own."""


def cuda(kernel: Kernel) -> Code:
    return generate_cuda(schedule(kernel, Report(ROWS)), Report(ROWS))


def unguarded(kernel: Kernel) -> Code:
    """The same of a kernel that says nothing of how large its arrays are."""
    (scheduled,) = warps(kernel, Report(ROWS), SHARED_BYTES, Names(set()))
    return generate_cuda(scheduled, Report(ROWS))


def rows(kernel: Kernel) -> set[str]:
    return {node.name for node in walk(kernel) if isinstance(node, Row)}


def tiles(kernel: Kernel) -> dict[str, str]:
    """Where the tiles of the scheduled kernel lie."""
    scheduled = schedule(kernel, Report(ROWS))
    return {node.name: node.memory for node in walk(scheduled) if isinstance(node, Tile)}


def local_bytes(kernel: Kernel) -> set[str]:
    """What may lie in local memory: no rows, only what CUDA's sinf and cosf take for arguments beyond 100,000."""
    functions = {node.function for node in walk(kernel) if isinstance(node, Compute)}
    return {"28"} if functions & {"sin", "cos"} else set()


def text(code: Code) -> str:
    return "".join(f"{line.text}\n" for line in code.lines)


@pytest.mark.sampled(3)
@every_kernel
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiles_to_one_kernel_that_writes_the_score_alone(kernel: Kernel, arch: Literal["sm_80", "sm_90"]) -> None:
    ptx = generate_ptx(cuda(kernel), Report(Options(arch=arch)))
    assert f".target {arch}" in text(ptx)
    assert text(ptx).count(".entry") == 1
    assert set(re.findall(r"\.local .*?\[(\d+)\]", text(ptx))) <= local_bytes(kernel)
    result = {node.origin for node in walk(kernel) if isinstance(node, Store) and node.target not in rows(kernel)}
    written = [line.origin for line in ptx.lines if re.search(r"\b(st|atom|red)\.global", line.text)]
    assert written  # more than once where NVRTC unrolls the loop over the negatives
    assert set(written) == result


@every_kernel
def test_every_operation_is_in_the_cuda_and_in_the_ptx(kernel: Kernel) -> None:
    code = cuda(kernel)
    ptx = generate_ptx(code, Report(Options()))
    computing = [node for node in walk(kernel) if isinstance(node, Load | Compute | Accumulate | Store)]
    wanted = operations_of(*(node.origin for node in computing))
    assert wanted <= operations_of(*(line.origin for line in code.lines))
    found = operations_of(*(line.origin for line in ptx.lines))
    loads = operations_of(*(node.origin for node in computing if isinstance(node, Accumulate)))
    assert loads <= found
    assert found <= operations_of(*(node.origin for node in walk(kernel)))


@every_kernel
def test_only_declarations_and_braces_have_no_origin(kernel: Kernel) -> None:
    structure = re.compile(
        r"\s*(|}|#pragma unroll( 4)?|constexpr int .*|//.*|extern .*|\w+_kernel\(|(template <.*> )?__device__ .*;"
        r"|((const (int|float)\* __restrict__|int\*|float\*|int) \w+(, ?|\) {))+)"
    )
    for line in cuda(kernel).lines:
        assert bool(line.origin) != bool(structure.fullmatch(line.text)), line.text


@every_kernel
def test_ptx_gives_origins_to_instructions_alone(kernel: Kernel) -> None:
    code = generate_ptx(cuda(kernel), Report(Options()))
    for line in code.lines:
        if line.origin:
            assert re.match(r"\s+(@!?%p\d+\s+)?[a-z]", line.text), line.text


def test_the_text_of_transr_reads_like_the_loops() -> None:
    kernel, _, functions = text(cuda(kernels.transr(64, 33))).partition("\n// Device functions")
    body = kernel.partition("return;\n")[2]
    assert "lanes_sum" in functions
    assert (
        body
        == """\
  const int ih = h[b];
  const int it = t[b];
  const int ir = r[b];
  float y[2] = {};
  #pragma unroll 4
  for (int d = 0; d < D; d++) {
    const float e = E[(long long)ih * D + d];
    const float e1 = E[(long long)it * D + d];
    const float u = e - e1;
    #pragma unroll
    for (int slot = 0; slot < 2; slot++) {
      const int k1 = lane + 32 * slot;
      if (k1 < K) {
        const float p = P[((long long)ir * D + d) * K + k1];
        y[slot] = fmaf(u, p, y[slot]);
      }
    }
  }
  float s = 0.0f;
  #pragma unroll
  for (int slot1 = 0; slot1 < 2; slot1++) {
    const int k2 = lane + 32 * slot1;
    if (k2 < K) {
      const float r1 = R[(long long)ir * K + k2];
      const float v = y[slot1] + r1;
      s = fmaf(v, v, s);
    }
  }
  s = lanes_sum<32>(s);
  if (lane == 0) out[b] = sqrtf(s);
}
"""
    )


def test_a_row_that_lanes_read_from_each_other_is_shared_and_in_step() -> None:
    kernel = kernels.two_products(33, 100)
    assert tiles(kernel) == {"y": "shared", "z": "register"}
    lines = [line.text.strip() for line in cuda(kernel).lines]
    read = lines.index("for (int k2 = 0; k2 < K; k2++) {")
    assert lines[read - 2 : read] == ["__syncwarp();", "#pragma unroll 4"]
    assert lines.count("__syncwarp();") == 1  # each lane clears and fills its own elements


def test_a_sum_over_lanes_into_an_element_of_a_row_is_complete_before_it_is_read() -> None:
    lines = [line.text.strip() for line in cuda(kernels.not_interchanged(40, 50)).lines]
    read = lines.index("const float y1 = y[warp][k];")
    assert lines[read - 3 : read] == [
        "y_part = lanes_sum<32>(y_part);",
        "if (lane == 0) y[warp][k] += y_part;",
        "__syncwarp();",
    ]
    assert "__syncwarp();" in lines[read + 1 : read + 3]  # before lane 0 clears the next element


def test_one_warp_reduction_ends_all_the_loops_of_a_sum() -> None:
    lines = [line.text for line in cuda(kernels.outer_rows(6, 40)).lines]
    assert [line for line in lines if "= lanes_sum" in line] == ["  s = lanes_sum<32>(s);"]


@pytest.mark.parametrize(
    ("columns", "memory", "warps"),
    [(2048, "register", 4), (2049, "shared", 5), (6144, "shared", 2), (12288, "shared", 1)],
)
def test_rows_move_to_shared_memory_and_blocks_shrink(columns: int, memory: str, warps: int) -> None:
    kernel = kernels.transr(8, columns)
    assert tiles(kernel) == {"y": memory}
    assert cuda(kernel).launches[0].threads == 32 * warps


def test_rows_too_large_for_a_block_are_in_memory() -> None:
    assert cuda(kernels.transr(8, 12289)).launches[0].shared_bytes == 49_168  # a tile is whole vectors of 16 bytes
    (launch,) = cuda(kernels.transr(8, 58_113)).launches
    assert launch.shared_bytes < 49_168


def test_offsets_are_64_bits_wide() -> None:
    entities_times_size = text(cuda(kernels.transr(2_000, 1_000)))
    assert "const int ih = h[b];" in entities_times_size
    assert "P[((long long)ir * D + d) * K + k1]" in entities_times_size
    without_sets = kernels.kernel(
        "Wide",
        {"D": 70_000},
        [kernels.buffer("param", "W", "D", "D"), kernels.buffer("param", "V", "N"), kernels.RESULT],
        kernels.accumulator("s"),
        kernels.loop(
            "d",
            "D",
            kernels.loop("k", "D", kernels.load("w", "W", "d", "k"), kernels.accumulate("s", "copy", "w")),
        ),
        kernels.index("n", "mul", 70_000, 70_000),
        kernels.load("v", "V", "n"),
        kernels.accumulate("s", "copy", "v"),
        kernels.store("out", ("b",), "copy", "s"),
    )
    assert "W[(long long)d * D + k]" in text(unguarded(without_sets))
    assert "V[(long long)70000 * 70000]" in text(unguarded(without_sets))


def test_only_flattened_places_are_64_bits_wide() -> None:
    flattened = kernels.kernel(
        "Flat",
        {"D": 6},
        [kernels.buffer("index", "h", "B"), kernels.buffer("param", "E", "entity", "D"), kernels.RESULT],
        kernels.load("ih", "h", "b"),
        kernels.index("scaled", "mul", "ih", 12),
        kernels.index("flat", "add", "scaled", 5),
        kernels.index("column", "mod", "flat", 6),
        kernels.index("row", "div", "flat", 6),
        kernels.load("e", "E", "row", "column"),
        kernels.store("out", ("b",), "copy", "e"),
    )
    written = text(unguarded(flattened))
    assert "const int ih = h[b];" in written
    assert "const long long flat = (long long)ih * 12 + 5;" in written
    assert "const int column = flat % 6;" in written
    assert "E[flat / 6 * D + column]" in written


def test_names_of_the_language_are_renamed() -> None:
    words = text(cuda(kernels.awkward_names()))
    assert "const float* __restrict__ v_int," in words
    assert " v_float = 40" in words
    assert "lambda_kernel(" in words


def test_launch_names_the_arguments_in_order() -> None:
    (launch,) = cuda(kernels.halves(20)).launches
    assert launch.arguments == ("h", "r", "t", "E", "W", "out", "B", "relation")
    assert (launch.symbol, str(launch.blocks), launch.threads) == ("Halves_kernel", "ceil(B / 32)", 128)


def test_a_refused_text_is_unsupported_with_the_log() -> None:
    with pytest.raises(Unsupported, match=r"NVRTC refuses the kernel: (?s:.*)nonsense"):
        compile_text("nonsense", "sm_90")


def test_an_unknown_architecture_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="no PTX for sm_20"):
        compile_text("", "sm_20")


def test_without_the_bindings_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(Unsupported, match="needs the packages cuda-bindings and nvidia-cuda-nvrtc"):
        compile_text("// not compiled before", "sm_90")


def test_without_nvrtc_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc
    from cuda.pathfinder import DynamicLibNotFoundError

    def not_found(*_: object) -> None:
        raise DynamicLibNotFoundError("libnvrtc.so is nowhere")

    monkeypatch.setattr(nvrtc, "nvrtcCreateProgram", not_found)
    with pytest.raises(Unsupported, match=r"NVRTC does not load: libnvrtc\.so is nowhere"):
        compile_text("// nor this", "sm_90")
