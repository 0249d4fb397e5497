"""The operands of a sum of outer products, a slab of rows at a time, on their way into shared memory.

While a slab is multiplied, the next one's numbers come into registers, and where the rows of the one after it are is
looked up: no load waits for another in the slab in which it is needed. There are two stages of shared memory, so one
barrier a slab is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.statements import names_read, slice_for
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect.group_by_matrix import Grouping
from explorer.compiler.schedule.match.outer_products import OuterSum

STAGES = 2
"""Slabs in shared memory: one barrier a slab needs two, and what comes after the next is in registers yet."""
OWN = "row"
"""A row of a grouping, by its place."""


@dataclass(frozen=True)
class SegmentRows:
    """A segment's rows that are before `upper`, what names of the loops stand for in it, and the first element of each
    operand in the block's tile."""

    upper: Extent
    known: Mapping[str, Atom]
    first: tuple[Extent, Extent]


class OuterOperand:
    """The operand of one `side`, of which a block has `tile` of `extent` elements, loaded by vectors of `step`,
    `slab` rows at a time."""

    def __init__(
        self,
        kernel: loops.Kernel,
        found: OuterSum,
        grouping: Grouping | None,
        side: int,
        sizes: tuple[int, int, int, int],
    ) -> None:
        self._row, self._side, self._grouping = found.row.variable, side, grouping
        self._loop = (found.down, found.across)[side]
        self._extent, self._tile, self._step, self._slab = sizes
        self._value = found.factors[side]
        statements = (found.of_down, found.of_across)[side]
        value = (replace(found.product, operands=(self._value,)),)
        made = slice_for(statements, value)
        indices = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"}
        self._loads = [s for s in made if isinstance(s, loops.Load) and s.buffer not in indices]
        self._arithmetic = slice_for(tuple(s for s in made if s not in self._loads), value)
        self._along = _depending(statements, self._loop.variable)
        scalars = [s for s in slice_for(statements, self._loads) if s not in self._loads]
        self._scalars = [s for s in scalars if loops.result_of(s) not in self._along]
        self._indices = [s for s in scalars if s not in self._scalars]
        read = names_read((*self._loads, *self._indices))
        self._found = [name for s in self._scalars if (name := loops.result_of(s)) in read and name is not None]
        self._loaded: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self.name = ""

    def declare(self, steps: Steps) -> None:
        """The slabs in shared memory, and registers for what comes while another is multiplied."""
        self.name = steps.tile("ab"[self._side], [STAGES, self._slab, self._tile], "shared", padding=4)
        for load in self._loads:
            extents = [self._slab, self._tile] if load.result in self._along else [self._slab]
            self._loaded[load.result] = steps.tile(f"{load.result}_next", extents, "register")
        for name in [OWN] if self._grouping else self._found:
            self._places[name] = steps.tile(f"{name}_ahead", [self._slab], "register", type="i32")

    @contextmanager
    def _vectors(self, steps: Steps, start: Extent) -> Iterator[tuple[str, Extent, str]]:
        """Each vector of a slab: its row in the slab, the row, and its place along the row."""
        with (
            steps.loop("k", self._slab, "thread") as k,
            steps.loop("d", self._tile, "thread", step=self._step) as d,
        ):
            yield k, steps.index("row", "add", start, k), d

    def look_up(self, steps: Steps, rows: SegmentRows, start: Extent, further: int = 0) -> None:
        """Where the rows of a slab are that begins `further` on, if that has to be looked up."""
        if not self._places:
            return
        with (
            self._vectors(steps, steps.index("later", "add", start, further)) as (k, row, _),
            steps.where(row, "<", rows.upper),
        ):
            if self._grouping:
                steps.store(self._places[OWN], [k], self._grouping.row(steps, row, "z"))
                return
            names = steps.copy(self._scalars, {**rows.known, self._row: row})
            for name, tile in self._places.items():
                steps.store(tile, [k], names[name])

    def load(self, steps: Steps, rows: SegmentRows, start: Extent) -> None:
        """What a slab, whose rows have been looked up, needs of memory."""
        with self._vectors(steps, start) as (k, row, d), steps.where(row, "<", rows.upper):
            element = steps.index(self._loop.variable, "add", rows.first[self._side], d)
            with steps.where(element, "<", self._loop.extent, needed=self._partial):
                names: dict[str, Atom] = {**rows.known, self._loop.variable: element, self._row: row}
                if self._grouping:
                    names[self._row] = steps.load("z", self._places[OWN], k)
                    names = steps.copy(self._scalars, names)
                else:
                    names |= {name: steps.load(name, tile, k) for name, tile in self._places.items()}
                names = steps.copy((*self._indices, *self._loads), names)
                for load in self._loads:
                    steps.store(self._loaded[load.result], self._at(load, k, d), names[load.result])

    def _at(self, load: loops.Load, k: str, d: str) -> list[Atom]:
        return [k, d] if load.result in self._along else [k]

    @property
    def _partial(self) -> bool:
        """Whether some tile has elements that are not there."""
        return bool(self._extent % self._tile)

    def store(self, steps: Steps, rows: SegmentRows, start: Extent, stage: Extent) -> None:
        """A slab that has been loaded into shared memory; zeros behind the last row and the last element."""
        with self._vectors(steps, start) as (k, row, d):
            element = steps.index(self._loop.variable, "add", rows.first[self._side], d)
            inside = steps.where(element, "<", self._loop.extent, needed=self._partial)
            with steps.where(row, "<", rows.upper), inside:
                names: dict[str, Atom] = {**rows.known, self._row: row, self._loop.variable: element}
                for load in self._loads:
                    names[load.result] = steps.load(load.result, self._loaded[load.result], *self._at(load, k, d))
                names = steps.copy(self._arithmetic, names)
                steps.store(self.name, [stage, k, d], names.get(self._value, self._value))
            with steps.where(rows.upper, "<=", row):
                steps.store(self.name, [stage, k, d], 0.0)
            if self._partial:
                with steps.where(self._loop.extent, "<=", element):
                    steps.store(self.name, [stage, k, d], 0.0)


def _depending(statements: Iterable[loops.Statement], variable: str) -> set[str]:
    """What statements define that a variable tells apart."""
    found = {variable}
    for statement in statements:
        if found & set(loops.reads_of(statement)):
            found.add(str(loops.result_of(statement)))
    return found - {variable}
