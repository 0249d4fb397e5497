"""What inspectors know of the arrays that they fill, and a single store does not show: the table of all of it.

All else that a bound needs `Extents` finds out from what kernels store. An emulated run holds these facts against the
arrays (`tests/emulator`), and checks each access that rests on one of a kernel's own names.
"""

from __future__ import annotations

from explorer.compiler.ir.facts import Fact
from explorer.compiler.ir.node import Extent


def of_groups(
    index: str, rank: str, population: str, first: str, first_tile: str, rows: Extent, tiles: str, times: int, high: int
) -> tuple[Fact, ...]:
    """Of rows that are grouped by matrix, each element of the index counted for so many `times`, in tiles of `high`
    rows at most."""
    return (
        Fact(f"0 <= {rank}[_i]", "a rank counts from 0"),
        Fact(f"{times} * {rank}[_i] + {times} <= {population}[{index}[_i]]", "a group has all that have a rank in it"),
        Fact(f"0 <= {population}[_i]", "rows are counted from 0"),
        Fact(f"0 <= {first}[_i]", "the first group begins at 0"),
        Fact(f"{first}[_i] + {population}[_i] <= {rows}", "groups follow one another"),
        Fact(f"0 <= {first_tile}[_i]", "the first group's tiles begin at 0"),
        Fact(
            f"{population}[_i] + {high} * {first_tile}[_i] <= {high} * {tiles}",
            f"groups' tiles follow one another, of {high} rows at most, and there is one more for each group",
        ),
    )


def of_segments(first: str, population: str, rows: Extent, tile: str, tiles: str) -> tuple[Fact, ...]:
    """Of rows that are in the order of their matrices, and the number of a tile that is next."""
    return (
        Fact(f"0 <= {first}[_i]", "the first matrix's rows begin at 0"),
        Fact(f"0 <= {population}[_i]", "matrices ascend with the rows"),
        Fact(f"{first}[_i] + {population}[_i] <= {rows}", "matrices' rows follow one another"),
        Fact(f"0 <= {tile}", "tiles are counted from 0"),
        Fact(f"{tile} < {tiles}", "there is a tile for each so many rows, and one more for each matrix"),
    )


def of_starts(starts: str, elements: Extent) -> tuple[Fact, ...]:
    """Of where segments begin, each behind as many elements as are of segments before it."""
    return (
        Fact(f"0 <= {starts}[_i]", "elements are counted from 0"),
        Fact(f"{starts}[_i] <= {elements}", "no more elements come before a segment than there are"),
        Fact(f"{starts}[0] <= 0", "no element is of a segment before the first"),
    )


def of_place(place: str, rows: Extent) -> tuple[Fact, ...]:
    """Of the place of a row in an order."""
    return (
        Fact(f"0 <= {place}", "places are counted from 0"),
        Fact(f"{place} < {rows}", "lengths begin behind the rows of longer ones, and each row is counted once"),
    )


def of_listed(place: str, count: str, rows: Extent) -> tuple[Fact, ...]:
    """Of the place of a row in a list that has some of them, and how many these are."""
    return (
        Fact(f"0 <= {place}", "places are counted from 0"),
        Fact(f"{place} < {rows}", "each row is listed once, if at all"),
        Fact(f"{count}[_i] <= {rows}", "each row is listed once, if at all"),
    )


def of_lack(lack: Extent, longest: int) -> tuple[Fact, ...]:
    """Of how many places a row's length is before the longest, of so many."""
    return (
        Fact(f"{lack} < {longest}", "a row ends where it begins or behind that, as is checked of offsets"),
        Fact(f"0 <= {lack}", "a row has no more elements than there are, and these are an extent"),
    )


def of_marked(row: str, rows: Extent) -> tuple[Fact, ...]:
    """Of a row that a mark names."""
    return (
        Fact(f"0 <= {row}", "a mark is a row, or a row mirrored below 0"),
        Fact(f"{row} < {rows}", "a mark is a row, or a row mirrored below 0"),
    )


def of_rank(place: str, size: int) -> tuple[Fact, ...]:
    """Of a place that comes of counting the keys before one, of so many, each with a place of its own."""
    return (
        Fact(f"0 <= {place}", "keys are counted from 0"),
        Fact(f"{place} < {size}", "there are fewer other keys than places"),
    )


def of_chunk_places(tile: str, most: int) -> tuple[Fact, ...]:
    """Of a tile of the places that a chunk's edges have among themselves, by array and edge."""
    return (
        Fact(f"0 <= {tile}[_a, _i]", "places are counted from 0"),
        Fact(f"{tile}[_a, _i] < {most}", "a chunk has no more places than edges"),
    )


def of_unique(tile: str, most: int) -> tuple[Fact, ...]:
    """Of how many different indices a chunk has, by array."""
    return (Fact(f"{tile}[_a, _i] <= {most}", "edges choose one index each"),)


def of_run(begin: Extent, end: Extent, size: int) -> tuple[Fact, ...]:
    """Of a run of sorted keys, of so many."""
    return (
        Fact(f"0 <= {begin}", "runs begin behind one another, the first at 0"),
        Fact(f"{end} <= {size}", "runs are joined two by two, so that those of all widths have a neighbour"),
    )


def of_sorted(edge: str, rows: Extent) -> tuple[Fact, ...]:
    """Of an edge at a place of a sorted group that the block has."""
    return (
        Fact(f"0 <= {edge}", "edges are counted from 0"),
        Fact(f"{edge} < {rows}", "edges behind the last are sorted behind all others"),
    )


def of_chunk(number: int, chosen: str, unique: str, places: str, most: int) -> tuple[Fact, ...]:
    """Of the tiles of an inspected array: its unique elements, and for each edge the place of its own among them, or
    `most` and the element."""
    return (
        Fact(f"{chosen}[__j] <= {unique}[{number}, _i]", "it is one of the array's elements"),
        Fact(f"{unique}[{number}, _i] <= {chosen}[__j]", "it is one of the array's elements"),
        Fact(f"0 <= {places}[{number}, _i]", "places are counted from 0"),
        Fact(f"{places}[{number}, _i] <= {most} + {chosen}[__j]", "behind the places are the array's elements"),
    )


def of_piece_bins(bin: str, groups: str, size: int) -> tuple[Fact, ...]:
    """Of the bins that pieces are in, of which a group has as many as a piece has lengths."""
    return (
        Fact(f"0 <= {bin}[_i]", "bins are counted from 0"),
        Fact(f"{bin}[_i] < {size} * {groups}", "each group has as many bins as a piece has lengths"),
    )


def of_piece_groups(matrix: str, end: str, choices: Extent, edges: Extent) -> tuple[Fact, ...]:
    """Of tiles of pieces, all 0 where they have no rows."""
    return (
        Fact(f"0 <= {matrix}[_i]", "a group's number has that of its matrix as a remainder"),
        Fact(f"{matrix}[_i] < {choices}", "where there are tiles, something has chosen a matrix"),
        Fact(f"{end}[_i] <= {edges}", "groups follow one another, and pieces have an edge at least"),
    )


def of_placed_pieces(begin: str, stop: str, edges: Extent) -> tuple[Fact, ...]:
    """Of the edges of pieces."""
    return (
        Fact(f"0 <= {begin}[_i]", "edges are counted from 0"),
        Fact(f"{begin}[_i] < {stop}[_i]", "pieces have an edge at least"),
        Fact(f"{stop}[_i] <= {edges}", "a piece's edges are of one pair"),
    )


def of_piece_places(place: str, edges: Extent) -> tuple[Fact, ...]:
    """Of the place of a piece, which has an edge at least."""
    return (
        Fact(f"0 <= {place}", "bins begin behind one another, the first at 0"),
        Fact(f"{place} < {edges}", "there are as many pieces as edges, at most"),
    )


def of_piece_tiles(tile: str, first: str, total: str, edges: Extent, tiles: str) -> tuple[Fact, ...]:
    """Of the tile of a place of a group's that begins with its `first` and has a `total` of pieces."""
    return (
        Fact(f"0 <= {tile}", "heavy tiles are counted from 0, and light ones from behind them"),
        Fact(f"{tile} < {tiles}", "a group has a tile for each so many pieces, and one more"),
        Fact(f"{first} + {total} <= {edges}", "groups follow one another, and pieces have an edge at least"),
    )
