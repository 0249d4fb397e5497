"""Runs what scheduled kernels do with indices in their interpreter and holds all that they state of them (`Fact`)
against what there is: of a name wherever it is defined, of a tile where it ends, of an array behind the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from explorer.compiler.interpret import kernels as interpreter
from explorer.compiler.interpret.kernels import UNWRITTEN, environments, given_extents, written_buffers
from explorer.compiler.ir.facts import ANY, SOME, Fact, Sum
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Tile, Where, reads_of, result_of
from explorer.compiler.ir.node import Node, walk


class BrokenFact(AssertionError):
    """A fact that a kernel states and that does not hold."""


def holds(total: Sum, known: Mapping[str, Any]) -> bool:
    """Whether a sum is never negative: for any indices at which all of its elements are there and have been written,
    or, of those that are some index, for one of them."""
    spans = _spans(total, known)
    if 0 in spans.values():
        return True
    grid = np.meshgrid(*(np.arange(span) for span in spans.values()), indexing="ij", sparse=True)
    with np.errstate(all="ignore"):
        value, there = _value(total, {**known, **dict(zip(spans, grid, strict=True))})
    some = tuple(axis for axis, name in enumerate(spans) if name.startswith(SOME))
    shape = tuple(spans.values())
    good = np.broadcast_to((value >= 0) & there, shape)
    whole = np.broadcast_to(there, shape)
    if some:
        return bool((good.any(axis=some) | ~whole.any(axis=some)).all())
    return bool((good | ~whole).all())


def _spans(total: Sum, known: Mapping[str, Any]) -> dict[str, int]:
    """How many places each index stands for: as many as all arrays have that it is an index of by itself."""
    found: dict[str, int] = {}
    for term, _ in total:
        for dimension, index in enumerate(term[1] if term else ()):
            inside = _spans(index, known)
            if len(index) == 1 and index[0][0] is not None and not index[0][0][1] and index[0][0][0].startswith(ANY):
                assert term is not None
                inside = {index[0][0][0]: np.shape(known[term[0]])[dimension]}
            for name, span in inside.items():
                found[name] = min(span, found.get(name, span))
    return found


def _value(total: Sum, known: Mapping[str, Any]) -> tuple[Any, Any]:
    """The sum, and where all of its elements are there."""
    value: Any = np.int64(0)
    there: Any = np.bool_(True)
    for term, times in total:
        if term is None:
            value = value + times
        elif not term[1]:
            value = value + times * np.asarray(known[term[0]], np.int64)
        else:
            array, places = np.asarray(known[term[0]]), []
            for dimension, index in enumerate(term[1]):
                at, inside = _value(index, known)
                there = there & inside & (at >= 0) & (at < array.shape[dimension])
                places.append(np.clip(at, 0, array.shape[dimension] - 1))
            element = array[tuple(np.broadcast_arrays(*places))].astype(np.int64)
            there = there & (element != UNWRITTEN)
            value = value + times * element
    return value, there


class _Held(interpreter._Text):
    """A kernel's statements as Python, with its facts held behind what they are of."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self.kernel = kernel
        self.defined = {name for node in walk(kernel) if not isinstance(node, Tile) and (name := result_of(node))}
        self.tiles = {node.name for node in walk(kernel) if isinstance(node, Tile)}
        self.changed = self.tiles | set(written_buffers(kernel))
        arrays = self.tiles | {buffer.name for buffer in kernel.buffers}
        # Facts of other arrays are of what nobody reads, and has been left out.
        facts = [fact for fact in dict.fromkeys(kernel.facts) if fact.arrays <= arrays]
        order = {name: at for at, node in enumerate(walk(kernel)) if (name := result_of(node))}
        self.behind: dict[str, list[Fact]] = {}  # by the name whose definition is the last of a fact's
        self.at_end: dict[str, list[Fact]] = {}  # by the tile that ends last
        self.of_arrays: list[Fact] = []
        for fact in facts:
            names, tiles = fact.names & self.defined, fact.arrays & self.tiles
            if names:
                self.behind.setdefault(max(names, key=order.__getitem__), []).append(fact)
            elif tiles:
                self.at_end.setdefault(max(tiles, key=order.__getitem__), []).append(fact)
            else:
                self.of_arrays.append(fact)
        super().__init__(kernel)

    def statement(self, statement: Node) -> None:
        super().statement(statement)
        name = result_of(statement)
        for fact in self.behind.get(name or "", ()):
            self.hold(fact)

    def body(self, statements: Sequence[Node]) -> None:
        for each in statements:
            self.statement(each)
        for tile in [each for each in statements if isinstance(each, Tile)]:
            for fact in self.at_end.get(tile.name, ()):
                self.hold(fact)

    def loop(self, bounds: str, loop: Any) -> None:
        with self.inside(f"for {self.name(loop.variable)} in range({bounds}):"):
            self.body(loop.body)

    def hold(self, fact: Fact) -> None:
        """A line that looks at a fact: once for equal names, where it speaks of no array that the kernel changes."""
        kernel, names = self.kernel.name, sorted(fact.names)

        def look(known: Mapping[str, Any]) -> None:
            if not holds(fact.sum, known):
                raise BrokenFact(f"{kernel}: {fact.text} ({fact.reason})")

        known = ", ".join(f"{name!r}: {self.name(name)}" for name in (*names, *sorted(fact.arrays)))
        told = f"{self.constant(look)}({{{known}}})"
        if not fact.arrays.isdisjoint(self.changed):
            self.line(told)
            return
        # Asked in the text itself: most times of millions, the values have been seen.
        seen, values = self.constant(set()), f"values{len(self.known)}"
        self.line(f"{values} = ({''.join(f'{self.name(name)}, ' for name in names)})")
        with self.inside(f"if {values} not in {seen}:"):
            self.line(f"{seen}.add({values})")
            self.line(told)


def hold_facts(kernels: Sequence[ScheduledKernel], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Runs what of kernels their facts need, in turn; returns what it writes. Raises BrokenFact."""
    written: dict[str, Any] = {}
    extents = given_extents(kernels, inputs)
    held = only_needed(kernels)
    for (kernel, environment), short in zip(environments(kernels, inputs, extents, written), held, strict=True):
        text = _Held(short)
        text.function()(environment)
        for fact in text.of_arrays:
            if not holds(fact.sum, environment):
                raise BrokenFact(f"{kernel.name}: {fact.text} ({fact.reason})")
    return written


def only_needed(kernels: Sequence[ScheduledKernel]) -> list[ScheduledKernel]:
    """Kernels with what makes the indices that facts speak of, and all arrays of indices: what products add up, of
    which no index is made, takes most of the time. Later kernels read what earlier ones write."""
    arrays = {buffer.name for kernel in kernels for buffer in kernel.buffers if buffer.type == "i32"}
    found: list[ScheduledKernel] = []
    for kernel in reversed(kernels):
        facts = {name for fact in kernel.facts for name in fact.names | fact.arrays}
        needed = facts | arrays | {n.name for n in walk(kernel) if isinstance(n, Tile) and n.type == "i32"}
        known = -1
        while known < len(needed):
            known = len(needed)
            body = needed_of(kernel.body, needed)
            needed.update(name for node in chain.from_iterable(map(walk, body)) for name in reads_of(node))
        found.append(replace(kernel, body=body))
        arrays |= needed & {buffer.name for buffer in kernel.buffers}
    return found[::-1]


def needed_of(body: Sequence[Statement], needed: Set[str]) -> tuple[Statement, ...]:
    """The statements that define these names, or write to them, with what is around them."""
    found: list[Statement] = []
    for each in body:
        if isinstance(each, Loop | Where):
            inside = needed_of(each.body, needed)
            if inside or result_of(each) in needed:
                found.append(replace(each, body=inside))
        elif not needed.isdisjoint((result_of(each) or "", getattr(each, "target", ""))):
            found.append(each)
    return tuple(found)
