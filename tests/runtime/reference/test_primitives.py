"""What the reference computes with, where sums are taken one term after another."""

import numpy as np
import pytest

from explorer.runtime.reference.numbers import primitives
from explorer.runtime.reference.numbers.adjoint import Traced, backward
from explorer.runtime.reference.numbers.bounds import Bounded, bounded, products_coarser
from explorer.runtime.reference.numbers.primitives import OneByOne
from explorer.runtime.reference.numbers.tangent import Moved


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


STARTS = np.array([0, 1, 4, 30])


def factors(batch: tuple[int, ...], row_batch: tuple[int, ...]) -> tuple[Bounded, Bounded]:
    """40 rows and 4 matrices with errors of their own and shared ones, of sizes far apart."""
    random = np.random.default_rng(1)

    def draw(*shape: int) -> Bounded:
        value = random.standard_normal(shape) * 10.0 ** random.integers(-12, 6, shape)
        own, shared = (np.abs(value * random.random(shape)).astype(np.float32) for _ in range(2))
        return Bounded(value, own, shared)

    return draw(*row_batch, 40, 20), draw(4, *batch, 20, 3)


def by_groups(x, y):
    """The same in products of the language's other kind."""
    ends = [*STARTS[1:].tolist(), 40]
    groups = zip(range(4), STARTS.tolist(), ends, strict=True)
    return primitives.joined(-2, *(primitives.matmul(x[..., a:b, :], y[index]) for index, a, b in groups))


@pytest.mark.parametrize("coarser", [1.0, 8.0])
@pytest.mark.parametrize(("batch", "row_batch"), [((), ()), ((2,), (2,)), ((2,), ())])
def test_products_by_groups_are_products_with_their_bounds(batch, row_batch, coarser):
    """No looser and no tighter, as values and their changes are the same."""
    x, y = factors(batch, row_batch)
    change = Moved(x, y.value[0, ..., :1, :1].reshape(-1)[0] * x), Moved(y, y * 0.5)
    with products_coarser(coarser):
        found, want = primitives.grouped_matmul(x, y, STARTS), by_groups(x, y)
        moved, moved_too = primitives.grouped_matmul(*change, STARTS), by_groups(*change)
    for one, other in ((found, want), (moved.payload, want), (moved.change, moved_too.change)):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-12, atol=0)
        np.testing.assert_allclose(one.own, other.own, rtol=1e-5)
        np.testing.assert_allclose(one.shared, other.shared, rtol=1e-5)


@pytest.mark.parametrize(("batch", "row_batch"), [((), ()), ((2,), (2,)), ((2,), ())])
def test_gradients_of_products_by_groups_are_those_of_products(batch, row_batch):
    x, y = factors(batch, row_batch)
    upstream = bounded(np.random.default_rng(2).standard_normal((*batch, 40, 3)))
    gradients = []
    for product in (lambda a, b: primitives.grouped_matmul(a, b, STARTS), by_groups):
        learnt = {"x": Traced(x), "y": Traced(y)}
        gradients.append(backward(product(learnt["x"], learnt["y"]), upstream, learnt))
    for name in "xy":
        one, other = (found[name] for found in gradients)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-9, atol=1e-12 * np.abs(other.value).max())

        assert (one.error <= other.error * (1 + 1e-5)).all()  # parts that are put together round besides


def test_products_by_groups_are_taken_one_by_one_too():
    x, y = (part.value.astype(np.float32).view(OneByOne) for part in factors((2,), ()))
    found = primitives.grouped_matmul(x, y, STARTS)
    assert isinstance(found, OneByOne)
    np.testing.assert_array_equal(found, by_groups(x, y))
