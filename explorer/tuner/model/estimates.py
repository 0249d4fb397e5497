"""What a kernel does on a GPU, as far as its decisions, the data and the model's sizes say before it is compiled: how
many threads it has at work, what each does one after another, and what it needs of registers and shared memory.

These are formulas of one multiprocessor's resources (`target`) and of how strategies share work out, without anything
that was fitted to times. They are told to the model as logarithms to base 2, and as how far they are from the usual
point's: what 256 elements for each warp mean depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.model.parts import Doubles, Part

MULTIPROCESSORS, THREADS, REGISTERS, MOST_REGISTERS = 132, 2048, 65_536, 255
"""Of the GPU whose spaces were recorded, an H100: the model is of no other."""
SHARED_BYTES = 227_000
VECTOR, WARP = 4, 32
GRANULE, TILE_ROWS = 8, 64
"""Of products by tiles: rows of threads in a block, and rows of a tile."""
OTHERS = 24
"""Registers that a thread of a product takes for anything but its sums and operands, about."""
READ_BYTES_A_US, STEP_US, START_US = 3e6, 0.6, 4.0
"""What memory delivers, what a load takes that another waits for, and what a launch takes at the least."""
NO_TILES = -3.0
"""In place of a tile's figures where a kernel has none."""


@dataclass(frozen=True)
class Work:
    """How much there is to do: `elements` of all lists, or picks of a batch, in so many `lists` (0 for none) of so many
    elements in the `mean`, and at most `longest`; rows of `columns` floats."""

    elements: float
    lists: float
    mean: float
    longest: float
    columns: float

    @classmethod
    def of(cls, data: Mapping[str, float], sizes: Mapping[str, int]) -> Work:
        """By the array with the most lists, the one with the most picks, and the longest dimension."""
        lists = {key: value for key, value in data.items() if key.endswith(".lists")}
        picks = [value for key, value in data.items() if key.endswith(".picks")]
        columns = float(max(sizes.values(), default=64))
        if not lists:
            return cls(max(1.0, *picks) if picks else 1.0, 0.0, 1.0, 1.0, columns)
        name = max(lists, key=lists.__getitem__).removesuffix(".lists")
        count, mean, longest = (data[f"{name}.{what}"] for what in ("lists", "mean", "longest"))
        return cls(max([1.0, count * mean, *picks]), count, max(mean, 1e-3), max(longest, 1.0), columns)


def estimates(part: Part, work: Work) -> Doubles:
    """What is told of a kernel in each point, [points, estimates]."""
    tiled = ~np.isnan(part.number("across", np.nan))
    own = np.where(tiled[:, None], 0.0, np.stack(_of_lists(part, work), 1))
    tiles = np.where(tiled[:, None], np.stack(_of_tiles(part, work), 1), NO_TILES)
    block = np.log2(part.number("block_rows", 1.0) * _lanes(part, work))
    return np.concatenate([own, tiles, block[:, None]], 1)


def _lanes(part: Part, work: Work) -> Doubles:
    vectors = max(1.0, work.columns / VECTOR)
    return part.number("lanes", min(float(WARP), 2 ** float(np.ceil(np.log2(vectors)))))


def _of_lists(part: Part, work: Work) -> list[Doubles]:
    """Of a kernel whose groups of lanes take elements one after another."""
    vectors, lanes, loads = work.columns / VECTOR, _lanes(part, work), part.number("loads", 4.0)
    by_list = part.is_word("strategy", "rows", "warps") & (work.lists > 0)
    piece = part.number("chunk", part.number("edges", np.nan))
    whole = np.isnan(piece)
    serial = np.where(whole, np.where(by_list, work.mean, 1.0), piece)
    longest = np.where(whole, np.where(by_list, work.longest, 1.0), np.minimum(piece, work.elements))
    groups = np.where(whole & by_list, work.lists, work.elements / serial)
    room = float(MULTIPROCESSORS * THREADS)
    filled = groups * lanes / room
    passes = np.ceil(vectors / lanes)
    together = np.minimum(loads, np.maximum(serial, 1.0))
    wasted = passes * lanes / vectors
    reading = work.elements * vectors * 4 * VECTOR / READ_BYTES_A_US * np.maximum(wasted, 1.0)
    waiting = longest * passes * STEP_US / together
    working = work.elements * passes / np.minimum(groups, room / lanes) * STEP_US / together
    figures = [np.minimum(filled, 1.0), np.maximum(filled, 1.0), passes, wasted, serial, longest, together]
    figures += [waiting, working, reading, reading + waiting + working + START_US, longest * passes, groups]
    return [np.log2(figure) for figure in figures]


def _of_tiles(part: Part, work: Work) -> list[Doubles]:
    """Of a product: a block of GRANULE by `across` threads has a tile, slab by slab, of which the next is on its way in
    registers while one is multiplied."""
    across, columns = part.number("across", 1.0), part.number("columns", 1.0)
    depth, along = part.number("depth", 16.0), part.number("along", 4.0)
    stages = part.number("stages", np.nan)
    threads, each = GRANULE * across, GRANULE * columns / across
    on_the_way = np.where(np.isnan(stages), 0.0, depth * (TILE_ROWS + columns) / threads)
    needed = each + on_the_way + OTHERS + 2 * along
    asked = part.number("resident", 0.0)
    resident = np.where(asked > 0, asked, np.minimum(16.0, THREADS / threads))
    short = np.log2(np.maximum(needed / np.minimum(MOST_REGISTERS, REGISTERS / (resident * threads)), 0.5))
    shared = depth * part.number("stages", 1.0) * (TILE_ROWS + columns) * 4
    fitting = np.minimum(np.minimum(resident, THREADS / threads), SHARED_BYTES / shared)
    blocks = np.minimum(fitting, REGISTERS / (np.minimum(needed, MOST_REGISTERS) * threads))
    rows = work.elements / part.number("edges", 1.0)
    a_multiprocessor = rows / TILE_ROWS * np.ceil(work.columns / columns) / MULTIPROCESSORS
    at_work = np.minimum(a_multiprocessor, blocks) * threads / WARP
    figures = [shared, blocks * threads / WARP, a_multiprocessor, np.maximum(a_multiprocessor / blocks, 1.0)]
    figures += [(GRANULE + columns / across) / each, on_the_way + 1, at_work]
    spilt = np.maximum(short, 0.0) * np.log2(needed)
    return [np.log2(each), np.log2(needed), short, spilt, *(np.log2(figure) for figure in figures)]


def apart(figures: NDArray[np.float64], usual: int) -> Doubles:
    """How far figures [points, figures] are from the usual point's."""
    return np.asarray(figures - figures[usual])
