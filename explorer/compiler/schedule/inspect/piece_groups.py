"""What the inspectors of pieces share: pieces are grouped by block of destinations, by matrix, and by length, the
longest first, and each group is cut into tiles.

What a thread sums side by side is then of one length or nearly so, and a tile's rows are told by arrays next to each
other. With several blocks of destinations, whose rows a cache holds, all that is added to one of them is added before
the next. Of the last block the tiles whose rows are single edges come behind all others: what takes the least time is
done last, so that no multiprocessor waits long for the others to end. How many tiles there are is known only when
pieces have been counted; the inspector tells that too, so that nobody need launch blocks for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explorer.compiler.counts import SETS
from explorer.compiler.decisions import Decision
from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.edit.builder import Steps
from explorer.compiler.schedule.inspect import facts
from explorer.compiler.schedule.inspect.group_by_matrix import ROWS_A_TILE, THREADS, Grouping, divide_up, tiles_and_rows
from explorer.compiler.schedule.inspect.inspection import Inspection, index_arrays

PIECE = Decision(
    name="edges",
    domain=(4, 8, 16, 32),
    why="edges of a piece, at most, whose sum is a row of a product: more leave fewer rows to multiply and to add, and"
    " threads with more to take one after another",
    source="16, measured on an H100",
)
USUAL_PIECE = 16
SHARES = 64
"""Threads that share the groups where these are added up, each of which then looks at what all have found."""


@dataclass(frozen=True)
class PairArrays:
    """The index arrays of a layer's pairs: `offsets` are where the `edges` of each pair begin, `starts` where the pairs
    of each of the `nodes` do, `matrices` those that pairs have chosen, each one of `choices`. Long sums are cut into
    pieces of at most `piece` edges, so that no thread has to take thousands."""

    edges: Extent
    nodes: Extent
    offsets: Buffer
    starts: Buffer
    matrices: Buffer
    choices: Extent
    piece: int


@dataclass(frozen=True)
class PlacedPieces:
    """What is known of each piece at its place: its edges are `begin` to `stop`, and its sum belongs to `node`. An
    inspector may say more by a node that is `mirrored`."""

    grouping: Grouping
    begin: Buffer
    stop: Buffer
    node: Buffer

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """What the inspector fills besides the arrays of tiles."""
        return (self.begin, self.stop, self.node)


@dataclass(frozen=True)
class Inspector(Inspection):
    """A group is all pieces of a block of destinations and one of the `choices`; a bin is those of one length, the
    longest first. It finds of bins and groups how many rows there are, where the first is, and the numbers of its heavy
    and its light tiles, less their places among the group's; of tiles, how many of these are used; and what else an
    inspector adds. `groups` and the like name counts."""

    pairs: PairArrays
    blocks: str
    choices: str
    groups: str
    tiles: str

    @classmethod
    def of_pieces(
        cls,
        name: str,
        pairs: PairArrays,
        counts: tuple[Count, Count, Count],
        arrays: dict[str, Extent],
        names: Names,
        origin: Origin,
        others: tuple[Buffer, ...] = (),
    ) -> Inspector:
        """One whose `counts` are choices, blocks of destinations, and tiles besides one for each group, and which has
        `arrays` of its own, by their extents. It reads the `others` too. `names` are those of the module."""
        choices, blocks, groups, tiles = (names.new(hint) for hint in ("choices", "blocks", "groups", "tiles"))
        extents: dict[str, Extent | tuple[Extent, ...]] = {
            **arrays,
            **dict.fromkeys(("bin_rows", "bin_first"), (groups, pairs.piece)),
            "group_rows": groups,
            "group_tile": (groups, 2),
            **dict.fromkeys(("tile_matrix", "tile_begin", "tile_end"), tiles),
            "tiles_used": 1,
        }
        of_choices, of_blocks, of_tiles = counts
        named = (
            (choices, of_choices),
            (blocks, of_blocks),
            (groups, Count(((choices, 1),), blocks)),
            (tiles, Count((*of_tiles.terms, (groups, 1)))),
        )
        given, of = (pairs.offsets, pairs.starts, pairs.matrices, *others), index_arrays(extents, names, origin)
        return cls(name, given, of, named, pairs.edges in SETS, origin, pairs, blocks, choices, groups, tiles)

    def placed(self, count: ScheduledKernel, place: ScheduledKernel) -> PlacedPieces:
        """The inspector whole, with the kernels that count its pieces and that put them in their places."""
        of = self.of
        kernels = (_clear_groups(self), _clear_tiles(self), count, _divide(self), place)
        tiles = (of["tile_matrix"], of["tile_begin"], of["tile_end"])
        grouping = Grouping(kernels, None, *tiles, self.counts, self["tiles_used"])
        return PlacedPieces(grouping, of["piece_begin"], of["piece_stop"], of["piece_node"])

    def begun(self) -> Steps:
        """The statements of one of its kernels, none yet."""
        return self.steps(self.pairs.edges, self.pairs.nodes, self.pairs.choices)

    @property
    def most_pieces(self) -> Extent:
        """How many pieces there are at most: one for each edge, or each node."""
        return self.of["piece_begin"].extents[0]

    def count(self, steps: Steps, group: Extent, shorter: Extent, bins: Buffer) -> tuple[str, Extent]:
        """Counts a piece that is so much shorter than the longest: the atomic gives its rank in its bin. Gives that
        and the bin, which the caller keeps in the array of `bins`."""
        chosen = steps.index("bin", "add", steps.index("before", "mul", group, self.pairs.piece), shorter)
        rank = steps.atomic(self["bin_rows"], [group, shorter], 1, "rank")
        steps.know(facts.of_piece_bins(bins.name, self.groups, self.pairs.piece))
        steps.atomic(self["group_rows"], [group], 1)
        return rank, chosen

    def place(self, steps: Steps, chosen: Extent, rank: Extent) -> Extent:
        """The place of a piece of a bin; the first of a tile says what the tile is."""
        group = steps.index("g", "div", chosen, self.pairs.piece)
        shorter = steps.index("shorter", "mod", chosen, self.pairs.piece)
        place = steps.index("place", "add", steps.load("first", self["bin_first"], group, shorter), rank)
        steps.know(facts.of_piece_places(str(place), self.most_pieces))
        begin, stop = self["piece_begin"], self["piece_stop"]
        steps.know(facts.of_placed_pieces(begin, stop, self.pairs.edges))
        _tile(steps, self, group, place)
        return place


def mirrored(steps: Steps, node: Extent) -> Extent:
    """A node's number below 0."""
    return steps.index("mirrored", "sub", -1, node)


def _clear_groups(inspector: Inspector) -> ScheduledKernel:
    steps = inspector.begun()
    with steps.each("g", inspector.groups, THREADS) as group:
        steps.store(inspector["group_rows"], [group], 0)
        with steps.loop("shorter", inspector.pairs.piece) as shorter:
            steps.store(inspector["bin_rows"], [group, shorter], 0)
    return inspector.kernel("clear", steps, THREADS, "no group has a piece yet")


def _clear_tiles(inspector: Inspector) -> ScheduledKernel:
    steps = inspector.begun()
    with steps.each("z", inspector.tiles, THREADS) as tile:
        for hint in ("tile_matrix", "tile_begin", "tile_end"):
            steps.store(inspector[hint], [tile], 0)
    tiles = inspector["tile_matrix"], inspector["tile_end"]
    steps.know(facts.of_piece_groups(*tiles, inspector.choices, inspector.most_pieces))
    return inspector.kernel("tiles", steps, THREADS, "no tile has a row yet")


def _divide(inspector: Inspector) -> ScheduledKernel:
    """Where each group's pieces and tiles begin: behind those of all groups before it; and how many tiles are used.
    Threads of one block share the groups: each adds up its own, and then begins behind those of all before it."""
    steps = inspector.begun()
    with steps.loop("block", 1, "block"):
        rows, heavy, light = (
            steps.tile(hint, [SHARES], "shared", type="i32") for hint in ("rows_of", "heavy_of", "light_of")
        )
        share = divide_up(steps, "share", inspector.groups, SHARES)
        with steps.loop("own", SHARES, "thread") as own:
            for total in (rows, heavy, light):
                steps.store(total, [own], 0)
            with _each_group(steps, inspector, own, share) as (_, more_rows, more_heavy, more_light):
                steps.increase(rows, own, more_rows)
                steps.increase(heavy, own, more_heavy)
                steps.increase(light, own, more_light)
        steps.barrier()
        with steps.loop("own", SHARES, "thread") as own:
            _begin(steps, inspector, own, share, rows, heavy, light)
    said = f"find room for tiles of at most {ROWS_A_TILE} rows, a group's of equal height, those of single edges last"
    return inspector.kernel("divide", steps, THREADS, said)


def _begin(
    steps: Steps, inspector: Inspector, own: Extent, share: Extent, rows_of: str, heavy_of: str, light_of: str
) -> None:
    """Where the groups of a share begin, of what all shares have: heavy tiles come first, and behind all of them the
    others."""
    rows, heavy, all_heavy, light = (
        steps.tile(hint, [1], "register", type="i32") for hint in ("place", "heavy", "all_heavy", "light")
    )
    for total in (rows, heavy, all_heavy, light):
        steps.store(total, [0], 0)
    with steps.loop("other", SHARES) as other:
        steps.increase(all_heavy, 0, steps.load("n", heavy_of, other))
        with steps.where(other, "<", own):
            for total, share_of in ((rows, rows_of), (heavy, heavy_of), (light, light_of)):
                steps.increase(total, 0, steps.load("n", share_of, other))
    with _each_group(steps, inspector, own, share) as (group, _, more_heavy, more_light):
        steps.store(inspector["group_tile"], [group, 0], steps.load("tile", heavy, 0))
        place = steps.index("tile", "sub", _behind(steps, all_heavy, light), more_heavy)
        steps.store(inspector["group_tile"], [group, 1], place)
        steps.increase(heavy, 0, more_heavy)
        steps.increase(light, 0, more_light)
        with steps.loop("shorter", inspector.pairs.piece) as shorter:
            steps.store(inspector["bin_first"], [group, shorter], steps.load("first", rows, 0))
            steps.increase(rows, 0, steps.load("n", inspector["bin_rows"], group, shorter))
    with steps.where(own, "==", SHARES - 1):
        steps.store(inspector["tiles_used"], [0], _behind(steps, all_heavy, light))


def _behind(steps: Steps, all_heavy: str, light: str) -> Extent:
    """The tile behind all heavy ones and so many light ones."""
    return steps.index("behind", "add", steps.load("n", all_heavy, 0), steps.load("tile", light, 0))


@contextmanager
def _each_group(steps: Steps, inspector: Inspector, own: Extent, share: Extent) -> Iterator[tuple[Extent, ...]]:
    """Of each group of a share that has pieces: its number, how many pieces, and heavy and other tiles."""
    first = steps.index("first", "mul", own, share)
    stop = steps.index("stop", "min", steps.index("past", "add", first, share), inspector.groups)
    with steps.segment("g", first, stop, 1) as group:
        counted = steps.load("n", inspector["group_rows"], group)
        with steps.where(0, "<", counted):
            tiles, _, heavy = _tiles(steps, inspector, group, counted)
            yield group, counted, heavy, steps.index("lighter", "sub", tiles, heavy)


def _tiles(steps: Steps, inspector: Inspector, group: Extent, total: Extent) -> tuple[Extent, Extent, Extent]:
    """How many tiles a group with so many rows has, how many rows each of them, and how many of the tiles are heavy: in
    the last block of destinations those that do not have single edges alone, in others all."""
    tiles, rows = tiles_and_rows(steps, total)
    block = steps.index("block", "div", group, inspector.choices)
    in_last = steps.index("in_last", "equal", steps.index("b", "add", block, 1), inspector.blocks)
    singles = steps.load("n", inspector["bin_rows"], group, inspector.pairs.piece - 1)
    longer = steps.index("longer", "sub", total, steps.select("light", in_last, singles, 0))
    return tiles, rows, divide_up(steps, "heavy", longer, rows)


def _tile(steps: Steps, inspector: Inspector, group: Extent, place: Extent) -> None:
    """What a piece of a group, at a place, says of the tile that it is the first of, if it is."""
    total = steps.load("total", inspector["group_rows"], group)
    start = steps.load("start", inspector["bin_first"], group, 0)
    _, rows, heavy = _tiles(steps, inspector, group, total)
    own = steps.index("own", "sub", place, start)
    which = steps.index("u", "div", own, rows)
    with steps.where(steps.index("before", "mul", which, rows), "==", own):
        end = steps.index("end", "add", start, total)
        until = steps.index("until", "min", steps.index("past", "add", place, rows), end)
        matrix = steps.index("m", "mod", group, inspector.choices)
        is_light = steps.index("is_light", "at_most", heavy, which)
        tile = steps.index("z", "add", steps.load("tile", inspector["group_tile"], group, is_light), which)
        steps.know(facts.of_piece_tiles(str(tile), str(start), str(total), inspector.most_pieces, inspector.tiles))
        for hint, value in (("tile_matrix", matrix), ("tile_begin", place), ("tile_end", until)):
            steps.store(inspector[hint], [tile], value)
