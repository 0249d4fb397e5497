"""Index sets that are others, one behind another: the rows of several kinds of nodes in one tensor, or the edges of
several relations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from explorer.runtime.trace.tapes.tape import Call, Tape, tensors_in


class Unions:
    """Sets by their blocks, which are the inputs' own sets, or those of `tables`, as often as they stand there.
    `blocks` are by set, and `lengths` the number of rows of each, of an example."""

    def __init__(
        self, tape: Tape, sets: dict[int, str], sizes: Iterable[int], tables: Mapping[str, int] | None = None
    ) -> None:
        self._sets = sets  # by size, of which there may be more
        self._inputs = {size: sets[size] for size in sizes}
        self.lengths = {name: size for size, name in self._inputs.items()} | dict(tables or {})
        self.blocks: dict[str, tuple[str, ...]] = {}
        for each in put_behind(tape):
            self.of(each)

    def of(self, sizes: Sequence[int]) -> str:
        """The set whose blocks have these sizes; "" where one is no input's set."""
        if any(size not in self._inputs for size in sizes):
            return ""
        return self.of_blocks(tuple(self._inputs[size] for size in sizes))

    def of_blocks(self, blocks: tuple[str, ...]) -> str:
        """The set of these blocks; "" where one is neither an input's set nor a table's."""
        if any(block not in self.lengths or block in self.blocks for block in blocks):
            return ""
        if len(blocks) == 1:
            return blocks[0]
        known = next((name for name, each in self.blocks.items() if each == blocks), None)
        return known or self._new(blocks, sum(self.lengths[block] for block in blocks))

    def of_size(self, size: int) -> str:
        """The input's set of a size; "" where there is none."""
        return self._inputs.get(size, "")

    def _new(self, blocks: tuple[str, ...], size: int) -> str:
        name = self._sets.setdefault(size, f"set{len(self._sets)}")
        if name in self.lengths:  # as of the same blocks in another order
            name = f"{name}, {len(self.blocks)}"
        self.blocks[name], self.lengths[name] = blocks, size
        return name

    def blocks_of(self, of: str) -> tuple[str, ...]:
        """A set's blocks, or itself."""
        return self.blocks.get(of, (of,))

    def starts(self, of: str) -> list[int]:
        """Where the blocks of a set begin, and where the last one ends."""
        return self.starts_of(self.blocks_of(of))

    def starts_of(self, blocks: Iterable[str]) -> list[int]:
        """Where these begin, one behind another, and where the last one ends."""
        return starts(self.lengths[each] for each in blocks)

    def as_long_as(self, size: int) -> list[str]:
        """The sets of this size that have blocks."""
        return [name for name in self.blocks if self.lengths[name] == size]


def starts(lengths: Iterable[int]) -> list[int]:
    """Where blocks of these lengths begin, one behind another, and where the last one ends."""
    found = [0]
    for each in lengths:
        found.append(found[-1] + each)
    return found


def put_behind(tape: Tape) -> Iterator[tuple[int, ...]]:
    """The sizes of what is put one behind another: by one call, or by writing all rows of a tensor, some at a time."""
    slices = {id(call.returned): call for call in tape.calls if call.operator == "slice.Tensor"}
    written: dict[int, dict[int, int]] = defaultdict(dict)
    for call in tape.calls:
        if call.operator == "cat":
            parts = [each for each in tensors_in(call.arguments[0]) if tuple(each.shape) != (0,)]
            dim = call.argument(1, "dim", 0)
            if parts:
                yield tuple(each.shape[dim] for each in parts)
        elif call.operator == "copy_" and (rows := rows_of(slices.get(id(call.arguments[0])))) is not None:
            base, start, stop = rows
            pieces = written[id(base)]
            pieces[start] = stop
            if are_whole(pieces, base.shape[0]):
                yield tuple(pieces[each] - each for each in sorted(pieces))


def rows_of(part: Call | None) -> tuple[Any, int, int] | None:
    """The tensor that a call takes rows of, from where to where; None where it takes others."""
    if part is None or part.argument(1, "dim", 0) != 0 or part.argument(4, "step", 1) != 1:
        return None
    base = part.arguments[0]
    start, stop, _ = slice(part.argument(2, "start"), part.argument(3, "end")).indices(base.shape[0])
    return base, start, stop


def are_whole(pieces: Mapping[int, int], length: int) -> bool:
    """Whether pieces, by where they begin, with where they end, are all of a length, one behind another."""
    begins = sorted(pieces)
    return [0, *(pieces[each] for each in begins)] == [*begins, length]


def sums(tape: Tape, sizes: Iterable[int]) -> Mapping[tuple[int, ...], int]:
    """By the sizes of blocks, in their order by size, how long the set of them is. `sizes` are the inputs' sets'."""
    own = set(sizes)
    each_of_own = (each for each in put_behind(tape) if len(each) > 1 and own.issuperset(each))
    return {tuple(sorted(each)): sum(each) for each in each_of_own}
