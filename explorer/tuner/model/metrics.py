"""G-Sparse's features of a point, for an ablation: six metrics of its kernels with three shapes of its data, and six
raw numbers that such metrics are made of.

The paper's Algorithm 4 is not printed in full; the metrics are those of its released code (`gpu_cost.h`), as far as our
launches' features (`features.launches`) say them. Of several launches the sums are taken, of shares and blocks the
largest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.tuner.features.launches import NAMES, total
from explorer.tuner.model.inputs import OF_LISTS, of_data
from explorer.tuner.recorded import Recorded

Floats = NDArray[np.float32]
METRICS = ("global-load efficiency", "parallelism", "latency parallelism", "data reuse", "spills", "block size")
SHAPES = ("rows", "entries", "width")
RAW = ("blocks", "threads", "registers", "shared_bytes", "global_loads", "multiply_adds")
WIDEST_LOAD = 16.0
"""Bytes that one instruction may load."""
WARPS_AT_ONCE = 132 * 64
"""Of an H100."""


def nine(space: Recorded) -> Floats:
    """METRICS and SHAPES of all points of a recorded space, float32 [points, 9]."""
    added, largest = _of_points(space)
    loads, copied = added["inner_global_loads"] + added["inner_copies"], added["inner_copied_bytes"]
    fetched = added["inner_load_bytes"] + copied
    metrics = (
        added["load_bytes"] / np.maximum(WIDEST_LOAD * added["global_loads"], 1.0),
        added["warps"] / WARPS_AT_ONCE,
        np.maximum(loads, 1.0) * largest["occupancy"],
        added["inner_multiply_adds"] / np.maximum(fetched, 1.0),
        added["spill_stores"] + added["spill_loads"],
        largest["threads"],
    )
    shapes = np.broadcast_to(np.array(_shapes(space), np.float32), (len(space.points), len(SHAPES)))
    return np.concatenate([np.stack(metrics, 1), shapes], 1).astype(np.float32)


def six(space: Recorded) -> Floats:
    """RAW of all points of a recorded space, float32 [points, 6]."""
    added, largest = _of_points(space)
    found = [largest[name] if name in ("threads", "registers", "shared_bytes") else added[name] for name in RAW]
    return np.stack(found, 1).astype(np.float32)


def _of_points(space: Recorded) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The sums over a point's launches by feature, and the largest, each [points]."""
    features = total([space.features_of(point) for point in range(len(space.points))])
    sums, largest = features[:, : len(NAMES)].T, features[:, len(NAMES) : 2 * len(NAMES)].T
    return dict(zip(NAMES, sums, strict=True)), dict(zip(NAMES, largest, strict=True))


def _shapes(space: Recorded) -> tuple[float, float, float]:
    """How many rows there are, how many entries they sum, and how wide the widest row is that they pick."""
    told = of_data(space.data)
    lists, mean, picks = told[0], told[1], told[len(OF_LISTS)]
    rows, entries = (lists, lists * mean) if lists else (picks, picks)
    return float(rows), float(entries), float(max(space.about["sizes"].values(), default=1))
