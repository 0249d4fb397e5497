"""What the machine code of an operation consists of: its own SASS instructions by what they are for.

The opcodes are those of "CUDA Binary Utilities", Instruction Set Reference, Ampere and Hopper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from explorer.compiler.ir.node import Line

OPCODE = re.compile(r"\s*(?:/\*[^*]*\*/\s+)+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
CLASSES: tuple[tuple[str, str], ...] = (
    ("tensor cores", r"[HDIB]G?MMA|WARPGROUP|WARPSYNC_MMA"),
    ("global memory", r"LDG|STG|LD|ST|LDGSTS|LDGDEPBAR|RED|ATOMG?|CCTL|UBLKCP|UTMA\w*"),
    ("shared memory", r"LDS|STS|LDSM|STSM|ATOMS|LDL|STL"),
    (
        "float arithmetic",
        r"F(ADD|FMA|MUL|MNMX|SETP?|SEL|CHK|SWZADD)\w*|MUFU|H(ADD|FMA|MUL|MNMX|SET|SETP)2\w*|D(ADD|FMA|MUL|SETP)",
    ),
    ("between lanes", r"SHFL|VOTEU?|REDUX|MATCH"),
    ("waiting", r"BAR|DEPBAR|SYNCS|WARPSYNC|NANOSLEEP|ERRBAR|MEMBAR|YIELD|BSSY|BSYNC"),
    ("branches", r"BRA|BRX|JMP|CALL|RET|EXIT|BREAK|BMOV|WARPSYNC"),
    ("constants and special registers", r"S2R|S2UR|CS2R|LDC|ULDC|R2UR|R2P|P2R"),
    ("conversions", r"F2F|F2I|I2F|I2I|F2FP|I2FP|FRND|I2IP"),
    ("addresses and integers", r".*"),
)
"""By what they are for the opcodes, the first that fits; whole numbers are mostly addresses and what loops count."""
_CLASSES = [(name, re.compile(opcodes)) for name, opcodes in CLASSES]


def opcode_of(text: str) -> str:
    """The opcode of a line of SASS, without its modifiers; "" of what is no instruction."""
    found = OPCODE.match(text)
    return found[1] if found else ""


def instruction_mix(lines: Iterable[Line]) -> dict[str, int]:
    """How many instructions of each class, the most first."""
    counts: Counter[str] = Counter()
    for line in lines:
        if opcode := opcode_of(line.text):
            counts[next(name for name, pattern in _CLASSES if pattern.fullmatch(opcode))] += 1
    return dict(counts.most_common())
