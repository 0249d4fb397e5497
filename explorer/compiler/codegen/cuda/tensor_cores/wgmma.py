"""Products that four warps take together in CUDA: Hopper's wgmma, in inline PTX.

The matrix's columns are the instruction's 64 rows, 16 a warp, from registers; the rows are its N columns, from shared
memory, so their number is any multiple of 8, and no warp loads them. A lane's vector of 4 columns goes to two of the
instruction's tiles, in which it has two rows each, so that sums come out as vectors of columns.

Source: the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from explorer.compiler.codegen.cuda.tensor_cores.fragments import REST as BELOW
from explorer.compiler.codegen.cuda.tensor_cores.fragments import ROUNDED, Text
from explorer.compiler.ir.kernels import Precision

PARTS: dict[str, Text] = {"as_tf32": ROUNDED, "below_tf32": BELOW}
"""The functions of TF32's parts of a number, by the IR's names."""

SHOWN: Text = (
    "__device__ __forceinline__ void show_to_tensor_cores() {",
    '  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
    "}",
)
"""Wgmma reads shared memory by a way of its own, which sees what was stored before this fence."""

BEGIN: Text = (
    "__device__ __forceinline__ void begin_mma() {",
    '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    "}",
)
END: Text = (
    "__device__ __forceinline__ void end_mma() {",
    '  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");',
    "}",
)


def multiply_together(precision: Precision, rows: int) -> dict[str, Text]:
    """The functions that four warps multiply a slab of 32 with, by name; the one to call is `multiply_rows_PRECISION`.

    `sums` are a lane's: of each 8 of the rows two, of each of STRIPS strips of 32 columns four. `left` is the rows'
    slab, swizzled, behind which the parts below it lie LOW further; `right` the warp's columns of the matrix's, RIGHT
    floats from one place along the depth to the next."""
    name = f"multiply_rows_{precision}"
    part = {"tf32": "as_tf32", "tf32x3": "below_tf32"}[precision]
    functions = {"begin_mma": BEGIN, "end_mma": END, f"mma_{rows}_rows": _instruction(rows), part: PARTS[part]}
    return {**functions, name: _text(name, rows, precision == "tf32x3")}


def _instruction(rows: int) -> Text:
    """The instruction: `half` says which two of a lane's four columns it sums, 8 deep from `left` on."""
    numbers = rows // 2
    names = ", ".join(f"%{number}" for number in range(numbers))
    given = ", ".join(f"%{numbers + place}" for place in range(4))
    sums = (_sums(tall, "," if tall < rows // 8 - 1 else "") for tall in range(rows // 8))
    factors = ", ".join(f'"r"(__float_as_int(a{place}))' for place in range(4))
    return (
        "template <int STRIPS>",
        f"__device__ __forceinline__ void mma_{rows}_rows(",
        "    float4 (*sums)[2][STRIPS], int strip, int half, float a0, float a1, float a2, float a3,",
        "    const float* left) {",
        "  float (*const s)[2][STRIPS][4] = reinterpret_cast<float (*)[2][STRIPS][4]>(sums);",
        "  const unsigned long long place = __cvta_generic_to_shared(left) >> 4 & 0x3fff;",
        "  const unsigned long long rows = place | 1ull << 16 | 64ull << 32 | 1ull << 62;",
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{rows}k8.f32.tf32.tf32"',
        f'      " {{{names}}},"',
        f'      " {{{given}}}, %{numbers + 4}, 1, 1, 1;"',
        "      :",
        *sums,
        f'      : {factors}, "l"(rows));',
        "}",
    )


def _sums(tall: int, comma: str) -> str:
    """The operands of two of 8 rows: of one column and then of the other."""
    places = (f"[{tall}][{which}][strip][half{more}]" for more in ("", " + 1") for which in range(2))
    return "        " + ", ".join(f'"+f"(s{place})' for place in places) + comma


def _text(name: str, rows: int, split: bool) -> Text:
    """The function: 16 deep at a time, for which a lane has four vectors of each strip. With `split`, small times large
    comes first, so that it is not lost beside the large sums."""
    passes = (("low", ""), ("p", " + LOW"), ("p", "")) if split else (("p", ""),)
    return (
        f"template <int STRIPS, int RIGHT{', int LOW' if split else ''}>",
        f"__device__ __forceinline__ void {name}(float4 (*sums)[2][STRIPS], const float* left, const float* right) {{",
        "  right += threadIdx.x % 4 * RIGHT + threadIdx.x % 32 / 4 * 4;",
        "  #pragma unroll 1",
        "  for (int d = 0; d < 32; d += 16) {",
        f"    float p[STRIPS][4][4]{', low[STRIPS][4][4]' if split else ''};",
        "    #pragma unroll",
        "    for (int strip = 0; strip < STRIPS; strip++) {",
        "      #pragma unroll",
        "      for (int k = 0; k < 4; k++) {",
        "        const float4 w = *reinterpret_cast<const float4*>(&right[(d + 4 * k) * RIGHT + strip * 32]);",
        *(f"        {line}" for element, x in enumerate("xyzw") for line in _kept(element, f"w.{x}", split)),
        "      }",
        "    }",
        "    begin_mma();",
        *(line for factor, behind in passes for line in _pass(rows, factor, behind)),
        "    end_mma();",
        "  }",
        "}",
    )


def _kept(element: int, value: str, split: bool) -> Text:
    """Keeps an element of the matrix: rounded, or with what is below it."""
    place = f"[strip][k][{element}]"
    if not split:
        return (f"p{place} = as_tf32({value});",)
    return f"p{place} = {value};", f"low{place} = below_tf32({value});"


def _pass(rows: int, factor: str, behind: str) -> Text:
    """Adds the products of one part of the matrix, `factor`, and one of the rows."""
    first, second = f"{factor}[strip][k]", f"{factor}[strip][k + 1]"
    return (
        "    #pragma unroll",
        "    for (int k = 0; k < 4; k += 2) {",
        "      #pragma unroll",
        "      for (int strip = 0; strip < STRIPS; strip++) {",
        *(
            f"        mma_{rows}_rows<STRIPS>(sums, strip, {half}, {first}[{half}], {first}[{half + 1}],"
            f" {second}[{half}], {second}[{half + 1}], left{behind} + d + 4 * k);"
            for half in (0, 2)
        ),
        "      }",
        "    }",
    )
