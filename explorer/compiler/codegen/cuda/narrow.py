"""Elements that are stored in less than 32 bits: what CUDA calls them, and the functions that make floats of them."""

from __future__ import annotations

from explorer.compiler.codegen.cuda.vectors import ELEMENTS, Text, vector_type
from explorer.compiler.ir.loops import Buffer

SCALARS = {"f16": "unsigned short", "bf16": "unsigned short", "i8": "signed char"}
"""The type of an element's bits."""
VECTORS = {"f16": "ushort", "bf16": "ushort", "i8": "char"}
BODIES = {
    "f16": ("  float a;", '  asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(x));', "  return a;"),
    "bf16": ("  return __uint_as_float((unsigned)x << 16);",),
    "i8": ("  return (float)x;",),
}


def bits_type(storage: str, width: int) -> str:
    """The type of so many elements' bits beside each other: `unsigned short`, `ushort4`."""
    return SCALARS[storage] if width == 1 else f"{VECTORS[storage]}{width}"


def element_type(buffer: Buffer) -> str:
    """The type of an array's elements."""
    if buffer.type == "i32":
        return "int"
    return "float" if buffer.storage == "f32" else bits_type(buffer.storage, 1)


def from_bits(storage: str, width: int) -> Text:
    """A function that gives the floats of so many elements' bits."""
    name, kind = f"from_{storage}", vector_type(width)
    head = f"__device__ __forceinline__ {kind} {name}({bits_type(storage, width)} x) {{"
    if width == 1:
        return (head, *BODIES[storage], "}")
    return (head, f"  return make_{kind}({', '.join(f'{name}(x.{element})' for element in ELEMENTS[:width])});", "}")
