"""The recommendation models of Ember's Table 3 as bags of lookups, with the localities of its Figures 7, 16 and 17."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from explorer.runtime.data.index_lists import GENERATED, SparseRows
from explorer.runtime.data.locality import stack_mix, uniform
from explorer.runtime.data.triples import Ids


@dataclass(frozen=True)
class Recommendation:
    """A column of Table 3: what one core does for one batch."""

    segments: int  # of a table
    lookups: int  # of a segment
    elements: int  # of an embedding vector
    tables: int = 2
    entries: int = 16_384  # of a table


RECOMMENDATIONS: dict[str, Recommendation] = {
    "RM1": Recommendation(64, 64, 32),
    "RM2": Recommendation(32, 128, 64),
    "RM3": Recommendation(16, 256, 128),
}
LOCALITIES: dict[str, float | None] = {"L0": None, "L1": 0.63, "L2": 0.99}
"""The share of accesses with a reuse distance below 1,000 vectors: of L1 and L2 what Ember §2.2.1 says of Criteo's
features 0 and 2; L0 is uniform. How the distances below 1,000 are spread the paper does not say: log-uniformly here."""

BAG_PRESETS = tuple(f"{model}:{locality}" for model in RECOMMENDATIONS for locality in LOCALITIES)


def recommendation(model: str, locality: str, core: int = 0) -> SparseRows:
    """The lookups of one core, the same on every call.

    The tables of a core lie one behind the other in one table, and so do their segments: each table has the accesses
    of the locality for itself. Another `core` has accesses of its own, to tables of its own.
    """
    preset, share = RECOMMENDATIONS[model], LOCALITIES[locality]
    random = np.random.default_rng([zlib.crc32(f"{model}:{locality}".encode()), core])
    count = preset.segments * preset.lookups
    tables: list[Ids] = []
    for table in range(preset.tables):
        ids = (
            uniform(random, count, preset.entries) if share is None else stack_mix(random, count, preset.entries, share)
        )
        tables.append(ids + np.int32(table * preset.entries))
    return SparseRows(
        name=f"{model}:{locality}",
        source=GENERATED,
        num_cols=preset.tables * preset.entries,
        ptr=np.arange(0, preset.tables * count + 1, preset.lookups, dtype=np.int32),
        idx=np.concatenate(tables),
        row_shape=(preset.elements,),
        about=f"Ember Table 3, a core's share: {preset.tables} tables of {preset.entries:,} rows, one behind the other",
    )
