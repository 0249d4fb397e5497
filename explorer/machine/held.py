"""What the operands of a record are: the elements and rows of which arrays the access unit has read them from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly
from explorer.machine.places import Place, Places
from explorer.machine.units.access import Access

MOST = 4
"""Names that are told of a record."""


@dataclass(frozen=True)
class _Read:
    """A load of an array: the register of its index, and the extents that count in a name, each with its stride."""

    buffer: str
    register: int
    strides: tuple[int, ...]
    place: Place

    def name(self, index: int) -> str:
        """`T[9107]`, `P[3, 40]`: a vector is called by its row."""
        places = []
        for stride in self.strides:
            place, index = divmod(index, stride)
            places.append(str(place))
        return f"{self.buffer}[{', '.join(places)}]"


class Held:
    """Tells record by record what was pushed, of a run that is watched: the instructions that have run since the last
    record, whose registers hold what they read last."""

    def __init__(self, program: DlcProgram, assembly: Assembly, shapes: Mapping[str, tuple[int, ...]]) -> None:
        places = Places(program, assembly)
        reads = {
            node.result: _read(node, int(assembly.access_code[at].b), shapes[node.buffer], places.of(node))
            for at, node in enumerate(assembly.access_nodes)
            if isinstance(node, dlc.MemStream) and assembly.access_code[at].opcode == op.LOAD and node.buffer in shapes
        }
        self._pushes = {
            at: [reads[push.stream] for push in program.pushes(node.traversal, node.event) if push.stream in reads]
            for at, node in enumerate(assembly.access_nodes)
            if isinstance(node, dlc.PushOp) and assembly.access_code[at].opcode == op.PUSH
        }
        self._before = np.zeros(len(assembly.access_nodes), np.int64)

    def since(self, unit: Access) -> dict[str, str]:
        """What the record that was pushed last holds, the first of it first, and where in the data each is from."""
        executed = np.array(unit.executed[: self._before.size])
        ran = [at for at in self._pushes if executed[at] > self._before[at]]
        self._before = executed
        found: dict[str, str] = {}
        for read in (read for at in ran for read in self._pushes[at]):
            found.setdefault(read.name(int(unit.registers[read.register])), read.place.told(unit))
        return dict(list(found.items())[:MOST])


def _read(stream: dlc.MemStream, register: int, shape: tuple[int, ...], place: Place) -> _Read:
    strides = [int(np.prod(shape[at + 1 :], dtype=np.int64)) for at in range(len(shape))]
    kept = strides[:-1] if stream.vector > 1 and len(strides) > 1 else strides
    return _Read(stream.buffer, register, tuple(kept), place)
