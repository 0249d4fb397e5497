"""The inspector of a chunk: what its edges share, found by their block in shared memory (cuKE §VI-A, Figure 7).

For each index array that edges choose rows or matrices by, after the paper's names:

    idx 1 3 1 3 4 2           what the edges chose
    sorted 1 1 2 3 3 4        the same, sorted; ord 0 3 1 4 5 2 is where each edge's went
    is_uniq 1 0 1 1 0 1       1 where a value differs from the one before, and for the first
    position 0 0 1 2 2 3      its prefix sum behind the first: which of the unique ones a sorted value is
    pcount 0 2 3 5            where each unique one's values begin, hence count 2 1 2 1
    cache 1 2 3 4             the unique ones; most frequent first: sorted_cache 1 3 2 4, by cache_ord 0 2 1 3
    buf_idx 0 1 0 1 10 8      by edge: its place among the cached, or the chunk's edges + its index

All arrays are inspected at once, each by threads of its own. Sorting is by counting the values that come before each:
a chunk is so short that this takes one wait, where merging takes one for each doubling. Equal values keep their order,
so that results are the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.node import Extent
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect import facts

UNROLLED = 8
"""Comparisons side by side, so that their loads are under way together."""
REPEATED = 1
"""Rows are cached where more than so many edges of the chunk chose them (the paper's threshold)."""

EdgeAt = Callable[[Extent], Extent]
"""Writes which edge of the batch a place of the chunk has."""


@dataclass(frozen=True)
class Chunk:
    """The edges of a block: at most `most`, of which there are `here`; `edge` says which. `number` is
    the chunk's, and the block's. Of index arrays with one element for several edges next to each other, `triples` says
    for how many."""

    most: int
    number: Extent
    here: Extent
    edge: EdgeAt
    triples: Mapping[str, int]


@dataclass(frozen=True)
class Tiles:
    """The inspector's tiles, each of a chunk's length for each array; of `unique`, how many unique ones there are,
    the first counts. `sorted_count` has the counts of `sorted_cache`."""

    idx: str
    sorted: str
    ord: str
    is_uniq: str
    position: str
    pcount: str
    count: str
    cache: str
    cache_ord: str
    sorted_cache: str
    sorted_count: str
    buf_idx: str
    unique: str


@dataclass(frozen=True)
class Inspector:
    """Inspects the index arrays `matrices`, for which at most `cached` unique indices have their matrix in shared
    memory, and `rows`, for which those have that are repeated."""

    steps: Steps
    chunk: Chunk
    matrices: tuple[str, ...]
    rows: tuple[str, ...]
    cached: int
    tiles: Tiles

    @classmethod
    def declare(
        cls, steps: Steps, chunk: Chunk, matrices: Sequence[str], rows: Sequence[str], cached: int
    ) -> Inspector:
        """Declares the tiles."""
        arrays = len(matrices) + len(rows)
        names = {
            field.name: steps.tile(field.name, [arrays, chunk.most], "shared", type="i32") for field in fields(Tiles)
        }
        for places in ("ord", "position", "cache_ord"):
            steps.know(facts.of_chunk_places(names[places], chunk.most))
        steps.know(facts.of_unique(names["unique"], chunk.most))
        for number, array in enumerate((*matrices, *rows)):
            steps.know(facts.of_chunk(number, array, names["sorted_cache"], names["buf_idx"], chunk.most))
        return cls(steps, chunk, tuple(matrices), tuple(rows), cached, Tiles(**names))

    def inspect(self) -> None:
        """Writes the inspection, with a wait before each of its parts: `buf_idx` is read after the first rows are
        staged, for which there is one. What `_unique` needs, each thread has found itself."""
        steps, chunk = self.steps, self.chunk
        with steps.loop("i", chunk.most, "thread") as place, steps.where(place, "<", chunk.here):
            edge = chunk.edge(place)
            for array in (*self.matrices, *self.rows):
                triple = steps.index("triple", "div", edge, chunk.triples[array])
                steps.store(self.tiles.idx, [self._row(array), place], steps.load("chosen", array, triple))
        for part in (self._sort, self._mark, self._unique, self._count, self._order, self._remap):
            steps.barrier()
            with (
                steps.loop("a", len(self.matrices) + len(self.rows), "thread") as array,
                steps.loop("i", chunk.most, "thread") as place,
            ):
                part(array, place)

    def at(self, array: str, edge: Extent) -> str:
        """Where an edge's row or matrix is: the element of `buf_idx`."""
        return self.steps.load("at", self.tiles.buf_idx, self._row(array), edge)

    def most_cached(self, array: str) -> int:
        """How many of an array's unique indices can be cached."""
        return min(self.chunk.most, self.cached) if array in self.matrices else self.chunk.most // (REPEATED + 1)

    @contextmanager
    def each_cached(self, array: str, place: Extent) -> Iterator[str]:
        """What is written inside is done where a place of the cache has something. Gives its index in memory."""
        steps, row = self.steps, self._row(array)
        with steps.where(place, "<", steps.load("unique", self.tiles.unique, row, 0)):
            if array in self.matrices:
                yield steps.load("row", self.tiles.sorted_cache, row, place)
                return
            with steps.where(REPEATED, "<", steps.load("count", self.tiles.sorted_count, row, place)):
                yield steps.load("row", self.tiles.sorted_cache, row, place)

    def _row(self, array: str) -> int:
        return (*self.matrices, *self.rows).index(array)

    def _sort(self, row: str, place: str) -> None:
        steps, tiles, here = self.steps, self.tiles, self.chunk.here
        with steps.where(place, "<", here):
            chosen = steps.load("chosen", tiles.idx, row, place)
            goes = self._rank(tiles.idx, (row, place), chosen, here, falling=False)
            steps.store(tiles.ord, [row, place], goes)
            steps.store(tiles.sorted, [row, goes], chosen)

    def _rank(self, tile: str, at: tuple[str, str], key: str, past: Extent, *, falling: bool) -> str:
        """The place of a key among those before `past`."""
        row, place = at
        found = rank(self.steps, (tile, (row,), (0, past)), key, place, falling=falling)
        self.steps.know(facts.of_rank(found, self.chunk.most))
        return found

    def _mark(self, row: str, place: str) -> None:
        steps, tiles = self.steps, self.tiles
        with steps.where(place, "<", self.chunk.here):
            before = steps.index("before", "max", steps.index("before", "sub", place, 1), 0)
            last, value = steps.load("last", tiles.sorted, row, before), steps.load("value", tiles.sorted, row, place)
            begins, differs = steps.index("begins", "equal", place, 0), steps.index("differs", "less", last, value)
            steps.store(tiles.is_uniq, [row, place], steps.select("is_uniq", begins, 1, differs))

    def _number(self, row: str, place: str) -> str:
        """The prefix sum of `is_uniq`."""
        steps, tiles = self.steps, self.tiles
        total = steps.tile("total", [1], "register", type="i32")
        steps.store(total, [0], 0)
        with steps.segment("j", 1, steps.index("past", "add", place, 1), unroll=UNROLLED) as other:
            steps.count(total, [0], steps.load("differs", tiles.is_uniq, row, other))
        which = steps.load("u", total, 0)
        steps.know(facts.of_rank(which, self.chunk.most))
        return which

    def _unique(self, row: str, place: str) -> None:
        """The first of each value says where it begins and what it is; the last edge, how many values there are."""
        steps, tiles = self.steps, self.tiles
        with steps.where(place, "<", self.chunk.here):
            which = self._number(row, place)
            steps.store(tiles.position, [row, place], which)
            with steps.where(steps.load("differs", tiles.is_uniq, row, place), "==", 1):
                steps.store(tiles.pcount, [row, which], place)
                steps.store(tiles.cache, [row, which], steps.load("value", tiles.sorted, row, place))
            with steps.where(place, "==", steps.index("last", "sub", self.chunk.here, 1)):
                steps.store(tiles.unique, [row, 0], steps.index("n", "add", which, 1))

    def _count(self, row: str, which: str) -> None:
        steps, tiles = self.steps, self.tiles
        unique = steps.load("unique", tiles.unique, row, 0)
        with steps.where(which, "<", unique):
            begin, following = steps.load("begin", tiles.pcount, row, which), steps.index("next", "add", which, 1)
            with steps.where(following, "<", unique):
                end = steps.load("end", tiles.pcount, row, following)
                steps.store(tiles.count, [row, which], steps.index("n", "sub", end, begin))
            with steps.where(following, "==", unique):
                steps.store(tiles.count, [row, which], steps.index("n", "sub", self.chunk.here, begin))

    def _order(self, row: str, which: str) -> None:
        steps, tiles = self.steps, self.tiles
        unique = steps.load("unique", tiles.unique, row, 0)
        with steps.where(which, "<", unique):
            count = steps.load("count", tiles.count, row, which)
            goes = self._rank(tiles.count, (row, which), count, unique, falling=True)
            steps.store(tiles.cache_ord, [row, which], goes)
            steps.store(tiles.sorted_cache, [row, goes], steps.load("value", tiles.cache, row, which))
            steps.store(tiles.sorted_count, [row, goes], count)

    def _remap(self, row: str, place: str) -> None:
        """In the order of the edges again: `ord` says where an edge's value was."""
        steps, tiles = self.steps, self.tiles
        with steps.where(place, "<", self.chunk.here):
            which = steps.load("u", tiles.position, row, steps.load("place", tiles.ord, row, place))
            goes = steps.load("goes", tiles.cache_ord, row, which)
            elsewhere = steps.index("elsewhere", "add", self.chunk.most, steps.load("chosen", tiles.idx, row, place))
            cached = self._is_cached(row, goes)
            steps.store(tiles.buf_idx, [row, place], steps.select("at", cached, goes, elsewhere))

    def _is_cached(self, row: str, place: Extent) -> Extent:
        """Whether the unique index at a place of `sorted_cache` is cached."""
        steps, matrices = self.steps, len(self.matrices)
        first = steps.index("first", "less", place, self.cached)
        if not self.rows:
            return first
        count = steps.load("count", self.tiles.sorted_count, row, place)
        repeated = steps.index("repeated", "less", REPEATED, count)
        of_matrices = steps.index("of_matrices", "less", row, matrices)
        return steps.select("cached", of_matrices, first, repeated) if matrices else repeated


def rank(
    steps: Steps, others: tuple[str, tuple[Extent, ...], tuple[Extent, Extent]], key: str, place: str, *, falling: bool
) -> str:
    """How many of the keys in a tile come before one, that of a place; of equal ones, those at lower places do.

    `others` are the tile, what comes before the last of its indices, and that one's bounds."""
    tile, outer, bounds = others
    before = steps.tile("before", [1], "register", type="i32")
    steps.store(before, [0], 0)
    with steps.segment("j", *bounds, unroll=UNROLLED) as other:
        theirs = steps.load("other", tile, *outer, other)
        smaller, larger = (key, theirs) if falling else (theirs, key)
        bound = steps.index("bound", "add", larger, steps.index("earlier", "less", other, place))
        steps.count(before, [0], steps.index("precedes", "less", smaller, bound))
    return steps.load("rank", before, 0)
