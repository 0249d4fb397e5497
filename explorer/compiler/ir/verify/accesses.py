"""The rule of extents: every access is inside its array, for arrays of any size.

What an index may be comes from the loops and conditions around, from the arithmetic that it is made of, and from facts
of the arrays that it was loaded from (`Fact`). An access that is not shown to be inside is one that `unproved` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from explorer.compiler.frozen import replace
from explorer.compiler.ir.bounds.contents import Contents
from explorer.compiler.ir.bounds.extents import Bounds, Unproved
from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.kernels import AtomicAccumulate, ScheduledKernel, Search, Tile, defined_in
from explorer.compiler.ir.loops import Accumulate, Load, Store
from explorer.compiler.ir.node import Extent, Node, walk
from explorer.compiler.ir.verify.outline import outline
from explorer.compiler.kept import ENTRY_BYTES, ByContent


class Extents:
    """Goes through the kernels of a module in order: what one stores in an array of indices, later ones find there."""

    def __init__(self, given: Iterable[Fact] = ()) -> None:
        self._facts = dict.fromkeys(given)
        self._contents: dict[str, Contents] = {}

    def unproved(self, kernel: ScheduledKernel) -> tuple[Unproved, ...]:
        """The accesses of the next kernel that are not shown to be inside their arrays."""
        own = defined_in(kernel)  # what others call so is something else
        arrays = [buffer.name for buffer in kernel.buffers]
        earlier = tuple((name, self._contents[name]) for name in arrays if name in self._contents)
        given = [fact for fact in self._facts if own.isdisjoint(fact.names)]
        self._facts |= dict.fromkeys(fact for fact in kernel.facts if own.isdisjoint(fact.names))
        read = {name for node in walk(kernel) for name in _found_in(node)}
        known, changed = dict(self._contents), True
        while changed:  # what it reads where it has stored is what others have stored only if its own is no more
            stored = [fact for array, held in known.items() for fact in held.facts(array) if own.isdisjoint(fact.names)]
            facts = dict.fromkeys((*given, *stored, *kernel.facts))
            missing, contents = _followed(kernel, tuple(facts), earlier)
            changed = False
            for array in read & contents.keys() & known.keys():
                if known[array].meet(contents[array]) != known[array]:
                    del known[array]
                    changed = True
        for buffer in kernel.buffers:
            if buffer.name in contents:
                held = contents[buffer.name].within(len(buffer.extents))
                before = self._contents.get(buffer.name)
                self._contents[buffer.name] = before.meet(held) if before else held
        return missing


def _found_in(node: Node) -> tuple[str, ...]:
    """The array of which a statement finds an element."""
    match node:
        case Load() | Search():
            return (node.buffer,)
    return ()


def _bytes_of(contents: Mapping[str, Contents]) -> int:
    """About what the contents of arrays take."""
    extents = sum(len(held.at_most) + len(held.less_than) + len(held.above) for held in contents.values())
    return ENTRY_BYTES + 1_024 * len(contents) + 128 * extents


_SHOWN = ByContent[Mapping[str, Contents]](1 << 20, _bytes_of)
"""What kernels store that have been shown to be inside, by their outlines and in the names of these: most of a text's
stay as they are from one compilation to the next, but for what an edit has changed in names and numbers."""


def _followed(
    kernel: ScheduledKernel, facts: tuple[Fact, ...], earlier: tuple[tuple[str, Contents], ...]
) -> tuple[tuple[Unproved, ...], Mapping[str, Contents]]:
    """A kernel's accesses that are not shown to be inside, and what it stores in arrays and tiles of indices, where
    `earlier` ones have stored in its arrays."""
    stored = tuple((name, *_in_order(held)) for name, held in earlier)
    key, numbered = outline(kernel).with_more(facts, kernel.facts, known=stored)
    shown = _SHOWN.get(key)
    if shown is not None:
        return (), _renamed(shown, {number: name for name, number in numbered.items()})
    unproved, contents = _looked_at(kernel, facts, earlier)
    if not unproved:
        _SHOWN.put(key, _renamed(contents, numbered))
    return unproved, contents


def _in_order(held: Contents) -> tuple[object, ...]:
    """All that is said of an array."""
    sets = (tuple(sorted(extents, key=str)) for extents in (held.less_than, held.at_most, held.above))
    return held.least, held.most, held.rank, *sets


def _renamed(contents: Mapping[str, Contents], names: Mapping[str, str]) -> Mapping[str, Contents]:
    """The same of arrays and extents by other names."""

    def each(extents: frozenset[Extent]) -> frozenset[Extent]:
        return frozenset(names[extent] if isinstance(extent, str) else extent for extent in extents)

    return {
        names[array]: replace(held, less_than=each(held.less_than), at_most=each(held.at_most), above=each(held.above))
        for array, held in contents.items()
    }


def _looked_at(
    kernel: ScheduledKernel, facts: tuple[Fact, ...], earlier: tuple[tuple[str, Contents], ...]
) -> tuple[tuple[Unproved, ...], Mapping[str, Contents]]:
    """The same, found by following the kernel, again while what it stores in tiles says more of what it loads."""
    held: Mapping[str, Contents] = {}
    if _late(kernel):  # what tiles of indices hold is known only after all stores
        _, held = _stored(kernel, facts, earlier, {}, checks=False)
    unproved, contents = _stored(kernel, facts, earlier, held)
    while (wider := _widened(held, contents)) != held:
        held = wider
        unproved, contents = _stored(kernel, facts, earlier, held)
    return unproved, contents


def _stored(
    kernel: ScheduledKernel,
    facts: tuple[Fact, ...],
    earlier: tuple[tuple[str, Contents], ...],
    held: Mapping[str, Contents],
    checks: bool = True,
) -> tuple[tuple[Unproved, ...], Mapping[str, Contents]]:
    """A kernel followed, of whose tiles all elements are taken to be what `held` says: what is not shown, if it
    `checks` that, and what is stored."""
    found = Bounds(kernel, facts, dict(earlier), held, checks)
    with closing(found):
        found.body(kernel.body)
    return tuple(found.unproved), found.contents


def _widened(held: Mapping[str, Contents], stored: Mapping[str, Contents]) -> dict[str, Contents]:
    """What tiles hold, where that was taken to be `held` when `stored` was found. It is shown if it is the same: what
    is stored may come from what was there before, an iteration ago."""
    return {tile: known.widened(stored[tile]) if tile in stored else known for tile, known in held.items()}


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
