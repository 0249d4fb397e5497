"""Loads that say what the L2 cache is to keep, in inline PTX."""

from __future__ import annotations

from explorer.compiler.codegen.cuda.narrow import bits_type
from explorer.compiler.codegen.cuda.vectors import ELEMENTS, Text, vector_type

REGISTERS = {"f32": ("f", "f32"), "f16": ("h", "u16"), "bf16": ("h", "u16"), "i8": ("h", "s8")}
"""What inline PTX calls a register of an element, and the element."""


def load_kept(width: int, storage: str = "f32") -> Text:
    """A load of `width` elements that nobody writes: the cache keeps them longest where `mark` is not negative, and
    else gives them up first. The two policies are constants to the assembler."""
    kind = vector_type(width) if storage == "f32" else bits_type(storage, width)
    letter, suffix = REGISTERS[storage]
    elements = [f"a.{element}" for element in ELEMENTS[:width]] if width > 1 else ["a"]
    places = ", ".join(f"%{place}" for place in range(width))
    vector, target = (f".v{width}", f"{{{places}}}") if width > 1 else ("", places)
    if storage == "i8":  # a register has 16 bits at least
        words = [f"x{place}" for place in range(width)]
        declared, given = f"unsigned short {', '.join(words)};", zip(elements, words, strict=True)
        after = [f"  {element} = (signed char){word};" for element, word in given]
        results = ", ".join(f'"=h"({word})' for word in words)
    else:
        declared, after = "", []
        results = ", ".join(f'"={letter}"({element})' for element in elements)
    return (
        f"__device__ __forceinline__ {kind} load_kept(const {kind}* place, int mark) {{",
        "  unsigned long long last, first;",
        '  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));',
        '  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));',
        f"  {kind} a;{declared and ' '}{declared}",
        f'  asm volatile("ld.global.nc.L2::cache_hint{vector}.{suffix} {target}, [%{width}], %{width + 1};"',
        f'               : {results} : "l"(place), "l"(mark < 0 ? first : last));',
        *after,
        "  return a;",
        "}",
    )
