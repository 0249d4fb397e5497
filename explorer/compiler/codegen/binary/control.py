"""What a machine instruction tells the scheduler of warps: its control bits, out of its 128-bit word.

From Volta on, and so for sm_80 and sm_90, hardware does not look for what an instruction depends on: the compiler
writes into each when the next may issue, and which of six barriers it waits for, or sets until its result is written or
its operands are read. NVIDIA documents none of it. The bits were found by Jia, Maggioni, Staiger and Scarpazza,
"Dissecting the NVIDIA Volta GPU architecture via microbenchmarking" (2018), §2.1, who follow maxas (Gray) for Maxwell;
here bit 0 is that of the upper of two 64-bit words, as nvdisasm prints them:

    41 to 44  cycles until the next instruction may issue
    45        0 where the scheduler may prefer another warp
    46 to 48  the barrier that is set until the result is written; 7 is none
    49 to 51  the same until the operands are read
    52 to 57  the barriers that it waits for, a bit each
    58 to 61  operands that are kept for the next instruction, which nvdisasm prints as .reuse
"""

from __future__ import annotations

from explorer.compiler.frozen import dataclass

BARRIERS = 6
NO_BARRIER = 7
LEGEND = "// control: waits for barriers, sets one until it has read (r) or written (w), y may yield, stall cycles"
"""What stands above a kernel's instructions, whose columns it explains."""


@dataclass(frozen=True)
class Control:
    """The control bits of one instruction; a barrier is None where it sets none."""

    stall: int
    yields: bool
    written: int | None
    read: int | None
    waits: tuple[int, ...]
    reuse: int

    def __str__(self) -> str:
        """In 17 letters: `-1---- r- w2 y 05`."""
        waits = "".join(str(barrier) if barrier in self.waits else "-" for barrier in range(BARRIERS))
        return f"{waits} r{_named(self.read)} w{_named(self.written)} {'y' if self.yields else '-'} {self.stall:02}"


def control_of(upper: int) -> Control:
    """The control bits of an instruction whose upper word this is."""
    return Control(
        upper >> 41 & 15,
        not upper >> 45 & 1,
        _barrier(upper >> 46 & 7),
        _barrier(upper >> 49 & 7),
        tuple(barrier for barrier in range(BARRIERS) if upper >> 52 + barrier & 1),
        upper >> 58 & 15,
    )


def _barrier(number: int) -> int | None:
    return None if number == NO_BARRIER else number


def _named(barrier: int | None) -> str:
    return "-" if barrier is None else str(barrier)
