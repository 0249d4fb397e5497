"""The rule of extents: every access is inside its array, for arrays of any size.

What an index may be comes from the loops and conditions around, from the arithmetic that it is made of, and from facts
of the arrays that it was loaded from (`Fact`). An access that is not shown to be inside is one that `unproved` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.compiler.ir.bounds.contents import Contents
from explorer.compiler.ir.bounds.extents import Bounds, Unproved
from explorer.compiler.ir.bounds.facts import Fact
from explorer.compiler.ir.kernels import AtomicAccumulate, ScheduledKernel, Tile, defined_in
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.ir.node import walk


class Extents:
    """Goes through the kernels of a module in order: what one stores in an array of indices, later ones find there."""

    def __init__(self, given: Iterable[Fact] = ()) -> None:
        self._facts = dict.fromkeys(given)
        self._contents: dict[str, Contents] = {}

    def unproved(self, kernel: ScheduledKernel) -> tuple[Unproved, ...]:
        """The accesses of the next kernel that are not shown to be inside their arrays."""
        own = defined_in(kernel)  # what others call so is something else
        facts = [*self._facts, *(fact for array, held in self._contents.items() for fact in held.facts(array))]
        facts = [*(fact for fact in facts if own.isdisjoint(fact.names)), *kernel.facts]
        self._facts |= dict.fromkeys(fact for fact in kernel.facts if own.isdisjoint(fact.names))
        arrays = [buffer.name for buffer in kernel.buffers]
        earlier = tuple((name, self._contents[name]) for name in arrays if name in self._contents)
        missing, contents = _followed(kernel, tuple(dict.fromkeys(facts)), earlier)
        for buffer in kernel.buffers:
            if buffer.name in contents:
                held = contents[buffer.name].within(len(buffer.extents))
                known = self._contents.get(buffer.name)
                self._contents[buffer.name] = known.meet(held) if known else held
        return missing


Known = tuple[ScheduledKernel, tuple[Fact, ...], tuple[tuple[str, Contents], ...]]
_SHOWN: dict[Known, Mapping[str, Contents]] = {}
"""What kernels store that have been shown to be inside, the latest ones: most of a text's stay as they are from one
compilation to the next."""
MOST_SHOWN = 256


def _followed(
    kernel: ScheduledKernel, facts: tuple[Fact, ...], earlier: tuple[tuple[str, Contents], ...]
) -> tuple[tuple[Unproved, ...], Mapping[str, Contents]]:
    """A kernel's accesses that are not shown to be inside, and what it stores in arrays and tiles of indices, where
    `earlier` ones have stored in its arrays."""
    shown = _SHOWN.get((kernel, facts, earlier))
    if shown is not None:
        return (), shown
    held: Mapping[str, Contents] = {}
    if _late(kernel):  # what tiles of indices hold is known only after all stores
        first = Bounds(kernel, facts, dict(earlier), {}, checks=False)
        first.body(kernel.body)
        held = first.contents
    found = Bounds(kernel, facts, dict(earlier), held)
    found.body(kernel.body)
    if not found.unproved:
        if len(_SHOWN) == MOST_SHOWN:
            del _SHOWN[next(iter(_SHOWN))]
        _SHOWN[kernel, facts, earlier] = found.contents
    return tuple(found.unproved), found.contents


def _late(kernel: ScheduledKernel) -> bool:
    """Whether a tile of indices is read before something else is stored in it."""
    tiles = {node.name for node in walk(kernel) if isinstance(node, Tile) and node.type == "i32"}
    read: set[str] = set()
    for node in walk(kernel) if tiles else ():
        match node:
            case Load() if node.buffer in tiles:
                read.add(node.buffer)
            case AtomicAccumulate() if node.result and node.target in tiles:
                return True
            case Store() | Accumulate() if node.target in read:
                return True
    return False
