"""What arrays of indices pick: the host checks it before a program runs, so that kernels may rest on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.loops import Accumulate, For, Index, Kernel, Load, Store
from explorer.compiler.ir.node import Atom, Extent, walk

CHECKED = "checked before the program runs"
"""Why a fact holds of an array that is given."""


@dataclass(frozen=True)
class Lookup:
    """What an index buffer holds picks a row of a table; where `exclusive`, its elements may end a loop over rows.

    Where `every` is more than 1, so many elements in a row pick the same one: negatives their triple. The row that is
    so many `after` the one that is picked is there too: where a segment ends, beside where it begins."""

    index: str
    table: str
    extent: Extent
    exclusive: bool
    every: int = 1
    after: int = 0


def lookups_of(kernel: Kernel) -> list[Lookup]:
    """Which index buffer picks from which table, and which holds the bounds of loops that walk a table."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    nodes = list(walk(kernel))
    loads = [node for node in nodes if isinstance(node, Load) and node.buffer in buffers]
    picks = {load.result: load.buffer for load in loads if buffers[load.buffer].kind == "index"}
    shared: dict[str, tuple[str, int]] = {}  # the quotients of what was picked
    later: dict[str, tuple[str, int]] = {}  # what follows what was picked
    for node in nodes:
        match node:
            case Index(result=result, function="div", operands=(str(dividend), int(every))) if dividend in picks:
                shared[result] = picks[dividend], every
            case Index(result=result, function="add", operands=(str(first), int(after))) if (
                first in picks and after > 0
            ):
                later[result] = picks[first], after
    loops = [node for node in nodes if isinstance(node, For)]
    walked = {
        loop.variable: [picks[bound] for bound in map(str, (loop.lower, loop.extent)) if bound in picks]
        for loop in loops
    }
    found = []
    for table, indices in _accesses(kernel):
        for extent, atom in zip(buffers[table].extents, indices, strict=True):
            if isinstance(atom, str) and atom in picks:
                found.append(Lookup(picks[atom], table, extent, exclusive=False))
            elif isinstance(atom, str) and atom in shared:
                found.append(Lookup(shared[atom][0], table, extent, exclusive=False, every=shared[atom][1]))
            elif isinstance(atom, str) and atom in later:
                found.append(Lookup(later[atom][0], table, extent, exclusive=False, after=later[atom][1]))
            elif isinstance(atom, str):
                found += [Lookup(bound, table, extent, exclusive=True) for bound in walked.get(atom, ())]
    return sorted(dict.fromkeys(found), key=lambda lookup: (lookup.index, lookup.table, lookup.exclusive))


def _accesses(kernel: Kernel) -> Iterator[tuple[str, tuple[Atom, ...]]]:
    """The buffers that a kernel reads and writes, and where."""
    buffers = {buffer.name for buffer in kernel.buffers}
    for node in walk(kernel):
        if isinstance(node, Load) and node.buffer in buffers:
            yield node.buffer, node.indices
        elif isinstance(node, (Store, Accumulate)) and node.target in buffers:
            yield node.target, node.indices


def ends_in(kernel: Kernel) -> Iterator[tuple[str, Extent]]:
    """The arrays of where segments begin, and the extent of the elements that all of them have together."""
    ends = {buffer.name for buffer in kernel.buffers if str(buffer.extents[0]).endswith(ENDS)}
    for lookup in lookups_of(kernel):
        if lookup.exclusive and lookup.index in ends and not str(lookup.extent).endswith(ENDS):
            yield lookup.index, lookup.extent


def given_facts(kernels: Iterable[Kernel]) -> tuple[Fact, ...]:
    """What is known of the arrays of indices that a program is given."""
    found: dict[Fact, None] = {}
    for kernel in kernels:
        extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
        for lookup in lookups_of(kernel):
            places = ", ".join(f"_{place}" for place in range(len(extents[lookup.index])))
            element, less = f"{lookup.index}[{places}]", "<=" if lookup.exclusive else "<"
            found[Fact(f"0 <= {element}", CHECKED)] = None
            last = f"{element} + {lookup.after}" if lookup.after else element
            found[Fact(f"{last} {less} {lookup.every} * {lookup.extent}", CHECKED)] = None
        for name, elements in ends_in(kernel):
            found[Fact(f"{name}[0] <= 0", CHECKED)] = None
            found[Fact(f"{elements} <= {name}[{counted(extents[name][0])}]", CHECKED)] = None
    return tuple(found)
