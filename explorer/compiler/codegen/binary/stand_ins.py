"""Names that stand for a model's own while NVIDIA's tools work on its kernels: what they make is kept for all names.

A model under another name has the same kernels under other names, and comments that tell them. NVRTC and nvdisasm would
take as long for it as for the first one, so they see neither: what is called by a name is called by a number that is as
long, and lines that are comments are empty. Every column, line and offset is where it was.

    // TransE: blocks of 128 threads.
    extern "C" __global__ void TransE_kernel(float* out) {      is compiled as

    extern "C" __global__ void zK000zzzzzzzz(float* out) {
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from explorer.compiler.codegen.text import Code
from explorer.compiler.frozen import dataclass

COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)


@dataclass(frozen=True)
class StandIns:
    """What stands for each name: as many characters, and no part of anything else that is in the unit."""

    of: Mapping[str, str] = field(default_factory=dict)

    def text(self, cuda: str) -> str:
        """CUDA C++ under these names, without its comments."""
        plain = COMMENT.sub("", cuda)
        return re.sub(rf"\b(?:{_any(self.of)})\b", lambda found: self.of[found[0]], plain) if self.of else plain

    def hide(self, made: bytes) -> bytes:
        """Machine code under these names."""
        return _replaced(made, self.of)

    def show(self, made: bytes) -> bytes:
        """What a tool made of it, under the model's own names: PTX, machine code, a log."""
        return _replaced(made, {stand_in: name for name, stand_in in self.of.items()})


def kernels_of(code: Code) -> list[str]:
    """The names of a unit's kernels, which its machine code has in the names of its sections."""
    return [launch.symbol for launch in code.launches]


def names_of(code: Code) -> list[str]:
    """Those, and the names of what the kernels are given."""
    return [*kernels_of(code), *(name for launch in code.launches for name in launch.arguments)]


def stand_ins(names: Sequence[str], cuda: str) -> StandIns:
    """Those of all names that are long enough; none where a text has such names itself."""
    numbered = ((name, f"zK{number:03}") for number, name in enumerate(dict.fromkeys(names)))
    found = {name: stand_in.ljust(len(name), "z") for name, stand_in in numbered if len(name) >= len(stand_in)}
    return StandIns({} if any(stand_in in cuda for stand_in in found.values()) else found)


def _any(names: Mapping[str, str]) -> str:
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def _replaced(made: bytes, names: Mapping[str, str]) -> bytes:
    if not names:
        return made
    coded = {name.encode(): other.encode() for name, other in names.items()}
    return re.sub(_any(names).encode(), lambda found: coded[found[0]], made)
