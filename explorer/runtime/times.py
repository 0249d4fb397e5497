"""The figures that are shown of times taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

UNSTEADY = 0.25
"""The middle half of the repeats spreads over more than this share of their median: of an idle machine's it is under a
tenth, for times of more than some microseconds."""
RESAMPLES = 2_000
LEVEL = 0.95


def statistics(samples: Sequence[float]) -> dict[str, float]:
    """The figures shown of a list of times in milliseconds. `spread` is that of their middle half, as a share of the
    median."""
    low, median, high = (float(np.percentile(samples, share)) for share in (25, 50, 75))
    return {
        "median_ms": median,
        "p5_ms": float(np.percentile(samples, 5)),
        "p95_ms": float(np.percentile(samples, 95)),
        "least_ms": min(samples),
        "spread": (high - low) / median if median else 0.0,
    }


def unsteady(spread: float, load: float | None, threads: int) -> str:
    """A sentence where times spread too far to be trusted, "" where they do not. `load` is how many processes wanted a
    processor while they were taken, of `threads`, None where the system does not say."""
    if spread <= UNSTEADY:
        return ""
    told = f"Unsteady: the middle half of the repeats spreads over {100 * spread:.0f} % of their median"
    if load is not None and load > threads:
        return f"{told}; the host is busy: {load:.1f} processes want its {threads} processors."
    return f"{told}; something else takes this host's time."


def ratio_of_medians(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """How many times `theirs` the median of `ours` is, and between what this lies: a bootstrap over the pairs.

    Samples that were taken by turns are drawn anew in pairs, so that what slowed both down at a time slows both down in
    every resample too (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, §13.3: the percentile interval).
    """
    pairs = min(len(ours), len(theirs))
    one, other = np.asarray(ours[:pairs]), np.asarray(theirs[:pairs])
    drawn = np.random.default_rng(0).integers(0, pairs, (RESAMPLES, pairs))
    ratios = np.median(one[drawn], axis=1) / np.median(other[drawn], axis=1)
    low, high = np.percentile(ratios, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return {
        "ratio": float(np.median(one) / np.median(other)),
        "low": float(low),
        "high": float(high),
        "level": LEVEL,
        "pairs": pairs,
    }
