"""Block-sparse attention after BigBird: which blocks of keys each block of queries gathers (Ember §2.2.2)."""

from __future__ import annotations

import zlib

import numpy as np

from explorer.runtime.data.index_lists import GENERATED, SparseRows

GLOBAL, WINDOW, RANDOM = 2, 3, 3
"""How many blocks of each kind a query block attends to."""
TOKENS = 4_096
"""A sequence of BigBird's longest setting."""
CORES = 8
"""Query blocks are shared out among Ember's cores: a run is one core's share."""
ELEMENTS = 512
BLOCK_SIZES = (1, 2, 4, 8)
"""The tokens a block that Ember's Figures 7 and 18 vary."""
BLOCK_PRESETS = tuple(f"BigBird:{size}" for size in BLOCK_SIZES)


def big_bird(size: int) -> SparseRows:
    """The gather of one core for blocks of `size` tokens: the first blocks (global), a block with its neighbours
    (window, which wraps around), and random ones; no block twice."""
    count = TOKENS // size
    name = f"BigBird:{size}"
    random = np.random.default_rng(zlib.crc32(name.encode()))
    first = (count - count // CORES) // 2  # queries in the middle of the sequence
    lists = []
    for query in range(first, first + count // CORES):
        fixed = [*range(GLOBAL), *((query + step) % count for step in range(-(WINDOW // 2), WINDOW // 2 + 1))]
        others = np.setdiff1d(np.arange(count), fixed)
        lists.append([*fixed, *random.choice(others, RANDOM, replace=False).tolist()])
    each = GLOBAL + WINDOW + RANDOM
    return SparseRows(
        name=name,
        source=GENERATED,
        num_cols=count,
        ptr=np.arange(0, each * len(lists) + 1, each, dtype=np.int32),
        idx=np.array(lists, dtype=np.int32).ravel(),
        row_shape=(size, ELEMENTS),
        about=f"BigBird, a core's share: {len(lists)} of {count:,} query blocks of {size} tokens, {each} keys each",
    )
