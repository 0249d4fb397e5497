"""CUDA C++ as far as the kernels need it: words that may not be names, constants, and the scalar functions."""

from __future__ import annotations

import math
import struct


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
USED = _words(
    """threadIdx blockIdx lane warp expf logf sqrtf fabsf fmaf fmaxf fminf tanhf erff sinf cosf warp_sum warp_max
    warp_min warp_product"""
)
"""What the generated text itself names."""

FUNCTIONS = {
    "copy": "{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "exp": "expf({0})",
    "log": "logf({0})",
    "sqrt": "sqrtf({0})",
    "abs": "fabsf({0})",
    "sign": "{0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : {0}",
    "relu": "{0} < 0.0f ? 0.0f : {0}",
    "leaky_relu": "{0} < 0.0f ? {1} * {0} : {0}",
    "sigmoid": "1.0f / (1.0f + expf(-{0}))",
    "tanh": "tanhf({0})",
    "gelu": "0.5f * {0} * (1.0f + erff({0} * 0.70710678f))",
    "sin": "sinf({0})",
    "cos": "cosf({0})",
    "min": "fminf({0}, {1})",
    "max": "fmaxf({0}, {1})",
    "step": "{0} > 0.0f ? 1.0f : 0.0f",
    "equal": "{0} == {1} ? 1.0f : 0.0f",
    "div_or_zero": "{1} == 0.0f ? 0.0f : {0} / {1}",
    "gelu_slope": "0.5f * (1.0f + erff({0} * 0.70710678f)) + 0.39894228f * {0} * expf(-0.5f * {0} * {0})",
    "unless_empty": "{1} < {2} ? {0} : 0.0f",
    "segment_mean": "{0} / (float)({1} < {2} ? {2} - {1} : 1)",
}
"""Each function of the loops on f32. A NaN passes through all but min and max, where CUDA's fminf and fmaxf return
the other operand. exp overflows to infinity, so sigmoid ends at 0 and never at NaN."""

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


def warp_reduction(reduction: str) -> tuple[str, ...]:
    """A device function that gives all lanes the reduction of their values, by five exchanges."""
    combined = REDUCTIONS[reduction].format("x", "__shfl_xor_sync(0xffffffffu, x, mask)")
    return (
        f"__device__ __forceinline__ float warp_{reduction}(float x) {{",
        "  for (int mask = 16; mask > 0; mask >>= 1)",
        f"    x = {combined};",
        "  return x;",
        "}",
    )
