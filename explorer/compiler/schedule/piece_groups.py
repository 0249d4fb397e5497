"""What the inspectors of pieces share: pieces are grouped by block of destinations, by matrix, and by length, the
longest first, and each group is cut into tiles.

What a thread sums side by side is then of one length or nearly so, and a tile's rows are told by arrays next to each
other. With several blocks of destinations, whose rows a cache holds, all that is added to one of them is added before
the next. Of the last block the tiles whose rows are single edges come behind all others: what takes the least time is
done last, so that no multiprocessor waits long for the others to end.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.compiler.counts import SETS
from explorer.compiler.ir.kernels import Count, ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Extent, Names, Origin
from explorer.compiler.schedule.grouping import ROWS_A_TILE, THREADS, Grouping, divide_up, tiles_and_rows
from explorer.compiler.schedule.steps import Steps

PIECE = 16
"""Edges of a piece, at most: long sums are cut, so that no thread has to take thousands."""


@dataclass(frozen=True)
class PairArrays:
    """The index arrays of a layer's pairs: `offsets` are where the `edges` of each pair begin, `starts` where the pairs
    of each of the `nodes` do, `matrices` those that pairs have chosen, each one of `choices`."""

    edges: Extent
    nodes: Extent
    offsets: Buffer
    starts: Buffer
    matrices: Buffer
    choices: Extent


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
class Inspector:
    """What an inspector's kernels share. A group is all pieces of a block of destinations and one of the `choices`; a
    bin is those of one length, the longest first. `of` are arrays by what they hold: of bins and groups (how many rows
    there are, where the first is, and the numbers of its heavy and its light tiles, less their places among the
    group's), of tiles, and those that the inspector itself adds. `groups` and the like name counts."""

    name: str
    pairs: PairArrays
    blocks: str
    choices: str
    groups: str
    tiles: str
    counts: tuple[tuple[str, Count], ...]
    of: dict[str, Buffer]
    others: tuple[Buffer, ...]
    origin: Origin

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
        extents: dict[str, tuple[Extent, ...]] = {
            **{hint: (extent,) for hint, extent in arrays.items()},
            **dict.fromkeys(("bin_rows", "bin_first"), (groups, PIECE)),
            "group_rows": (groups,),
            "group_tile": (groups, 2),
            **dict.fromkeys(("tile_matrix", "tile_begin", "tile_end"), (tiles,)),
        }
        of_choices, of_blocks, of_tiles = counts
        named = (
            (choices, of_choices),
            (blocks, of_blocks),
            (groups, Count(((choices, 1),), blocks)),
            (tiles, Count((*of_tiles.terms, (groups, 1)))),
        )
        of = {hint: Buffer(name=names.new(hint), kind="index", extents=e, origin=origin) for hint, e in extents.items()}
        return cls(name, pairs, blocks, choices, groups, tiles, named, of, others, origin)

    def placed(self, count: ScheduledKernel, place: ScheduledKernel) -> PlacedPieces:
        """The inspector whole, with the kernels that count its pieces and that put them in their places."""
        of = self.of
        kernels = (_clear_groups(self), _clear_tiles(self), count, _divide(self), place)
        grouping = Grouping(kernels, None, of["tile_matrix"], of["tile_begin"], of["tile_end"], self.counts)
        return PlacedPieces(grouping, of["piece_begin"], of["piece_stop"], of["piece_node"])

    def steps(self) -> Steps:
        """The statements of a kernel, none yet."""
        buffers = self._buffers()
        taken = {name for name, _ in self.counts} | {self.pairs.edges, self.pairs.nodes, self.pairs.choices}
        taken |= {name for buffer in buffers for name in (buffer.name, *buffer.extents)}
        return Steps(Names({name for name in taken if isinstance(name, str)}), self.origin)

    def kernel(self, name: str, said: str, steps: Steps) -> ScheduledKernel:
        """A kernel of what has been written. It runs once if the edges are those of a graph."""
        touched = steps.arrays()
        return ScheduledKernel(
            name=f"{self.name}_{name}",
            template="inspector",
            sizes=(),
            buffers=tuple(buffer for buffer in self._buffers() if buffer.name in touched),
            threads=THREADS,
            schedule=(said,),
            body=steps.body,
            counts=self.counts,
            once=self.pairs.edges in SETS,
            origin=self.origin,
        )

    def _buffers(self) -> tuple[Buffer, ...]:
        return (self.pairs.offsets, self.pairs.starts, self.pairs.matrices, *self.others, *self.of.values())

    def count(self, steps: Steps, group: Extent, shorter: Extent) -> tuple[str, Extent]:
        """Counts a piece that is so much shorter than the longest: the atomic gives its rank in its bin. Gives that
        and the bin."""
        chosen = steps.index("bin", "add", steps.index("before", "mul", group, PIECE), shorter)
        rank = steps.atomic(self.of["bin_rows"].name, [group, shorter], 1, "rank")
        steps.atomic(self.of["group_rows"].name, [group], 1)
        return rank, chosen

    def place(self, steps: Steps, chosen: Extent, rank: Extent) -> Extent:
        """The place of a piece of a bin; the first of a tile says what the tile is."""
        group = steps.index("g", "div", chosen, PIECE)
        shorter = steps.index("shorter", "mod", chosen, PIECE)
        place = steps.index("place", "add", steps.load("first", self.of["bin_first"].name, group, shorter), rank)
        _tile(steps, self, group, place)
        return place


def mirrored(steps: Steps, node: Extent) -> Extent:
    """A node's number below 0."""
    return steps.index("mirrored", "sub", -1, node)


def _clear_groups(inspector: Inspector) -> ScheduledKernel:
    steps, of = inspector.steps(), inspector.of
    with steps.each("g", inspector.groups, THREADS) as group:
        steps.store(of["group_rows"].name, [group], 0)
        with steps.loop("shorter", PIECE) as shorter:
            steps.store(of["bin_rows"].name, [group, shorter], 0)
    return inspector.kernel("clear", "no group has a piece yet", steps)


def _clear_tiles(inspector: Inspector) -> ScheduledKernel:
    steps, of = inspector.steps(), inspector.of
    with steps.each("z", inspector.tiles, THREADS) as tile:
        for hint in ("tile_matrix", "tile_begin", "tile_end"):
            steps.store(of[hint].name, [tile], 0)
    return inspector.kernel("tiles", "no tile has a row yet", steps)


def _divide(inspector: Inspector) -> ScheduledKernel:
    """Where each group's pieces and tiles begin: behind those of all groups before it."""
    steps, of = inspector.steps(), inspector.of
    with steps.each("g", inspector.groups, THREADS) as group:
        rows, heavy, light = (steps.tile(hint, [1], "register", type="i32") for hint in ("place", "heavy", "light"))
        for following in (rows, heavy, light):
            steps.store(following, [0], 0)
        with steps.segment("other", 0, group, 1) as other:
            counted = steps.load("n", of["group_rows"].name, other)
            with steps.where(0, "<", counted):
                tiles, _, heavier = _tiles(steps, inspector, other, counted)
                _add(steps, rows, counted)
                _add(steps, heavy, heavier)
                _add(steps, light, steps.index("l", "sub", tiles, heavier))
        steps.store(of["group_tile"].name, [group, 0], steps.load("tile", heavy, 0))
        last = steps.index("last", "sub", inspector.tiles, steps.load("tile", light, 0))
        own = divide_up(steps, "tiles", steps.load("n", of["group_rows"].name, group), ROWS_A_TILE)
        steps.store(of["group_tile"].name, [group, 1], steps.index("tile", "sub", last, own))
        with steps.loop("shorter", PIECE) as shorter:
            steps.store(of["bin_first"].name, [group, shorter], steps.load("first", rows, 0))
            _add(steps, rows, steps.load("n", of["bin_rows"].name, group, shorter))
    said = f"find room for tiles of at most {ROWS_A_TILE} rows, a group's of equal height, those of single edges last"
    return inspector.kernel("divide", said, steps)


def _tiles(steps: Steps, inspector: Inspector, group: Extent, total: Extent) -> tuple[Extent, Extent, Extent]:
    """How many tiles a group with so many rows has, how many rows each of them, and how many of the tiles are heavy: in
    the last block of destinations those that do not have single edges alone, in others all."""
    tiles, rows = tiles_and_rows(steps, total)
    block = steps.index("block", "div", group, inspector.choices)
    past = steps.index("past", "sub", steps.index("b", "add", block, 2), inspector.blocks)
    in_last = steps.index("in_last", "max", past, 0)
    singles = steps.load("n", inspector.of["bin_rows"].name, group, PIECE - 1)
    longer = steps.index("longer", "sub", total, steps.index("light", "mul", in_last, singles))
    return tiles, rows, divide_up(steps, "heavy", longer, rows)


def _add(steps: Steps, total: str, more: Extent) -> None:
    steps.store(total, [0], steps.index("sum", "add", steps.load("before", total, 0), more))


def _tile(steps: Steps, inspector: Inspector, group: Extent, place: Extent) -> None:
    """What a piece of a group, at a place, says of the tile that it is the first of, if it is."""
    of = inspector.of
    total = steps.load("total", of["group_rows"].name, group)
    start = steps.load("start", of["bin_first"].name, group, 0)
    _, rows, heavy = _tiles(steps, inspector, group, total)
    own = steps.index("own", "sub", place, start)
    which = steps.index("u", "div", own, rows)
    with steps.where(steps.index("before", "mul", which, rows), "==", own):
        end = steps.index("end", "add", start, total)
        until = steps.index("until", "min", steps.index("past", "add", place, rows), end)
        matrix = steps.index("m", "mod", group, inspector.choices)
        beyond = steps.index("beyond", "sub", steps.index("v", "add", which, 1), heavy)
        is_light = steps.index("is_light", "min", steps.index("behind", "max", beyond, 0), 1)
        tile = steps.index("z", "add", steps.load("tile", of["group_tile"].name, group, is_light), which)
        for hint, value in (("tile_matrix", matrix), ("tile_begin", place), ("tile_end", until)):
            steps.store(of[hint].name, [tile], value)
