"""Lookups of a knowledge graph's embeddings as bags of three: head, relation and tail of one table (Ember §2.2.3)."""

from __future__ import annotations

import zlib

import numpy as np

from explorer.runtime.inputs import InputError
from explorer.runtime.matrices import MATRIX_PRESETS, SMALLEST
from explorer.runtime.sparse import GENERATED, SparseRows

RELATIONS = {"biokg": 51, "wikikg2": 535}
"""The relations of the knowledge graphs of Ember's Table 2, as OGB publishes them."""
SAMPLES = 1_024
"""Triples that one core looks up for a batch."""
PREFIX = "KG:"
KNOWLEDGE_PRESETS = tuple(f"{PREFIX}{name}" for name in RELATIONS)


def triple_lookups(name: str, scale: int = 1) -> SparseRows:
    """Triples of a graph with 1/scale of the entities; relations lie behind them in the table.

    Bag i is (head, relation, tail) with weights 1, 1 and -1, so that its weighted sum is TransE's difference. Heads and
    tails are drawn with the skews of the graph's matrix, relations evenly. Raises InputError.
    """
    preset = MATRIX_PRESETS[name]
    entities = preset.vertices // max(1, scale)
    if scale < 1 or entities < SMALLEST:
        raise InputError(f"{PREFIX}{name}/{scale}: {name} can be divided by 1 to {preset.vertices // SMALLEST:,}")
    shown = f"{PREFIX}{name}" if scale == 1 else f"{PREFIX}{name}/{scale}"
    random = np.random.default_rng(zlib.crc32(shown.encode()))
    names = random.permutation(entities)
    heads, tails = (
        names[(entities * random.random(SAMPLES) ** (1 / (1 - skew))).astype(np.int64)]
        for skew in (preset.row_skew, preset.col_skew)
    )
    relations = entities + random.integers(0, RELATIONS[name], size=SAMPLES)
    return SparseRows(
        name=shown,
        source=GENERATED,
        num_cols=entities + RELATIONS[name],
        ptr=np.arange(0, 3 * SAMPLES + 1, 3, dtype=np.int32),
        idx=np.stack([heads, relations, tails], axis=1).astype(np.int32).ravel(),
        value=np.tile(np.array([1, 1, -1], dtype=np.float32), SAMPLES),
        row_shape=(preset.elements,),
        about=f"{SAMPLES:,} triples of Ember Table 2's {name}: {entities:,} entities, then {RELATIONS[name]} relations",
    )
