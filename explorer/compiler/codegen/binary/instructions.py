"""The instructions of a cubin as numbers, without nvdisasm, which takes 0.4 s a file: a thousandth of that.

A cubin is an ELF file with a section `.text.KERNEL` a kernel, of 16 bytes an instruction. What its bits mean NVIDIA
does not document: the scheduler's are those of `control`, and the others were read off what nvdisasm prints of sm_80
and sm_90, which the tests hold them against. Bit 0 is that of the lower of two 64-bit words:

     0 to   8  what it does, whatever its operands are
    34 to  81  how far a branch goes, in words of 4 bytes from the next instruction on, two's complement;
    16 to  23  from sm_90 on, the lower bits of that
    73 to  75  of memory: how wide it is, 4 for 32 bits, 5 for 64, 6 for 128
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BYTES = 16
OPERATIONS = {
    **{0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA", 0x009: "FMNMX", 0x00B: "FSETP", 0x008: "FSEL", 0x108: "MUFU"},
    **{0x002: "MOV", 0x005: "CS2R", 0x007: "SEL", 0x00C: "ISETP", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3"},
    **{0x019: "SHF", 0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD", 0x036: "VIADD", 0x046: "VIADDMNMX", 0x048: "VIMNMX"},
    **{0x03C: "HMMA", 0x118: "NOP", 0x11D: "BAR", 0x141: "BSYNC", 0x144: "CALL", 0x145: "BSSY", 0x147: "BRA"},
    **{0x14D: "EXIT", 0x148: "WARPSYNC", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x186: "STG"},
    **{0x187: "STL", 0x188: "STS", 0x189: "SHFL", 0x18C: "ATOMS", 0x1A6: "REDG", 0x1A8: "ATOMG", 0x1AE: "LDGSTS"},
}
"""What bits 0 to 8 say, of the operations that kernels are made of; all others are "other"."""
_WIDTHS = np.array([1, 1, 2, 2, 4, 8, 16, 16], np.int64)
_BRANCH = 0x147


@dataclass(frozen=True, eq=False)
class Instructions:
    """A kernel's instructions in their order, its padding left out: the words of each, uint64 [instructions, 2], for
    compute capability `arch`, 90 for sm_90."""

    words: NDArray[np.uint64]
    arch: int

    def __len__(self) -> int:
        return len(self.words)

    @property
    def codes(self) -> NDArray[np.int64]:
        """What each does, [instructions], a key of OPERATIONS or none."""
        return (self.words[:, 0] & np.uint64(0x1FF)).astype(np.int64)

    def are(self, *names: str) -> NDArray[np.bool_]:
        """Which instructions are some of these operations, [instructions]."""
        return np.isin(self.codes, [code for code, name in OPERATIONS.items() if name in names])

    @property
    def stalls(self) -> NDArray[np.int64]:
        """Cycles until the next may issue (`control`), [instructions]."""
        return (self.words[:, 1] >> np.uint64(41) & np.uint64(15)).astype(np.int64)

    @property
    def widths(self) -> NDArray[np.int64]:
        """Bytes a thread of those that touch memory, [instructions]; of others it means nothing."""
        return np.take(_WIDTHS, (self.words[:, 1] >> np.uint64(9) & np.uint64(7)).astype(np.int64))

    @property
    def targets(self) -> NDArray[np.int64]:
        """Where branches go, as an instruction's number, [instructions]; of others the next."""
        low = (self.words[:, 0] >> np.uint64(16) & np.uint64(0xFF)).astype(np.int64)
        middle = (self.words[:, 0] >> np.uint64(34)).astype(np.int64)
        high = (self.words[:, 1] & np.uint64(0x3FFFF)).astype(np.int64)
        high = np.where(high >> 17 & 1, high - (1 << 18), high)
        words = (high << 30) + middle
        words = (words << 8) + low if self.arch >= 90 else words
        own = np.arange(len(self)) + 1
        return np.where(self.codes == _BRANCH, own + words * 4 // BYTES, own)

    def loops(self) -> NDArray[np.int64]:
        """The first and the last instruction of each loop, [loops, 2]: what branches back, but not to itself, as the
        trap behind a kernel's end does. Several branches to one place are one loop."""
        own, targets = np.arange(len(self)), self.targets
        back = np.flatnonzero((targets < own) & (self.codes == _BRANCH))
        ends: dict[int, int] = {}
        for branch in back.tolist():
            begin = int(targets[branch])
            if begin >= 0:
                ends[begin] = max(branch, ends.get(begin, branch))
        return np.array(sorted(ends.items()), np.int64).reshape(-1, 2)


def read_instructions(cubin: bytes) -> dict[str, Instructions]:
    """The instructions of a cubin by kernel. Raises ValueError for what is no 64-bit little-endian ELF file."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no cubin")
    (flags,) = struct.unpack_from("<I", cubin, 48)
    (sections_at,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, sections_at + number * size) for number in range(count)]
    found = {}
    for name, _, _, _, offset, length in headers:
        begin = headers[names][4] + name
        word = cubin[begin : cubin.index(b"\0", begin)].decode()
        if word.startswith(".text."):
            words = np.frombuffer(cubin, "<u8", length // 8, offset).reshape(-1, 2)
            found[word.removeprefix(".text.")] = Instructions(words[: _end(words)], flags >> 8 & 0xFF)
    return found


def _end(words: NDArray[np.uint64]) -> int:
    """How many instructions there are before the padding: no operations behind the last other one."""
    used = np.flatnonzero((words[:, 0] & np.uint64(0x1FF)) != 0x118)
    return int(used[-1]) + 1 if used.size else 0
