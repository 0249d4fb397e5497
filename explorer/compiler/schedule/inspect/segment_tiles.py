"""The inspector for rows that lie matrix by matrix, as the pairs of a graph do: where the tiles of each matrix are.

Nothing need be counted or moved: two searches find a matrix's rows (Hector's segments by type, §3.3.1). They are in
`ceil(n / T)` tiles of one height, and the tiles with most rows come first, as they do where rows are grouped.
"""

from __future__ import annotations

from explorer.compiler.counts import SETS
from explorer.compiler.ir.kernels import ROLLED, Count
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.group_by_matrix import (
    GRANULE,
    HEIGHTS,
    MOST_THREADS,
    ROWS_A_TILE,
    Grouping,
    divide_up,
)
from explorer.compiler.schedule.inspect.inspection import Inspection, index_arrays


def tile_segments(name: str, index: Buffer, matrices: Extent, names: Names, origin: Origin) -> Grouping:
    """The tiles of rows whose matrices `index` has in ascending order. `names` are those of the module.

    Where the rows are a set of a graph, the kernel needs run but once, when the graph is given."""
    tiles, rows = names.new("tiles"), index.extents[0]
    extents = {"first": matrices, "population": matrices, "tile_matrix": tiles, "tile_begin": tiles, "tile_end": tiles}
    of = index_arrays(extents, names, origin)
    first, population, matrix, begin, end = of.values()
    segments, tiled = (first, population), (matrix, begin, end)
    count = tiles, Count(((rows, ROWS_A_TILE), (matrices, 1)))
    inspection = Inspection(name, (index,), of, (count,), once=rows in SETS, origin=origin)
    steps = inspection.steps()
    with steps.loop("block", 1, "block"):
        following = steps.tile("next_tile", [1], "shared", type="i32")
        steps.store(following, [0], 0)
        _find_segments(steps, index, segments)
        with steps.loop("z", tiles, "thread", unroll=ROLLED) as place:
            for buffer in tiled[1:]:
                steps.store(buffer.name, [place], 0)
        steps.barrier()
        tile = _tile(steps, segments, tiled, following)
    steps.know(facts.of_segments(first.name, population.name, rows, tile, tiles))
    kernel = inspection.kernel(
        "tiles",
        steps,
        MOST_THREADS,
        f"search {index.name} for the rows of each matrix @thread",
        f"tile them by at most {ROWS_A_TILE}, a matrix's of equal height, the highest first",
    )
    return Grouping((kernel,), None, *tiled, (count,))


def _find_segments(steps: Steps, index: Buffer, segments: tuple[Buffer, Buffer]) -> None:
    """Where each matrix's rows begin, and how many they are."""
    first, population = segments
    with steps.loop("m", population.extents[0], "thread", unroll=ROLLED) as matrix:
        smaller = steps.index("smaller", "sub", matrix, 1)
        begin = steps.index("begin", "add", steps.search("before", index.name, smaller, index.extents[0]), 1)
        end = steps.index("end", "add", steps.search("last", index.name, matrix, index.extents[0]), 1)
        steps.store(first.name, [matrix], begin)
        steps.store(population.name, [matrix], steps.index("n", "sub", end, begin))


def _tile(steps: Steps, segments: tuple[Buffer, Buffer], found: tuple[Buffer, Buffer, Buffer], following: str) -> str:
    """Height by height, each thread some of the matrices, whose tiles of that height come next. Gives the name of a
    tile's number."""
    (first, population), (of_matrix, of_begin, of_end) = segments, found
    with steps.loop("height", HEIGHTS, unroll=ROLLED) as height:
        with steps.loop("m", population.extents[0], "thread", unroll=ROLLED) as matrix:
            of_its_own = steps.load("n", population.name, matrix)
            several = divide_up(steps, "tiles", of_its_own, ROWS_A_TILE)
            rows = divide_up(steps, "rows", of_its_own, steps.index("some", "max", several, 1))
            granules = divide_up(steps, "granules", rows, GRANULE)
            with steps.where(granules, "==", steps.index("lower", "sub", HEIGHTS, height)):
                begin = steps.load("begin", first.name, matrix)
                end = steps.index("end", "add", begin, of_its_own)
                with steps.segment("u", 0, several, unroll=ROLLED) as which:
                    tile = steps.atomic(following, [0], 1, "z")
                    before = steps.index("before", "min", steps.index("before", "mul", which, rows), of_its_own)
                    lower = steps.index("from", "add", begin, before)
                    upper = steps.index("upto", "min", steps.index("past", "add", lower, rows), end)
                    for buffer, value in ((of_matrix, matrix), (of_begin, lower), (of_end, upper)):
                        steps.store(buffer.name, [tile], value)
        steps.barrier()
    return tile
