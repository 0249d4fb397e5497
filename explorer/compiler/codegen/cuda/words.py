"""CUDA C++ as far as the kernels need it: words that may not be names, constants, and the scalar functions.

The device functions that a text may have, each written only where it is called (emulators and readers know them by
these names; R is sum, product, max or min, V is float2 or float4):

- `lanes_R<LANES, APART = 1>(x)`: the reduction over LANES lanes APART apart, in all of them; x is a float or a V. The
  whole warp is there to take part, or, with `neighbours<LANES * APART>()` behind x, only so many neighbouring lanes.
- `lanes_R_in<LANES, APART = 1>(x, parts)`: the same, not by exchanges but through `parts`, 32 floats of the warp's in
  shared memory.
- `last_at_most(offsets, value, lower, upper)`: the last place of lower..upper with an offset of at most the value.
- `last_from(offsets, value, lower, upper)`: the same by strides that grow, where the place is probably near `lower`.
- `load_kept(place, mark)`: a float or a V that caches keep longest, or give up first where the mark is negative.
- `add_vector(target, a)`: the atomic sum of a V into memory.
- `operator+` and its like, `FUNCTION_V(a, ...)`, `fma_V(a, b, c)`, `broadcast_V(a)`: element by element.
- `multiply_tf32<...>(sums, left, right)`, `multiply_tf32x3<...>`: a warp's product of tiles in shared memory, of
  `as_tf32(x)` or `below_tf32(x)`, and `mma_tf32(s0, s1, s2, s3, a, b)`, the instruction.
- `multiply_rows_tf32<...>(sums, left, right)`, `multiply_rows_tf32x3<...>`: the same by four warps, in
  `mma_ROWS_rows(sums, strip, half, a0, a1, a2, a3, left)` between `begin_mma()` and `end_mma()`;
  `show_to_tensor_cores()` is before the barrier after which they read what a thread has stored.
- `copy_async(target, source)`: starts to copy 16 bytes into shared memory; `wait_for_copies()`: until the thread's own
  have arrived.
- `from_f16(x)`, `from_bf16(x)`, `from_i8(x)`: the float, or the V, of elements that are stored so.
- `R_elements(a)`, `add_products(a, b, sum)`: of a vector's elements to a float.
"""

from __future__ import annotations

import math
import struct

from explorer.compiler.ir import functions


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq main"""
)
MACROS = _words("NULL NOMINMAX STD THROWBADALLOC RESOURCE_ABI_BYTES alloca assert offsetof warpSize")
"""Macros that NVRTC 13.5 defines before a kernel's first line, found in its built-in headers."""
MACRO_FAMILIES = ("cuda", "CUDA", "CU_", "NV_", "va_")
USED = (
    _words(
        """threadIdx blockIdx lane warp thread fmaf atomicAdd float2 float4 make_float2 make_float4 __ldcs __stcs
    last_at_most last_from load_kept add_vector add_products shared_memory min max copy_async wait_for_copies
    mma_tf32 as_tf32 below_tf32 multiply_tf32 multiply_tf32x3 multiply_rows_tf32 multiply_rows_tf32x3 begin_mma
    end_mma show_to_tensor_cores neighbours from_f16 from_bf16 from_i8 ushort2 ushort4 char2 char4"""
    )
    | functions.callees("cuda")
    | {f"lanes_{reduction}" for reduction in ("sum", "product", "max", "min")}
    | {f"lanes_{reduction}_in" for reduction in ("sum", "product", "max", "min")}
    | {f"{reduction}_elements" for reduction in ("sum", "product", "max", "min")}
    | {f"mma_{rows}_rows" for rows in range(8, 257, 8)}
)
"""What the generated text itself names."""

FUNCTIONS = {
    **{name: function.cuda for name, function in functions.FUNCTIONS.items()},
    "unless_empty": "{1} < {2} ? {0} : 0.0f",
    "segment_mean": "{0} / (float)({1} < {2} ? {2} - {1} : 1)",
    "as_tf32": "as_tf32({0})",
    "below_tf32": "below_tf32({0})",
}
"""Each function of the loops on f32."""

REDUCTIONS = {"sum": "{0} + {1}", "product": "{0} * {1}", "max": "fmaxf({0}, {1})", "min": "fminf({0}, {1})"}
NEUTRAL = {"sum": 0.0, "product": 1.0, "max": -math.inf, "min": math.inf}


def refused(name: str) -> bool:
    """Whether the language or NVRTC has taken a name."""
    return name in KEYWORDS or name in MACROS or name.startswith(MACRO_FAMILIES)


def constant(value: float) -> str:
    """An f32 literal; NVRTC without headers has no INFINITY."""
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    if math.isfinite(rounded):
        text = f"{float(value)!r}f"
        return f"({text})" if text.startswith("-") else text
    (bits,) = struct.unpack("I", struct.pack("f", rounded))
    return f"__int_as_float(0x{bits:08x})"


def is_taken(name: str) -> bool:
    """Whether a name may not be a variable's: the language's words, NVRTC's macros, functions on vectors."""
    return refused(name) or name.endswith(("_float2", "_float4"))


def lanes_reduction(reduction: str) -> tuple[str, ...]:
    """A device function that gives lanes the reduction of their values, by exchanges with ever nearer ones."""
    combined = REDUCTIONS[reduction].format("x", "__shfl_xor_sync(lanes, x, by)")
    return (
        "template <int LANES, int APART = 1>",
        f"__device__ __forceinline__ float lanes_{reduction}(float x, unsigned lanes = 0xffffffffu) {{",
        f"  for (int by = LANES * APART / 2; by > APART / 2; by >>= 1) x = {combined};",
        "  return x;",
        "}",
    )


def lanes_reduction_in(reduction: str) -> tuple[str, ...]:
    """A device function that gives lanes the reduction of their values, by an element of shared memory for each."""
    combined = REDUCTIONS[reduction].format("x", "parts[first + part * APART]")
    return (
        "template <int LANES, int APART = 1>",
        f"__device__ __forceinline__ float lanes_{reduction}_in("
        "float x, float* parts, unsigned lanes = 0xffffffffu) {",
        "  const int lane = threadIdx.x % 32, first = lane / (LANES * APART) * (LANES * APART) + lane % APART;",
        "  parts[lane] = x;",
        "  __syncwarp(lanes);",
        "  x = parts[first];",
        f"  for (int part = 1; part < LANES; part++) x = {combined};",
        "  __syncwarp(lanes);",
        "  return x;",
        "}",
    )


NEIGHBOURS = (
    "template <int LANES>",
    "__device__ __forceinline__ unsigned neighbours() {",
    "  return 0xffffffffu >> (32 - LANES) << threadIdx.x % 32 / LANES * LANES;",
    "}",
)
"""The lanes of the LANES neighbouring ones that the calling lane is among."""
LAST_AT_MOST = (
    "__device__ __forceinline__ int last_at_most(const int* offsets, int value, int lower, int upper) {",
    "  while (upper - lower > 8) {",
    "    const int eighth = (upper - lower) / 8;",
    "    int passed = 0;",
    "    for (int probe = 1; probe < 8; probe++) passed += offsets[lower + probe * eighth] <= value;",
    "    if (passed < 7) upper = lower + (passed + 1) * eighth;",
    "    if (passed > 0) lower += passed * eighth + 1;",
    "  }",
    "  int passed = 0;",
    "  for (int probe = 0; probe < 8; probe++) passed += lower + probe < upper && offsets[lower + probe] <= value;",
    "  return lower + passed - 1;",
    "}",
)
"""By eighths, whose seven loads are under way together: the last place in lower..upper whose offset is at most the
value, lower - 1 where none is."""
LAST_FROM = (
    "__device__ __forceinline__ int last_from(const int* offsets, int value, int lower, int upper) {",
    "  int stride = 32;",
    "  for (; upper - lower > stride && offsets[lower + stride] <= value; stride = min(stride, 1 << 23) * 8)",
    "    lower += stride;",
    "  return last_at_most(offsets, value, lower, upper - lower > stride ? lower + stride : upper);",
    "}",
)
"""For a search from a place that was found: the next boundary of the same offsets is some rows further."""
COPY = (
    "__device__ __forceinline__ void copy_async(float* target, const float* source) {",
    "  const unsigned place = (unsigned)__cvta_generic_to_shared(target);",
    '  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place), "l"(source) : "memory");',
    "}",
)
WAIT_FOR_COPIES = (
    "__device__ __forceinline__ void wait_for_copies() {",
    '  asm volatile("cp.async.wait_all;" ::: "memory");',
    "}",
)
