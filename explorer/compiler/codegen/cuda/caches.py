"""Loads that say what the L2 cache is to keep, in inline PTX."""

from __future__ import annotations

from explorer.compiler.codegen.cuda.vectors import ELEMENTS, Text, vector_type


def load_kept(width: int) -> Text:
    """A load of `width` floats that nobody writes: the cache keeps them longest where `mark` is not negative, and else
    gives them up first. The two policies are constants to the assembler."""
    kind = vector_type(width)
    elements = [f"a.{element}" for element in ELEMENTS[:width]] if width > 1 else ["a"]
    places = ", ".join(f"%{place}" for place in range(width))
    vector, target = (f".v{width}", f"{{{places}}}") if width > 1 else ("", places)
    results = ", ".join(f'"=f"({element})' for element in elements)
    return (
        f"__device__ __forceinline__ {kind} load_kept(const {kind}* place, int mark) {{",
        "  unsigned long long last, first;",
        '  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));',
        '  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));',
        f"  {kind} a;",
        f'  asm volatile("ld.global.nc.L2::cache_hint{vector}.f32 {target}, [%{width}], %{width + 1};"',
        f'               : {results} : "l"(place), "l"(mark < 0 ? first : last));',
        "  return a;",
        "}",
    )
