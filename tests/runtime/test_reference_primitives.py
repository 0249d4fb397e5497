"""What the reference computes with, where sums are taken one term after another."""

import numpy as np
import pytest

from explorer.runtime.reference.numbers import primitives
from explorer.runtime.reference.numbers.primitives import OneByOne


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("spread", ((2, 4096, 8),)),
        ("leaky_relu", (0.1,)),
        ("sigmoid", ()),
        ("reshaped", ((8, 4096),)),
        ("transposed", ((1, 0),)),
        ("maximum", (np.float32(0),)),
    ],
)
def test_what_is_computed_of_such_numbers_is_such(name, arguments):
    """NumPy's own functions may give plain arrays, whose sums it takes in pairs."""
    x = np.random.default_rng(0).random((4096, 8), dtype=np.float32).view(OneByOne)
    assert isinstance(getattr(primitives, name)(x, *arguments), OneByOne)
    assert isinstance(primitives.joined(0, x, x), OneByOne)


def test_a_sum_of_many_spread_rows_has_the_errors_of_one_lane():
    row = np.float32(0.1) + np.zeros((1, 1), dtype=np.float32)
    places = np.zeros(100_000, dtype=np.int64)
    sums = [
        float(primitives.segment_sum(primitives.spread(kind, (len(places), 1)), places, 1)[0, 0])
        for kind in (row, row.view(OneByOne))
    ]
    exact = len(places) * float(row[0, 0])
    assert abs(sums[0] - exact) < 1e-5 * exact < 1e-4 * exact < abs(sums[1] - exact)
