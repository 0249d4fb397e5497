"""What a graph, a batch or lists are, encoded, to all who count over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Structure:
    """The sizes of the index sets of a run, its maps as arrays over their sets, and the bytes that reading each map
    takes at the least."""

    counts: Mapping[str, int]
    maps: Mapping[str, npt.NDArray[np.int32]]
    map_bytes: Mapping[str, int]
