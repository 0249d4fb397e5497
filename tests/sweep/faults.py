"""The smallest fault that the check of results sees, by the number of terms of a sum: one term that is left out, in
multiples of the mean term, and an error of all elements, relative to them.

    python tests/sweep/faults.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from explorer.runtime.reference.compare import MOST_ROOT, compare, error_over_bound
from explorer.runtime.reference.numbers import primitives as plain
from explorer.runtime.reference.numbers.bounds import CONSTANT, ROUNDOFF, bounded

SIZES = (64, 1024, 4096, 16_384, 65_536, 1_048_576)
ROWS, COLUMNS = 20, 8


def smallest(size: int, positive: bool) -> tuple[float, float, float]:
    """The smallest term, the same in units of what is left of all, and the smallest common relative error."""
    random = np.random.default_rng(size)
    terms: Any = random.standard_normal((ROWS * COLUMNS, size)).astype(np.float32)
    terms = np.abs(terms) if positive else terms
    want = plain.total(bounded(terms))
    term = float(np.median(CONSTANT * ROUNDOFF * want.error) / np.abs(terms).mean())
    right = terms.sum(axis=-1)
    one_by_one = np.add.accumulate(terms, axis=-1, dtype=np.float32)[:, -1]
    root = max(float(np.sqrt(np.mean(error_over_bound(got, want) ** 2))) for got in (right, one_by_one))
    share = MOST_ROOT * root / float(np.sqrt(np.mean((want.value / (CONSTANT * ROUNDOFF * want.error)) ** 2)))
    assert not compare(right * np.float32(1 + 2 * share), want, [lambda: right, lambda: one_by_one]).matches
    return term, term * float(np.abs(terms).mean() / np.median(np.abs(want.value))), share


def main() -> int:
    print("terms     of one sign: term, of the sum, everywhere    that cancel: term, of the sum, everywhere")
    for size in SIZES:
        figures = [figure for positive in (True, False) for figure in smallest(size, positive)]
        print(f"{size:9,}  " + "  ".join(f"{figure:14.2g}" for figure in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
