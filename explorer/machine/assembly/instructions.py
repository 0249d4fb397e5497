"""An instruction of either unit, as a record."""

from __future__ import annotations


class Instruction:
    """An opcode and its operands, in the order in which `opcodes` lists them."""

    opcode: int
    a: int
    b: int
    c: int
    d: int
    e: int
