"""Products on tensor cores in CUDA: fragments loaded in pairs from shared memory, and the instruction in inline PTX."""

from __future__ import annotations

from explorer.compiler.ir.kernels import Precision

Text = tuple[str, ...]

MMA: Text = (
    "__device__ __forceinline__ void mma_tf32(",
    "    float& s0, float& s1, float& s2, float& s3, const float (&a)[4], const float (&b)[2]) {",
    '  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"',
    '      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"',
    '      : "+f"(s0), "+f"(s1), "+f"(s2), "+f"(s3)',
    '      : "r"(__float_as_int(a[0])), "r"(__float_as_int(a[1])), "r"(__float_as_int(a[2])),',
    '        "r"(__float_as_int(a[3])), "r"(__float_as_int(b[0])), "r"(__float_as_int(b[1])));',
    "}",
)
"""Adds a product of 16 x 8 and 8 x 8 to sums; of each operand it reads the bits that TF32 has."""

ROUNDED: Text = (
    "__device__ __forceinline__ float as_tf32(float x) {",
    "  const int bits = __float_as_int(x);",
    "  return __int_as_float(x == x ? bits + 0x1000 : bits);",
    "}",
)
"""The nearest TF32 number, in the bits that the instruction reads: an integer addition, but NaN stays NaN."""

REST: Text = (
    "__device__ __forceinline__ float below_tf32(float x) {",
    "  return x - __int_as_float(__float_as_int(x) & 0xffffe000);",
    "}",
)
"""What is left of a number behind the bits that the instruction reads."""


def multiply(precision: Precision) -> dict[str, Text]:
    """The functions that a warp multiplies two tiles with, by name; the one to call is `multiply_PRECISION`.

    `sums` are a lane's: of TALL times 16 rows a pair each, of WIDE times 16 columns four. Operands lie along the depth,
    LEFT and RIGHT floats apart. A lane's two places along the depth are neighbours, where the instruction's are 4
    apart: the sum is the same, and the pairs of both operands come from different banks."""
    name = f"multiply_{precision}"
    part, text = ("as_tf32", ROUNDED) if precision == "tf32" else ("below_tf32", REST)
    return {"mma_tf32": MMA, part: text, name: _text(name, part, precision == "tf32x3")}


def _text(name: str, part: str, split: bool) -> Text:
    """The function. With `split`, small times large comes first, so that it is not lost beside the large sums; each of
    the passes is over all sums, so that none waits for the one before it. One pass needs fewer registers."""
    rows = (
        "      #pragma unroll",
        "      for (int k = 0; k < 2; k++) {",
        "        const float2 u = *reinterpret_cast<const float2*>(&left[(d + k) * LEFT + tall * 16]);",
        *_pair("a", "[tall][2 * k]", "[tall][2 * k + 1]", "u", part, split),
        "      }",
    )
    passes = (("a_low", "b"), ("a", "b_low"), ("a", "b"))
    products = [_each_tall(rows), *(_each_tall(_pass(*factors)) for factors in passes)]
    return (
        "template <int TALL, int WIDE, int DEPTH, int LEFT, int RIGHT>",
        f"__device__ __forceinline__ void {name}(",
        "    float4 (*sums)[2][WIDE], const float* left, const float* right) {",
        "  left += threadIdx.x % 4 * 2 * LEFT + threadIdx.x % 32 / 4 * 2;",
        "  right += threadIdx.x % 4 * 2 * RIGHT + threadIdx.x % 32 / 4 * 2;",
        "  #pragma unroll 2",
        "  for (int d = 0; d < DEPTH; d += 8) {",
        f"    float a[TALL][4], b[WIDE][2][2]{', a_low[TALL][4], b_low[WIDE][2][2]' if split else ''};",
        "    #pragma unroll",
        "    for (int piece = 0; piece < WIDE; piece++) {",
        "      #pragma unroll",
        "      for (int k = 0; k < 2; k++) {",
        "        const float2 w = *reinterpret_cast<const float2*>(&right[(d + k) * RIGHT + piece * 16]);",
        *_pair("b", "[piece][0][k]", "[piece][1][k]", "w", part, split),
        "      }",
        "    }",
        *(line for lines in products for line in lines if split),
        *(() if split else _each_tall((*rows, *_pass("a", "b")))),
        "  }",
        "}",
    )


def _each_tall(body: Text) -> Text:
    return ("    #pragma unroll", "    for (int tall = 0; tall < TALL; tall++) {", *body, "    }")


def _pair(name: str, first: str, second: str, value: str, part: str, split: bool) -> Text:
    """Keeps a pair of an operand: rounded, or with what is below it."""
    elements = ((first, f"{value}.x"), (second, f"{value}.y"))
    if not split:
        return tuple(f"        {name}{place} = {part}({x});" for place, x in elements)
    whole = (f"        {name}{place} = {x};" for place, x in elements)
    return (*whole, *(f"        {name}_low{place} = {part}({x});" for place, x in elements))


def _pass(a: str, b: str) -> Text:
    """Adds the products of two fragments to the sums of 16 rows: of even columns, and of odd ones."""
    return (
        "      #pragma unroll",
        "      for (int piece = 0; piece < WIDE; piece++) {",
        "        float4 &even = sums[tall][0][piece], &odd = sums[tall][1][piece];",
        f"        mma_tf32(even.x, even.z, odd.x, odd.z, {a}[tall], {b}[piece][0]);",
        f"        mma_tf32(even.y, even.w, odd.y, odd.w, {a}[tall], {b}[piece][1]);",
        "      }",
    )
