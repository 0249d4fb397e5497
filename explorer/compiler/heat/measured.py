"""Recorded samples of a compilation's kernels, summed up: at each line of its machine code, and for each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field

from explorer.compiler.frozen import dataclass
from explorer.compiler.heat.machine_code import MachineCode, kernels_in
from explorer.compiler.heat.recordings import Recording, recording_of
from explorer.compiler.ir.node import Line, Span

Reasons = Counter[str]
"""How many samples, by why the warp did not go on."""


@dataclass(frozen=True)
class Measured:
    """Of the kernels that have been measured: the samples at lines of SASS, by their number from 1, and of operations;
    `rest` are those at instructions that are no operation's own."""

    kernels: tuple[tuple[MachineCode, Recording], ...]
    lines: dict[int, Reasons] = field(default_factory=dict)
    operations: dict[Span, Reasons] = field(default_factory=dict)
    rest: Reasons = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All samples."""
        return sum(reasons.total() for reasons in self.lines.values())


def measured(lines: Sequence[Line], find: Callable[[str], Recording | None] = recording_of) -> Measured | None:
    """What was measured of the kernels in the text of the stage `sass`; None where none of them was. What a kernel of
    other instructions took is not said of them: a recording is found by the digest of all instructions.

    Samples at an instruction belong to the operation that is its line's primary, as in all panes."""
    found = [(kernel, recording) for kernel in kernels_in(lines) if (recording := find(kernel.digest)) is not None]
    if not found:
        return None
    result = Measured(tuple(found))
    for kernel, recording in found:
        for instruction in kernel.instructions:
            reasons = Counter(recording.at(instruction.address))
            if not reasons:
                continue
            result.lines[instruction.line] = reasons
            origin = lines[instruction.line - 1].origin
            own = origin[0] if origin else None
            if isinstance(own, Span):
                result.operations.setdefault(own, Counter()).update(reasons)
            else:
                result.rest.update(reasons)
    return result
