"""The inspector: at run time, groups the rows of a batch by the matrix that they are multiplied with (cuKE §VI).

Each matrix gets `n` rows in `ceil(n / T)` tiles, all of one height, and the tiles with most rows come first. Rows stay
where they are: `order` names them, group by group, and their results go to their own places, so nothing need be
un-permuted. Which row comes first within a group changes from run to run; what is computed for it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from explorer.compiler.counts import SETS
from explorer.compiler.ir.kernels import ROLLED, Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.steps import ALL, Steps

ROWS_A_TILE = 64
PIECE = 16
"""Edges of a piece, at most: long sums are cut, so that no thread has to take thousands."""
GRANULE = 8
"""Tiles have a multiple of so many places for rows."""
HEIGHTS = ROWS_A_TILE // GRANULE
THREADS, MOST_THREADS = 256, 1024
WINDOW = 2048
"""Matrices whose rows are counted at a time, in 8 KiB of shared memory; for more the rows are read again."""


@dataclass(frozen=True)
class Grouping:
    """Index arrays that the `kernels` fill: `order` has the rows, those of tile `z` from `begin[z]` to `end[z]`, all
    with the matrix `matrix[z]`; there are `tiles` of them, of which some may be empty."""

    kernels: tuple[ScheduledKernel, ...]
    order: Buffer
    matrix: Buffer
    begin: Buffer
    end: Buffer
    tiles: tuple[str, Count]


@dataclass(frozen=True)
class Chosen:
    """Rows that have their matrix from an index array, each so many `times` in a row of the same element of it."""

    index: Buffer
    rows: Extent
    times: int = 1
    unroll = 4  # elements that a thread counts side by side

    @property
    def counted(self) -> Extent:
        """How many elements are counted, each for as many rows as it has."""
        return self.index.extents[0]

    @property
    def most(self) -> tuple[tuple[Extent, int], ...]:
        """Terms of how many tiles they fill at most, but for one for each matrix."""
        return ((self.rows, ROWS_A_TILE),)

    @property
    def read(self) -> tuple[Buffer, ...]:
        """The arrays that say what a row's matrix is."""
        return (self.index,)

    @property
    def found(self) -> tuple[Buffer, ...]:
        """The arrays that the inspector fills besides those of the order."""
        return ()

    @contextmanager
    def first(self, steps: Steps, row: Extent, rank: str) -> Iterator[str]:
        """The matrix of a row, when the rows are counted; what is written inside is done where the row is one."""
        del rank
        yield steps.load("m", self.index.name, row)

    @contextmanager
    def again(self, steps: Steps, row: Extent, rank: str) -> Iterator[str]:
        """The matrix of a row that has been counted."""
        del rank
        yield steps.load("m", self.index.name, row)


@dataclass(frozen=True)
class Pieces:
    """Rows that are pieces of at most `PIECE` edges of a pair, each named by its first edge; the other edges are no
    rows. `offsets` are where pairs begin, `nodes` where the pairs of a node do, `matrices` those of pairs. The
    inspector finds each piece's `pair`, `node`, and the edge where it must `stop`."""

    rows: Extent
    offsets: Buffer
    nodes: Buffer
    matrices: Buffer
    pair: Buffer
    node: Buffer
    stop: Buffer
    times = 1
    unroll = ROLLED  # searches are loops, which do not stand side by side

    @property
    def counted(self) -> Extent:
        """How many elements are counted: all edges."""
        return self.rows

    @property
    def index(self) -> Buffer:
        """What says what a pair's matrix is."""
        return self.matrices

    @property
    def most(self) -> tuple[tuple[Extent, int], ...]:
        """Terms of how many tiles they fill at most, but for one for each matrix."""
        return ((self.rows, PIECE * ROWS_A_TILE), (self.matrices.extents[0], ROWS_A_TILE))

    @property
    def read(self) -> tuple[Buffer, ...]:
        """The arrays that say what a row's matrix is."""
        return (self.offsets, self.nodes, self.matrices)

    @property
    def found(self) -> tuple[Buffer, ...]:
        """The arrays that the inspector fills besides those of the order."""
        return (self.pair, self.node, self.stop)

    @contextmanager
    def first(self, steps: Steps, row: Extent, rank: str) -> Iterator[str]:
        """The matrix of a piece, when the pieces are counted; an edge in the middle of one gets no rank."""
        pair = steps.search("d", self.offsets.name, row, self.offsets.extents[0])
        begin = steps.load("begin", self.offsets.name, pair)
        place = steps.index("place", "mod", steps.index("before", "sub", row, begin), PIECE)
        with steps.where(0, "<", place):
            steps.store(rank, [row], -1)
        with steps.where(place, "==", 0):
            end = steps.load("end", self.offsets.name, steps.index("next", "add", pair, 1))
            stop = steps.index("stop", "min", steps.index("past", "add", row, PIECE), end)
            steps.store(self.stop.name, [row], stop)
            steps.store(self.pair.name, [row], pair)
            steps.store(self.node.name, [row], steps.search("n", self.nodes.name, pair, self.nodes.extents[0]))
            yield steps.load("m", self.matrices.name, pair)

    @contextmanager
    def again(self, steps: Steps, row: Extent, rank: str) -> Iterator[str]:
        """The matrix of a piece that has been counted."""
        with steps.where(0, "<=", rank):
            yield steps.load("m", self.matrices.name, steps.load("d", self.pair.name, row))


@dataclass(frozen=True)
class _Arrays:
    """What the inspector's kernels share. `rank` is the place in its group of the first row of what is counted,
    `population` the rows of a matrix, `first` the place of its first row in the order, `first_tile` its first tile."""

    chosen: Chosen | Pieces
    rank: Buffer
    population: Buffer
    first: Buffer
    first_tile: Buffer
    order: Buffer
    matrix: Buffer
    begin: Buffer
    end: Buffer
    tiles: tuple[str, Count]

    @property
    def rows(self) -> Extent:
        """How many rows there are."""
        return self.chosen.rows

    @property
    def matrices(self) -> Extent:
        """How many matrices there are."""
        return self.population.extents[0]


def group_rows(name: str, chosen: Chosen | Pieces, matrices: Extent, names: Names, origin: Origin) -> Grouping:
    """The inspector for rows of which each has chosen one of the matrices. `names` are those of the module.

    Where the rows are a set of a graph, its kernels need run but once, when the graph is given."""
    rows = chosen.rows
    tiles = names.new("tiles")

    def array(hint: str, extent: Extent) -> Buffer:
        return Buffer(name=names.new(hint), kind="index", extents=(extent,), origin=origin)

    arrays = _Arrays(
        chosen=chosen,
        rank=array("rank", chosen.counted),
        population=array("population", matrices),
        first=array("first", matrices),
        first_tile=array("first_tile", matrices),
        order=array("order", rows),
        matrix=array("tile_matrix", tiles),
        begin=array("tile_begin", tiles),
        end=array("tile_end", tiles),
        tiles=(tiles, Count((*chosen.most, (matrices, 1)))),
    )
    builders = (_tile, _order)
    kernels = tuple(replace(build(name, arrays, origin), once=rows in SETS) for build in builders)
    return Grouping(kernels, arrays.order, arrays.matrix, arrays.begin, arrays.end, arrays.tiles)


def _steps(arrays: _Arrays, origin: Origin) -> Steps:
    taken = {arrays.tiles[0], arrays.rows, arrays.matrices}
    buffers = (*vars(arrays).values(), *vars(arrays.chosen).values())
    taken |= {buffer.name for buffer in buffers if isinstance(buffer, Buffer)}
    taken |= {extent for buffer in arrays.chosen.read for extent in buffer.extents}
    return Steps(Names({name for name in taken if isinstance(name, str)}), origin)


def _kernel(
    name: str,
    schedule: tuple[str, ...],
    threads: int,
    used: tuple[Buffer, ...],
    arrays: _Arrays,
    steps: Steps,
    origin: Origin,
) -> ScheduledKernel:
    touched = steps.arrays()
    return ScheduledKernel(
        name=name,
        template="inspector",
        sizes=(),
        buffers=tuple(buffer for buffer in used if buffer.name in touched),
        threads=threads,
        schedule=schedule,
        body=steps.body,
        counts=(arrays.tiles,) if arrays.tiles[0] in {e for buffer in used for e in buffer.extents} else (),
        origin=origin,
    )


def _tile(name: str, arrays: _Arrays, origin: Origin) -> ScheduledKernel:
    """The rows of every matrix, the tiles by height, and where each matrix's rows begin in the order.

    One block does it, so that its threads can wait for one another and count in shared memory, where the rows of a
    popular matrix wait the least: for a batch that costs less than the launches of the kernels that many blocks need
    (measured: 16,384 rows of 237 matrices)."""
    steps = _steps(arrays, origin)
    with steps.loop("block", 1, "block"):
        tiles_of, rows_of = (steps.tile(hint, [HEIGHTS], "shared", type="i32") for hint in ("tiles_of", "rows_of"))
        next_tile, next_row = (steps.tile(hint, [HEIGHTS], "shared", type="i32") for hint in ("next_tile", "next_row"))
        with steps.loop("c", HEIGHTS, "thread") as each:
            for counter in (tiles_of, rows_of, next_tile, next_row):
                steps.store(counter, [each], 0)
        with steps.loop("z", arrays.tiles[0], "thread", unroll=ROLLED) as place:
            steps.store(arrays.begin.name, [place], 0)
            steps.store(arrays.end.name, [place], 0)
        steps.barrier()
        _count(steps, arrays, tiles_of, rows_of)
        with (
            steps.loop("c", HEIGHTS, "thread") as each,
            steps.loop("larger", HEIGHTS, unroll=ALL) as larger,
            steps.where(larger, "<", each),
        ):
            for total, following, hint in ((tiles_of, next_tile, "t"), (rows_of, next_row, "n")):
                added, before = steps.load(hint, total, larger), steps.load(hint, following, each)
                steps.store(following, [each], steps.index(hint, "add", before, added))
        steps.barrier()
        with steps.loop("m", arrays.matrices, "thread", unroll=ROLLED) as matrix:
            population = steps.load("n", arrays.population.name, matrix)
            with _with_tiles(steps, population) as (tiles, height):
                steps.store(arrays.first_tile.name, [matrix], steps.atomic(next_tile, [height], tiles, "tile"))
                steps.store(arrays.first.name, [matrix], steps.atomic(next_row, [height], population, "row"))
    used = (*arrays.chosen.read, *arrays.chosen.found, arrays.rank, arrays.population)
    schedule = (
        f"count the rows by {arrays.chosen.index.name} in shared memory, {WINDOW} matrices at a time: "
        "the atomic gives a row's rank",
        f"find room for tiles of at most {ROWS_A_TILE} rows, a matrix's of equal height, the highest first",
    )
    used = (*used, arrays.first, arrays.first_tile, arrays.begin, arrays.end)
    return _kernel(f"{name}_tile", schedule, MOST_THREADS, used, arrays, steps, origin)


def _count(steps: Steps, arrays: _Arrays, tiles_of: str, rows_of: str) -> None:
    """How many rows each matrix has, each row's place among them, and how many tiles and rows have each height."""
    counts = steps.tile("counts", [WINDOW], "shared", type="i32")
    windows = _divide_up(steps, "windows", arrays.matrices, WINDOW)
    with steps.loop("window", windows, unroll=ROLLED) as window:
        first = steps.index("first", "mul", window, WINDOW)
        with steps.loop("k", WINDOW, "thread", unroll=ROLLED) as each:
            steps.store(counts, [each], 0)
        steps.barrier()
        with (
            steps.loop("b", arrays.chosen.counted, "thread", unroll=arrays.chosen.unroll) as row,
            arrays.chosen.first(steps, row, arrays.rank.name) as matrix,
        ):
            place = steps.index("k", "sub", matrix, first)
            with steps.where(0, "<=", place), steps.where(place, "<", WINDOW):
                steps.store(arrays.rank.name, [row], steps.atomic(counts, [place], 1, "rank"))
        steps.barrier()
        with steps.loop("k", WINDOW, "thread", unroll=ROLLED) as each:
            counted = steps.index("m", "add", first, each)
            with steps.where(counted, "<", arrays.matrices):
                population = steps.index("n", "mul", steps.load("n", counts, each), arrays.chosen.times)
                steps.store(arrays.population.name, [counted], population)
                with _with_tiles(steps, population) as (tiles, height):
                    steps.atomic(tiles_of, [height], tiles)
                    steps.atomic(rows_of, [height], population)
        steps.barrier()


@contextmanager
def _with_tiles(steps: Steps, population: Extent) -> Iterator[tuple[Extent, Extent]]:
    """For a matrix that has rows: in how many tiles, and the tiles' height, as 0 for the highest."""
    with steps.where(0, "<", population):
        tiles, rows = _tiles_of(steps, population)
        yield tiles, steps.index("height", "sub", HEIGHTS, _divide_up(steps, "granules", rows, GRANULE))


def _tiles_of(steps: Steps, population: Extent) -> tuple[Extent, Extent]:
    """How many tiles a matrix has, and how many rows each of them, but the last may have fewer."""
    tiles = _divide_up(steps, "tiles", population, ROWS_A_TILE)
    return tiles, _divide_up(steps, "rows", population, tiles)


def _divide_up(steps: Steps, hint: str, dividend: Extent, divisor: Extent) -> Extent:
    if isinstance(divisor, int):
        return steps.index(hint, "div", steps.index("more", "add", dividend, divisor - 1), divisor)
    more = steps.index("more", "add", dividend, divisor)
    return steps.index(hint, "div", steps.index("less", "sub", more, 1), divisor)


def _order(name: str, arrays: _Arrays, origin: Origin) -> ScheduledKernel:
    """Every row to its place; the first row of a tile says where the tile is."""
    steps = _steps(arrays, origin)
    with steps.loop("block", Count(((arrays.rows, THREADS),)), "block") as block:
        first = steps.index("place", "mul", block, THREADS)
        with steps.loop("thread", THREADS, "thread") as thread:
            row = steps.index("b", "add", first, thread)
            with steps.where(row, "<", arrays.rows):
                _place(steps, arrays, row)
    tiles = (arrays.population, arrays.first_tile, arrays.matrix, arrays.begin, arrays.end)
    used = (*arrays.chosen.read, *arrays.chosen.found, arrays.rank, arrays.first, arrays.order, *tiles)
    return _kernel(f"{name}_order", ("write the rows group by group",), THREADS, used, arrays, steps, origin)


def _place(steps: Steps, arrays: _Arrays, row: Extent) -> None:
    times = arrays.chosen.times
    counted = steps.index("b", "div", row, times)
    rank = steps.load("rank", arrays.rank.name, counted)
    with arrays.chosen.again(steps, counted, rank) as matrix:
        start = steps.load("start", arrays.first.name, matrix)
        before = steps.index("before", "mul", rank, times)
        own = steps.index("rank", "add", before, steps.index("j", "mod", row, times))
        place = steps.index("place", "add", start, own)
        steps.store(arrays.order.name, [place], row)
        population = steps.load("n", arrays.population.name, matrix)
        _, rows = _tiles_of(steps, population)
        which = steps.index("u", "div", own, rows)
        with steps.where(steps.index("before", "mul", which, rows), "==", own):
            tile = steps.index("z", "add", steps.load("tile", arrays.first_tile.name, matrix), which)
            steps.store(arrays.matrix.name, [tile], matrix)
            steps.store(arrays.begin.name, [tile], place)
            past, end = steps.index("past", "add", place, rows), steps.index("end", "add", start, population)
            steps.store(arrays.end.name, [tile], steps.index("until", "min", past, end))
