"""The inspector: at run time, groups the rows of a batch by the matrix that they are multiplied with (cuKE §VI).

Each matrix gets `n` rows in `ceil(n / T)` tiles, all of one height, and the tiles with most rows come first. Rows stay
where they are: `order` names them, group by group, and their results go to their own places, so nothing need be
un-permuted. Which row comes first within a group changes from run to run; what is computed for it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.counts import SETS
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import ROLLED, Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import ALL, Steps
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.inspection import Inspection, index_arrays

ROWS_A_TILE = 64
GRANULE = 8
"""Tiles have a multiple of so many places for rows."""
HEIGHTS = ROWS_A_TILE // GRANULE
THREADS, MOST_THREADS = 256, 1024
WINDOW = 2048
"""Matrices whose rows are counted at a time, in 8 KiB of shared memory; for more the rows are read again."""
SIDE_BY_SIDE = 8
"""Elements that a thread counts side by side: its loads then wait for memory twice for 16,384 of them."""


@dataclass(frozen=True)
class Grouping:
    """Index arrays that the `kernels` fill: `order` has the rows, those of tile `z` from `begin[z]` to `end[z]`, all
    with the matrix `matrix[z]`; there are as many as the last of `counts` says, of which some may be empty. Rows that
    are made in that order have none. Where one of the kernels finds out how many tiles are not, all of them the first,
    that is the element of the array `used`, else ""."""

    kernels: tuple[ScheduledKernel, ...]
    order: Buffer | None
    matrix: Buffer
    begin: Buffer
    end: Buffer
    counts: tuple[tuple[str, Count], ...]
    used: str = ""

    @property
    def tiles(self) -> str:
        """What counts the tiles."""
        return self.counts[-1][0]

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """What there is of the arrays."""
        return tuple(b for b in (self.order, self.matrix, self.begin, self.end) if b is not None)

    def row(self, steps: Steps, place: Extent, hint: str = "b") -> Extent:
        """The row at a place of the order."""
        return place if self.order is None else steps.load(hint, self.order.name, place)


@dataclass(frozen=True)
class Chosen:
    """Rows that have their matrix from an index array, each so many `times` in a row of the same element of it."""

    index: Buffer
    rows: Extent
    times: int = 1

    @property
    def counted(self) -> Extent:
        """How many elements are counted, each for as many rows as it has."""
        return self.index.extents[0]


@dataclass(frozen=True)
class _Groups(Inspection):
    """`rank` is the place in its group of the first row of what is counted, `population` the rows of a matrix, `first`
    the place of its first row in the order, `first_tile` its first tile."""

    chosen: Chosen
    matrices: Extent

    def begun(self) -> Steps:
        """The statements of one of its kernels, with what is known of its arrays."""
        steps = self.steps()
        ((tiles, _),) = self.counts
        steps.know(
            facts.of_groups(
                index=self.chosen.index.name,
                rank=self["rank"],
                population=self["population"],
                first=self["first"],
                first_tile=self["first_tile"],
                rows=self.chosen.rows,
                tiles=tiles,
                times=self.chosen.times,
                high=ROWS_A_TILE,
            )
        )
        return steps


def group_rows(name: str, chosen: Chosen, matrices: Extent, names: Names, origin: Origin) -> Grouping:
    """The inspector for rows of which each has chosen one of the matrices. `names` are those of the module.

    Where the rows are a set of a graph, its kernels need run but once, when the graph is given."""
    rows, tiles = chosen.rows, names.new("tiles")
    extents = {
        "rank": chosen.counted,
        **dict.fromkeys(("population", "first", "first_tile"), matrices),
        "order": rows,
        **dict.fromkeys(("tile_matrix", "tile_begin", "tile_end"), tiles),
    }
    of, count = index_arrays(extents, names, origin), (tiles, Count(((rows, ROWS_A_TILE), (matrices, 1))))
    groups = _Groups(name, (chosen.index,), of, (count,), rows in SETS, origin, chosen, matrices)
    tiled = of["tile_matrix"], of["tile_begin"], of["tile_end"]
    return Grouping((_tile(groups), _order(groups)), of["order"], *tiled, groups.counts)


def _tile(groups: _Groups) -> ScheduledKernel:
    """The rows of every matrix, the tiles by height, and where each matrix's rows begin in the order.

    One block does it, so that its threads can wait for one another and count in shared memory, where the rows of a
    popular matrix wait the least: for a batch that costs less than the launches of the kernels that many blocks need
    (measured: 16,384 rows of 237 matrices)."""
    steps = groups.begun()
    with steps.loop("block", 1, "block"):
        tiles_of, rows_of = (steps.tile(hint, [HEIGHTS], "shared", type="i32") for hint in ("tiles_of", "rows_of"))
        next_tile, next_row = (steps.tile(hint, [HEIGHTS], "shared", type="i32") for hint in ("next_tile", "next_row"))
        with steps.loop("c", HEIGHTS, "thread") as each:
            for counter in (tiles_of, rows_of, next_tile, next_row):
                steps.store(counter, [each], 0)
        with steps.loop("z", groups.of["tile_begin"].extents[0], "thread", unroll=ROLLED) as place:
            steps.store(groups["tile_begin"], [place], 0)
            steps.store(groups["tile_end"], [place], 0)
        steps.barrier()
        _count(steps, groups, tiles_of, rows_of)
        with (
            steps.loop("c", HEIGHTS, "thread") as each,
            steps.loop("larger", HEIGHTS, unroll=ALL) as larger,
            steps.where(larger, "<", each),
        ):
            for total, following, hint in ((tiles_of, next_tile, "t"), (rows_of, next_row, "n")):
                steps.count(following, [each], steps.load(hint, total, larger))
        steps.barrier()
        with steps.loop("m", groups.matrices, "thread", unroll=ROLLED) as matrix:
            population = steps.load("n", groups["population"], matrix)
            with _with_tiles(steps, population) as (tiles, height):
                steps.store(groups["first_tile"], [matrix], steps.atomic(next_tile, [height], tiles, "tile"))
                steps.store(groups["first"], [matrix], steps.atomic(next_row, [height], population, "row"))
    return groups.kernel(
        "tile",
        steps,
        MOST_THREADS,
        f"count the rows by {groups.chosen.index.name} in shared memory, {WINDOW} matrices at a time: "
        "the atomic gives a row's rank",
        f"find room for tiles of at most {ROWS_A_TILE} rows, a matrix's of equal height, the highest first",
    )


def _count(steps: Steps, groups: _Groups, tiles_of: str, rows_of: str) -> None:
    """How many rows each matrix has, each row's place among them, and how many tiles and rows have each height."""
    counts = steps.tile("counts", [WINDOW], "shared", type="i32")
    windows = divide_up(steps, "windows", groups.matrices, WINDOW)
    with steps.loop("window", windows, unroll=ROLLED) as window:
        first = steps.index("first", "mul", window, WINDOW)
        with steps.loop("k", WINDOW, "thread", unroll=ROLLED) as each:
            steps.store(counts, [each], 0)
        steps.barrier()
        with steps.loop("b", groups.chosen.counted, "thread", unroll=SIDE_BY_SIDE) as row:
            matrix = steps.load("m", groups.chosen.index.name, row)
            place = steps.index("k", "sub", matrix, first)
            with steps.where(0, "<=", place), steps.where(place, "<", WINDOW):
                steps.store(groups["rank"], [row], steps.atomic(counts, [place], 1, "rank"))
        steps.barrier()
        with steps.loop("k", WINDOW, "thread", unroll=ROLLED) as each:
            counted = steps.index("m", "add", first, each)
            with steps.where(counted, "<", groups.matrices):
                population = steps.index("n", "mul", steps.load("n", counts, each), groups.chosen.times)
                steps.store(groups["population"], [counted], population)
                with _with_tiles(steps, population) as (tiles, height):
                    steps.atomic(tiles_of, [height], tiles)
                    steps.atomic(rows_of, [height], population)
        steps.barrier()


@contextmanager
def _with_tiles(steps: Steps, population: Extent) -> Iterator[tuple[Extent, Extent]]:
    """For a matrix that has rows: in how many tiles, and the tiles' height, as 0 for the highest."""
    with steps.where(0, "<", population):
        tiles, rows = tiles_and_rows(steps, population)
        yield tiles, steps.index("height", "sub", HEIGHTS, divide_up(steps, "granules", rows, GRANULE))


def tiles_and_rows(steps: Steps, population: Extent) -> tuple[Extent, Extent]:
    """How many tiles a matrix has, and how many rows each of them, but the last may have fewer."""
    tiles = divide_up(steps, "tiles", population, ROWS_A_TILE)
    return tiles, divide_up(steps, "rows", population, tiles)


def divide_up(steps: Steps, hint: str, dividend: Extent, divisor: Extent) -> Extent:
    """A quotient, rounded up."""
    if isinstance(divisor, int):
        return steps.index(hint, "div", steps.index("more", "add", dividend, divisor - 1), divisor)
    more = steps.index("more", "add", dividend, divisor)
    return steps.index(hint, "div", steps.index("less", "sub", more, 1), divisor)


def _order(groups: _Groups) -> ScheduledKernel:
    """Every row to its place; the first row of a tile says where the tile is."""
    steps = groups.begun()
    with steps.each("b", groups.chosen.rows, THREADS) as row:
        _place(steps, groups, row)
    held = ("rank", "first", "order", "population", "first_tile", "tile_matrix", "tile_begin", "tile_end")
    arrays = (groups.chosen.index, *(groups.of[each] for each in held))
    return groups.kernel("order", steps, THREADS, "write the rows group by group", arrays=arrays)


def _place(steps: Steps, groups: _Groups, row: Extent) -> None:
    times = groups.chosen.times
    counted = steps.index("b", "div", row, times)
    rank = steps.load("rank", groups["rank"], counted)
    matrix = steps.load("m", groups.chosen.index.name, counted)
    start = steps.load("start", groups["first"], matrix)
    population = steps.load("n", groups["population"], matrix)
    before = steps.index("before", "mul", rank, times)
    own = steps.index("rank", "add", before, steps.index("j", "mod", row, times))
    place = steps.index("place", "add", start, own)
    _, rows = tiles_and_rows(steps, population)
    which = steps.index("u", "div", own, rows)
    steps.store(groups["order"], [place], row)
    with steps.where(steps.index("before", "mul", which, rows), "==", own):
        tile = steps.index("z", "add", steps.load("tile", groups["first_tile"], matrix), which)
        steps.store(groups["tile_matrix"], [tile], matrix)
        steps.store(groups["tile_begin"], [tile], place)
        past, end = steps.index("past", "add", place, rows), steps.index("end", "add", start, population)
        steps.store(groups["tile_end"], [tile], steps.index("until", "min", past, end))
