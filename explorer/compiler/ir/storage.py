"""What an element of a given tensor takes in memory: float32, or one of the narrower forms that a load converts.

Values are float32 whatever they are stored in: `T[row, D]: bf16` holds rounded numbers, and sums of them are
not.
"""

from __future__ import annotations

from typing import NamedTuple


class Storage(NamedTuple):
    """One form: how many bytes an element has, the NumPy type that holds its bits, and what it is."""

    bytes: int
    bits: str
    about: str


STORAGES = {
    "f32": Storage(4, "float32", "32-bit floats"),
    "f16": Storage(2, "uint16", "16-bit floats of IEEE 754: 11 bits of a number, up to 65,504"),
    "bf16": Storage(2, "uint16", "the upper halves of 32-bit floats: 8 bits of a number, any size"),
    "i8": Storage(1, "int8", "whole numbers from -128 to 127"),
}
NARROW = tuple(name for name in STORAGES if name != "f32")
ALIASES = {"float32": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16", "int8": "i8"}
"""Other names of these forms."""
LEARNT = ("f32", "f16", "bf16")
"""Forms that an optimiser can change: its steps are no whole numbers."""
ROUNDED = ("f16", "bf16")
"""Forms of numbers that are rounded to them; whole ones are given as such."""


def element_bytes(storage: str) -> int:
    """The bytes that an element takes."""
    return STORAGES[storage].bytes
