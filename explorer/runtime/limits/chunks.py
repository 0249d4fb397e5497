"""What chunks of edges share: the different entities and relations that each of them asks for (cuKE §VI, Fig. 8).

cuKE's blocks take C edges each and load what they ask for once. The edges of p blocks, a group, are sorted by relation
first, so that a block has fewer relations. With C = 4, p = 2:

    r        3 1 3 2 | 1 3 1 1      different in a chunk: 3 + 2
    sorted   1 1 1 1 | 2 3 3 3                            1 + 2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[Any]


def distinct_by_chunk(columns: Mapping[str, Ids], chunk: int) -> npt.NDArray[np.int64]:
    """For each `chunk` edges that follow one another, how many different ids they have in any of the columns together;
    the last chunk may be shorter. Columns hold one id an edge, of the same set of entities or relations."""
    arrays = list(columns.values())
    places = np.arange(len(arrays[0])) // chunk
    count = 1 + max(int(array.max(initial=0)) for array in arrays)
    marks = np.unique(np.concatenate([places * count + array for array in arrays]))
    return np.bincount(marks // count, minlength=-(-len(arrays[0]) // chunk)).astype(np.int64)


def group_order(key: Ids, edges: int) -> npt.NDArray[np.int64]:
    """The order of edges in which each `edges` of them that follow one another are sorted by `key`; those that are
    alike stay as they are."""
    return np.lexsort((np.arange(len(key)), key, np.arange(len(key)) // edges))


def shared_by_chunks(ids: Mapping[str, Ids], chunk: int, group: int) -> dict[str, int]:
    """The different entities and relations that all chunks of `chunk` edges ask for, each once a chunk, and added up:
    in the order of the batch, and with groups of `group` chunks sorted by relation.

    `ids` has head, relation and tail, one an edge; a relation's matrix counts as the relation does. Raises ValueError
    for sizes below 1."""
    if chunk < 1 or group < 1:
        raise ValueError(f"chunks of {chunk} edges in groups of {group} cannot be: both are 1 at least")
    order = group_order(ids["relation"], chunk * group)
    found = {}
    for name, place in (("", slice(None)), ("_sorted", order)):
        ends = {end: ids[end][place] for end in ("head", "tail")}
        found[f"entities{name}"] = int(distinct_by_chunk(ends, chunk).sum())
        found[f"relations{name}"] = int(distinct_by_chunk({"relation": ids["relation"][place]}, chunk).sum())
    return found
