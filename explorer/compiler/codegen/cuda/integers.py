"""How wide the integers of a kernel are in CUDA: 32 bits wherever that is sure, for 64 cost a GPU two registers and
two to twenty instructions an operation.

No array has an extent of `EXTENT_LIMIT` or more, and nothing is launched over so many (the runtime refuses). So these
are `int`: extents and counts, what index arrays hold, variables of loops, and what arithmetic makes of them, as it
makes positions: bounded by an extent, but for a block's or a piece's share beyond its end. These are `long long`:

- elements' places in arrays of several dimensions, which `Expressions.offset` computes;
- flattened places: products whose sums are only divided again (a reshape), for they count the elements of an array;
- products of two numbers that only a run knows, unless they are compared with, or index, something (see `_positions`);
- what is computed of these, and what may pass 31 bits by sizes that are known when the kernel is compiled.
"""

from __future__ import annotations

from explorer.compiler.ir.kernels import Copy, Loop, ScheduledKernel, Search, Where
from explorer.compiler.ir.loops import COMPARISONS, Accumulate, Index, Load, Store
from explorer.compiler.ir.node import Atom, walk

INT_LIMIT = 2**31


class Integers:
    """The integers of one kernel, as far as they have been defined: the largest value of each, None where only a run
    knows it, and which are 64 bits wide."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self._sizes = dict(kernel.sizes)
        self._positions = _positions(kernel)
        self._flattened = _flattened(kernel, self._positions)
        self._largest: dict[str, int | None] = {}
        self._wide: set[str] = set()

    def largest(self, atom: Atom) -> int | None:
        if not isinstance(atom, str):
            return int(atom)
        return self._sizes[atom] if atom in self._sizes else self._largest.get(atom)

    def is_wide(self, atom: Atom) -> bool:
        if isinstance(atom, str) and atom not in self._sizes:
            return atom in self._wide
        return (self.largest(atom) or 0) >= INT_LIMIT

    def type_of(self, atom: Atom) -> str:
        return "long long" if self.is_wide(atom) else "int"

    def define(self, name: str, largest: int | None, *, wide: bool = False) -> None:
        self._largest[name] = largest
        if wide:
            self._wide.add(name)

    def define_result(self, index: Index) -> None:
        """What arithmetic makes: the rule that the file's docstring gives."""
        if index.function in COMPARISONS:
            self.define(index.result, 1)
            return
        *_, left, right = (self.largest(operand) for operand in index.operands)
        largest = _largest_result(index.function, left, right)
        wide = any(map(self.is_wide, index.operands)) and not (index.function == "mod" and largest is not None)
        if largest is not None:
            wide = wide or largest >= INT_LIMIT
        elif index.function == "mul":
            unknown = left is None and right is None and index.result not in self._positions
            wide = wide or unknown or index.result in self._flattened
        self.define(index.result, largest, wide=wide)


def _largest_result(function: str, left: int | None, right: int | None) -> int | None:
    """The largest value of arithmetic on operands from 0 to their largest."""
    if function == "mod" and right is not None:
        return right - 1
    if left is None or right is None:
        return None
    results = {"add": left + right, "sub": left, "mul": left * right, "div": left}
    return {**results, "min": min(left, right), "max": max(left, right), "select": max(left, right)}[function]


def _positions(kernel: ScheduledKernel) -> frozenset[str]:
    """What indexes an element, bounds a loop, or is compared: an extent bounds it."""
    found: set[Atom] = set()
    for node in walk(kernel):
        match node:
            case Load() | Store() | Accumulate():
                found.update(node.indices)
                if isinstance(node, Copy):
                    found.update(node.buffer_indices)
            case Where():
                found |= {node.left, node.right}
            case Search():
                found |= {node.value, node.lower, node.upper}
            case Loop(extent=str(extent), lower=lower):
                found |= {lower, extent}
            case Index(function=function) if function in ("min", "max", *COMPARISONS):
                found.update(node.operands)
    for node in reversed(list(walk(kernel))):
        if isinstance(node, Index) and node.function == "select" and node.result in found:
            found.update(node.operands)
    return frozenset(atom for atom in found if isinstance(atom, str))


def _flattened(kernel: ScheduledKernel, positions: frozenset[str]) -> frozenset[str]:
    """What is divided without being a position itself, and the sums and products that it is made of."""
    arithmetic = {node.result: node for node in walk(kernel) if isinstance(node, Index)}
    waiting = [node.operands[0] for node in arithmetic.values() if node.function in ("div", "mod")]
    found: set[str] = set()
    while waiting:
        atom = waiting.pop()
        if isinstance(atom, str) and atom in arithmetic and atom not in found | positions:
            found.add(atom)
            if arithmetic[atom].function in ("add", "mul"):
                waiting += arithmetic[atom].operands
    return frozenset(found)
