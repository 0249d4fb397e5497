"""Block-sparse attention after BigBird: which blocks of keys each block of queries gathers (Ember §2.2.2)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from explorer.runtime.data.index_lists import GENERATED, SparseRows
from explorer.runtime.data.triples import Ids

GLOBAL, WINDOW, RANDOM = 2, 3, 3
"""How many blocks of each kind a query block attends to."""
EACH = GLOBAL + WINDOW + RANDOM
TOKENS = 4_096
"""A sequence of BigBird's longest setting."""
CORES = 8
"""Query blocks are shared out among Ember's cores: a run is one core's share."""
ELEMENTS = 512
BLOCK_SIZES = (1, 2, 4, 8)
"""The tokens a block that Ember's Figures 7 and 18 vary."""
BLOCK_PRESETS = tuple(f"BigBird:{size}" for size in BLOCK_SIZES)


def attended(count: int, queries: Iterable[int], random: np.random.Generator) -> Ids:
    """Of each of these query blocks the key blocks, of `count`, that it attends to: a row each, [queries, EACH]. No
    block comes twice: where the window is on the first blocks, more of the others are random."""
    lists = []
    for query in queries:
        window = ((query + step) % count for step in range(-(WINDOW // 2), WINDOW // 2 + 1))
        fixed = list(dict.fromkeys([*range(GLOBAL), *window]))
        others = np.setdiff1d(np.arange(count), fixed)
        lists.append([*fixed, *random.choice(others, EACH - len(fixed), replace=False).tolist()])
    return np.array(lists, dtype=np.int32)


def big_bird(size: int) -> SparseRows:
    """The gather of one core for blocks of `size` tokens: the first blocks (global), a block with its neighbours
    (window, which wraps around), and random ones; no block twice."""
    count = TOKENS // size
    name = f"BigBird:{size}"
    random = np.random.default_rng(zlib.crc32(name.encode()))
    first = (count - count // CORES) // 2  # queries in the middle of the sequence
    lists = attended(count, range(first, first + count // CORES), random)
    return SparseRows(
        name=name,
        source=GENERATED,
        num_cols=count,
        ptr=np.arange(0, EACH * len(lists) + 1, EACH, dtype=np.int32),
        idx=lists.ravel(),
        row_shape=(size, ELEMENTS),
        about=f"BigBird, a core's share: {len(lists)} of {count:,} query blocks of {size} tokens, {EACH} keys each",
    )
