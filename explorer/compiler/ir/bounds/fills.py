"""Which elements of a tile of indices are stored before one is read: what a tile begins with is no place of any array.

    for e in from..upto                 stores the elements 0..upto - from
      where e < last                    and of those the ones that are less than last - from
        tile[e - from] = ...

Nothing is said of a tile that several stores fill together, or in another order than one after the other before it is
read, nor of an element at what memory says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from explorer.compiler.ir.bounds.affine import ONE, Affine, Form, constant, plus, scaled
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Store
from explorer.compiler.ir.node import walk


@dataclass
class _Fill:
    """A store, and what it has stored by now: `free` has by the atom that counts a loop's iterations how many there are
    besides one, and how far apart they are; `needed` are forms that are not negative where something is stored."""

    tile: str
    indices: tuple[Form, ...]
    widths: tuple[int, ...]
    needed: list[Form] = field(default_factory=list)
    free: dict[int, tuple[Form, int]] = field(default_factory=dict)

    def atoms(self) -> set[int]:
        """All that it depends on."""
        rooms = (room for room, _ in self.free.values())
        return {atom for form in (*self.indices, *self.needed, *rooms) for atom in form} - {ONE}

    def over(self, turn: int, room: Form, step: int) -> bool:
        """Takes all iterations of a loop together; False where that says nothing of an element."""
        if turn not in self.atoms():
            self.needed.append(room)  # the loop has an iteration
            return True
        places = [place for place, index in enumerate(self.indices) if turn in index]
        if len(places) != 1 or self.free.keys() & self.indices[places[0]].keys():
            return False
        index, width = self.indices[places[0]], self.widths[places[0]]
        counted = any(turn in form for form in (*self.needed, *(room for room, _ in self.free.values())))
        self.free[turn] = room, step
        return index[turn] == step == width and not (counted and step > 1)


class Fills:
    """Follows the stores in a kernel's tiles of indices: blocks are entered and left in order."""

    def __init__(self, kernel: ScheduledKernel, tiles: set[str], affine: Affine) -> None:
        targets = (node.target for node in walk(kernel) if isinstance(node, Store))
        self.stores = Counter(target for target in targets if target in tiles)
        self.affine = affine
        self.open: list[list[_Fill]] = [[]]

    def enter(self) -> None:
        """Begins a block."""
        self.open.append([])

    def store(self, tile: str, indices: tuple[Form, ...], widths: tuple[int, ...]) -> None:
        """Notes a store."""
        self.open[-1].append(_Fill(tile, indices, widths))

    def leave_condition(self, known: Iterable[Form]) -> None:
        """Ends what is done only where forms are not negative."""
        for fill in self.open.pop():
            fill.needed += known
            self.open[-1].append(fill)

    def leave_loop(self, turn: int, room: Form, step: int, lasting: set[int]) -> None:
        """Ends a loop whose iterations `turn` counts, `room` of them besides one; inside, atoms that are not `lasting`
        have been defined anew in each."""
        for fill in self.open.pop():
            own = {atom for atom in fill.atoms() - fill.free.keys() - lasting if atom > turn}
            if not own and fill.over(turn, room, step):
                self.open[-1].append(fill)

    def has(self, tile: str, indices: tuple[Form, ...]) -> bool:
        """Whether an element is shown to be stored by the one store that fills its tile; True where that says
        nothing."""
        fills = [fill for block in self.open for fill in block if fill.tile == tile]
        if self.stores[tile] != 1 or not fills:
            return True
        return all(map(self.affine.holds, _left(fills[0], indices)))


def _left(fill: _Fill, indices: tuple[Form, ...]) -> Iterator[Form]:
    """What is to be shown not to be negative for a fill to have stored an element."""
    chosen: dict[int, Form] = {}
    for stored, read, width in zip(fill.indices, indices, fill.widths, strict=True):
        (turn,) = fill.free.keys() & stored.keys() or (None,)
        ahead = plus(read, stored, -1)
        if turn is None:
            yield ahead
            yield plus(constant(width - 1), ahead, -1)
        else:
            chosen[turn] = plus(ahead, {turn: stored[turn]})
    for turn, (room, _) in fill.free.items():
        yield chosen[turn]
        yield _with(plus(room, chosen[turn], -1), chosen)
    for form in fill.needed:
        yield _with(form, chosen)


def _with(form: Form, chosen: dict[int, Form]) -> Form:
    """A form in which iterations are those that stored the element."""
    total: Form = {}
    for atom, factor in form.items():
        total = plus(total, scaled(chosen[atom], factor) if atom in chosen else {atom: factor})
    return total
