"""The figures that are shown of times taken."""

from __future__ import annotations

import numpy as np


def statistics(samples: list[float]) -> dict[str, float]:
    """The figures shown of a list of times in milliseconds."""
    return {
        "median_ms": float(np.median(samples)),
        "p5_ms": float(np.percentile(samples, 5)),
        "p95_ms": float(np.percentile(samples, 95)),
        "least_ms": min(samples),
    }
