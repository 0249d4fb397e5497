"""Loops whose iterations may be done side by side: an interpreter then says each statement once, of as many elements at
once as there are iterations, and not as often as that.

    for x in 0..64 step 4 @thread           y[i, 0:64] += left[i, k] * w[k, 0:64]
      y[i, x] += left[i, k] * w[k, x]

What comes of it is the same to the bit, for a text that somebody has edited too: each iteration has its own elements of
all that is written, or what is written is the same in all of them and is read in none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from explorer.compiler.ir import kernels, loops
from explorer.compiler.ir.node import Atom, Node, walk

Piece = tuple[int, int, str] | None
"""Of how many indices which one is of the loop, and what that is called; None where none is."""


MOST_ELEMENTS = 1 << 16
"""How many stand side by side at most: of a loop without end it should show that it has none."""


def elements_at_once(loop: loops.For | kernels.Loop, sizes: Mapping[str, int]) -> int:
    """How many elements all iterations have together, where that is known; 0 where it is not, or there is but one."""
    lower, upper = (sizes.get(end) if isinstance(end, str) else end for end in (loop.lower, loop.extent))
    if not (isinstance(lower, int) and isinstance(upper, int)):
        return 0
    elements = upper - lower
    return elements if loop.step < elements <= MOST_ELEMENTS and elements % loop.step == 0 else 0


def places_of(
    loop: loops.For | kernels.Loop, others: AbstractSet[str], ranks: Mapping[str, int], indices: Collection[str]
) -> frozenset[str]:
    """The loop's variable and the indices that are it and a number, where its iterations may be done side by side;
    nothing where they may not. `others` are names that already stand for several elements each, `ranks` says
    how many dimensions arrays have, and `indices` are those of indices."""
    found = _Iteration(loop, others, ranks, indices)
    return frozenset(found.places) if found.is_alone() else frozenset()


class _Iteration:
    """One iteration of a loop among the others: `places` are the indices that are its own, `numbers` the names of what
    it computes for itself, and `inside` the tiles, rows and accumulators that it makes."""

    def __init__(
        self,
        loop: loops.For | kernels.Loop,
        others: AbstractSet[str],
        ranks: Mapping[str, int],
        indices: Collection[str],
    ) -> None:
        self.loop, self.others, self.ranks, self.indices = loop, others, ranks, indices
        self.nodes = [node for statement in loop.body for node in walk(statement)]
        self.places = {loop.variable}
        self.inside = {n.name for n in self.nodes if isinstance(n, (loops.Row, kernels.Tile, loops.Accumulator))}
        self.numbers = {node.name for node in self.nodes if isinstance(node, loops.Accumulator)}
        self.read: dict[str, set[Piece]] = {}
        self.written: dict[str, set[Piece]] = {}

    def is_alone(self) -> bool:
        """Whether it neither sees nor changes what the others do, but for what `sums_of` puts together."""
        return all(map(self.allows, self.nodes)) and all(map(self.keeps_apart, self.written))

    def keeps_apart(self, array: str) -> bool:
        """Whether what is written in an array is each iteration's own, or alike in all and read in none."""
        pieces = self.written[array] | self.read.get(array, set())
        if len(pieces) > 1:
            return False
        return None not in pieces or array in self.inside or array not in self.read

    def allows(self, node: Node) -> bool:
        """Whether a statement means the same of several elements; notes what it defines, reads and writes."""
        own, names = self.places | self.numbers, kernels.inputs_of(node)
        if not self.others.isdisjoint(kernels.reads_of(node)):
            return False
        match node:
            case loops.Index():
                return own.isdisjoint(names) or self.is_place(node)
            case loops.Load():
                return self.loads(node)
            case loops.Compute():
                if not self.numbers.isdisjoint(names):
                    self.numbers.add(node.result)
                return self.places.isdisjoint(names)
            case kernels.Copy():
                value = self.reads(node.buffer, node.buffer_indices)
                return value is not False and self.writes(node, value is not None)
            case loops.Store():
                return self.places.isdisjoint(_names(node.operands)) and self.writes(node, self.has(node.operands))
            case loops.Accumulate():
                return self.accumulates(node)
            case kernels.Search():
                self.read.setdefault(node.buffer, set()).add(None)
                return own.isdisjoint(names)
            case kernels.Loop() | loops.For():
                return node.step == 1 and own.isdisjoint(names)
            case kernels.Where():
                return own.isdisjoint(names)
            case kernels.Tile() | loops.Row() | loops.Accumulator() | kernels.Barrier() | kernels.Reduce():
                return True
        return False

    def has(self, operands: Iterable[Atom]) -> bool:
        """Whether one of some operands is a number of each iteration."""
        return not self.numbers.isdisjoint(_names(operands))

    def is_place(self, node: loops.Index) -> bool:
        """Whether an index is the loop's variable and something that is the same in all iterations."""
        if node.function not in ("add", "sub"):
            return False
        left, right = node.operands
        wide, other = (left, right) if left in self.places or node.function == "sub" else (right, left)
        if wide not in self.places or other in self.places | self.numbers:
            return False
        self.places.add(node.result)
        return True

    def loads(self, node: loops.Load) -> bool:
        if isinstance(node, kernels.CheckedLoad) and not self.places.isdisjoint(_names(node.checked)):
            return False
        piece = self.reads(node.buffer, node.indices)
        if piece:
            self.numbers.add(node.result)
        return piece is not False and not (piece and node.buffer in self.indices)

    def reads(self, array: str, indices: tuple[Atom, ...]) -> Piece | bool:
        """Notes the piece that is read; False where it is none."""
        piece = self.piece(array, indices)
        if not isinstance(piece, bool):
            self.read.setdefault(array, set()).add(piece)
        return piece

    def writes(self, node: loops.Store | loops.Accumulate, own: bool) -> bool:
        """Notes the piece that is written, which is the iteration's `own` where the value is."""
        piece = self.piece(node.target, node.indices)
        if isinstance(piece, bool) or (piece is None and own):
            return False
        self.written.setdefault(node.target, set()).add(piece)
        return not (piece and node.target in self.indices)

    def piece(self, array: str, indices: tuple[Atom, ...]) -> Piece | bool:
        """Which of some indices is of the loop; False where several are, one is a number, or they are too few."""
        own = [place for place, index in enumerate(indices) if index in self.places]
        if len(own) > 1 or self.has(indices) or len(indices) not in (1, self.ranks.get(array)):
            return False
        return (len(indices), own[0], str(indices[own[0]])) if own else None

    def accumulates(self, node: loops.Accumulate) -> bool:
        if getattr(node, "result", "") or not self.places.isdisjoint(_names(node.operands)):
            return False
        if not node.indices:
            return node.target in self.inside or (node in sums_of(self.loop) and self.has(node.operands))
        self.reads(node.target, node.indices)
        return self.writes(node, self.has(node.operands))


def sums_of(loop: loops.For | kernels.Loop) -> tuple[loops.Accumulate, ...]:
    """Sums over a loop's iterations that may be taken behind it, in their order: of one element each, for an
    accumulator that nothing else in the loop looks at."""
    if loop.step > 1:
        return ()
    sums = [each for each in loop.body if isinstance(each, loops.Accumulate) and not each.indices]
    return tuple(each for each in sums if list(_mentions(loop, each.target)) == [each])


def _mentions(loop: loops.For | kernels.Loop, name: str) -> Iterator[Node]:
    """The statements in a loop that read a name, define it or add to it."""
    for node in (node for statement in loop.body for node in walk(statement)):
        if name in (*kernels.reads_of(node), kernels.result_of(node), getattr(node, "target", "")):
            yield node


def _names(atoms: Iterable[Atom]) -> set[str]:
    return {atom for atom in atoms if isinstance(atom, str)}
