"""The instructions of each kernel in the text of SASS, with their addresses, and what tells a kernel from any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from explorer.compiler.codegen.binary.control import LEGEND
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.node import Line

INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:/\*([^*]*)\*/)?\s*(\S.*)")
NAMED = re.compile(r"([^\s.][^\s:]*):")


@dataclass(frozen=True)
class Instruction:
    """An instruction: its line in the text, from 1, its address from the kernel's beginning, its control bits, and what
    it says."""

    line: int
    address: int
    control: str
    text: str

    @property
    def opcode(self) -> str:
        """With its modifiers and without its predicate: `IMAD.WIDE`."""
        words = self.text.rstrip(";").split()
        return words[1] if words[0].startswith("@") else words[0]


@dataclass(frozen=True)
class MachineCode:
    """A kernel's instructions, in the order of their addresses."""

    symbol: str
    instructions: tuple[Instruction, ...]

    @property
    def digest(self) -> str:
        """What is the same for the same instructions at the same addresses with the same control bits, and for no
        others; names do not count."""
        told = "\n".join(f"{each.address:x} {each.control} {each.text}" for each in self.instructions)
        return sha256(told.encode()).hexdigest()


def kernels_in(lines: Sequence[Line]) -> list[MachineCode]:
    """The kernels of the text of the stage `sass`, in their order there."""
    starts = [number for number, line in enumerate(lines) if line.text == LEGEND]
    ends = [*starts[1:], len(lines)]
    return [_kernel(lines, start, end) for start, end in zip(starts, ends, strict=True)]


def _kernel(lines: Sequence[Line], start: int, end: int) -> MachineCode:
    symbol, found = "", []
    for number in range(start + 1, end):
        text = lines[number].text
        if instruction := INSTRUCTION.fullmatch(text):
            address, control, told = instruction.groups()
            found.append(Instruction(number + 1, int(address, 16), control or "", " ".join(told.split())))
        elif not symbol and (named := NAMED.fullmatch(text)):
            symbol = named[1]
    return MachineCode(symbol, tuple(found))
