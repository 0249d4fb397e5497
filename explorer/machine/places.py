"""Where in its data a row comes from that the access unit has read: which list, and which entry of it.

A row of a table is read at an index, `T[idx[p]]`, inside traversals that stand for the data: one over a whole set
(`b` of the bags), and one over the segment of a list (`p` from `bag_ptr[b]` on), whose iterations are its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.access.dlc import DlcProgram, MemStream, Traversal
from explorer.compiler.ir.index_sets import ENDS, count_name
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly
from explorer.machine.units.access import Access

SETS = {str(count_name(name)): name for name in ("node", "edge", "etype", "ntype", "entry", "bag", "query", "row")}
"""By their number what the elements of the sets of layers and ops are called, which keep their names in programs."""


@dataclass(frozen=True)
class _Step:
    """A traversal that stands for data: what an iteration is called, its registers, and whether it counts from the
    beginning of its segment."""

    word: str
    position: int
    lower: int
    upper: int
    stride: int
    of_segment: bool

    def told(self, unit: Access) -> str:
        """`bag 12`. The position of a loop that has ended is past its end: then its last iteration is meant."""
        at, lower, upper = (int(unit.registers[each]) for each in (self.position, self.lower, self.upper))
        if at >= upper:
            at = lower + (upper - lower - 1) // self.stride * self.stride
        return f"{self.word} {at - lower if self.of_segment else at}"


@dataclass(frozen=True)
class Place:
    """How to tell where what a stream reads comes from."""

    steps: tuple[_Step, ...]
    picked_by: str
    index: int

    def told(self, unit: Access) -> str:
        """`bag 12, entry 3, idx[1543]`."""
        picked = [f"{self.picked_by}[{int(unit.registers[self.index])}]"] if self.picked_by else []
        return ", ".join([step.told(unit) for step in self.steps] + picked)


class Places:
    """The places of a program's streams, with the registers of its assembly."""

    def __init__(self, program: DlcProgram, assembly: Assembly) -> None:
        self._traversals = {each.name: each for each in program.access if isinstance(each, Traversal)}
        self._streams = {each.result: each for each in program.access if isinstance(each, dlc.Stream)}
        self._words = _words(program)
        self._dims = dict(program.sizes)
        code = [(node, assembly.access_code[at]) for at, node in enumerate(assembly.access_nodes)]
        self._bounds = {
            node.name: (int(row.a), int(row.b), int(row.c))
            for node, row in code
            if isinstance(node, Traversal) and row.opcode == op.ENTER
        }
        self._index_of = {
            node.result: int(row.b) for node, row in code if isinstance(node, MemStream) and row.opcode == op.LOAD
        }

    def of(self, stream: MemStream) -> Place:
        """The place of what a stream reads: that of the index which picks it, where one does."""
        picking = next(self._picking(stream.index), None)
        inner = stream.traversal if picking is None else picking.traversal
        steps = tuple(step for each in self._around(inner) if (step := self._step(each)) is not None)
        if picking is None:
            return Place(steps, "", 0)
        return Place(steps, picking.buffer, self._index_of[picking.result])

    def _picking(self, atom: object) -> Iterator[MemStream]:
        """The loads that an index is computed of, the first operand's first."""
        match self._streams.get(atom) if isinstance(atom, str) else None:
            case MemStream() as load:
                yield load
            case dlc.AluStream(operands=operands):
                for operand in operands:
                    yield from self._picking(operand)

    def _around(self, name: str) -> list[Traversal]:
        """A traversal and those that it runs in, from the outermost on."""
        traversal = self._traversals[name]
        return [*([] if traversal.parent is None else self._around(traversal.parent)), traversal]

    def _step(self, traversal: Traversal) -> _Step | None:
        """None for a loop over the elements of a row, which is no part of the data."""
        begin = self._streams.get(traversal.lower) if isinstance(traversal.lower, str) else None
        of_segment = isinstance(begin, MemStream)
        word = "entry" if of_segment else self._words.get(str(traversal.upper), "")
        if not word and traversal.parent is None and isinstance(traversal.upper, str):
            word = "" if traversal.upper in self._dims else _one_of(traversal.upper)
        if not word:
            return None
        return _Step(word, *self._bounds[traversal.name], traversal.stride, of_segment)


def _one_of(extent: str) -> str:
    """What an element is called of a set that owns no segments: `user` of `users`, and of a score's batch, whose name
    is any that was free, a triple."""
    if extent.endswith("ies"):
        return f"{extent.removesuffix('ies')}y"
    return extent.removesuffix("s") if extent.endswith("s") else "triple"


def _words(program: DlcProgram) -> Mapping[str, str]:
    """By the number of a set's elements what one is called, of the sets that own segments too."""
    ends = [str(extent) for buffer in program.buffers for extent in buffer.extents if str(extent).endswith(ENDS)]
    owners = [each.removesuffix(ENDS) for each in ends]
    return SETS | {str(count_name(owner)): owner for owner in owners}
