"""Embedding bags: rows that ids gather, summed, averaged or the largest of each bag."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tests.runtime.trace.held import hold, redraw  # noqa: E402

ROWS = 9


class Bags(nn.Module):
    """One bag a row of the batch."""

    def __init__(self, **options):
        super().__init__()
        self.bags = nn.EmbeddingBag(ROWS, 4, **options)

    def forward(self, x):
        return self.bags(x)


class Weighted(Bags):
    """Whose rows have weights that come with the batch."""

    def forward(self, x, weights):
        return self.bags(x, per_sample_weights=weights)


class Pairs(nn.Module):
    """A user's items and their tags, from two tables; a linear model of what is known of each, as of Wide and Deep."""

    def __init__(self):
        super().__init__()
        self.items, self.tags = nn.EmbeddingBag(ROWS, 4, mode="sum"), nn.Parameter(torch.randn(ROWS, 4))
        self.out = nn.Linear(8, 1)

    def forward(self, items, tags):
        both = torch.cat([self.items(items), F.embedding_bag(tags, self.tags, mode="max")], 1)
        return self.out(both.relu()).squeeze(-1)


def drawn(count, size, seed, weighted=False):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, ROWS, (count, size), generator=generator)
    ids[-1] = 3  # one row several times, and in one of the tests nothing but padding
    return (ids, torch.randn(count, size, generator=generator)) if weighted else (ids,)


OPTIONS = [
    *({"mode": mode, "padding_idx": padding} for mode in ("sum", "mean", "max") for padding in (None, 3)),
]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: f"{each['mode']}-{each['padding_idx']}")
def test_bags_of_one_size_have_the_results_and_gradients_of_the_module(options, size) -> None:
    torch.manual_seed(0)
    module = Bags(**options)
    replacement = explorer.trace(module, *drawn(7, size, 0)).module()
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, replacement, drawn(count, size, count))


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("size", [1, 3])
def test_weights_of_rows_have_gradients_too(size, padding) -> None:
    torch.manual_seed(0)
    module = Weighted(mode="sum", padding_idx=padding)
    replacement = explorer.trace(module, *drawn(7, size, 0, True)).module()
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, replacement, drawn(count, size, count, True))


def test_two_bags_of_a_row_are_joined() -> None:
    torch.manual_seed(0)
    module = Pairs()
    replacement = explorer.trace(module, *drawn(7, 3, 0), *drawn(7, 2, 1)).module()
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, replacement, (*drawn(count, 3, count), *drawn(count, 2, count + 1)))


def test_ids_that_are_turned_are_bags_of_the_columns() -> None:
    class Turned(Bags):
        def forward(self, x):
            return self.bags(x.t().contiguous())

    torch.manual_seed(0)
    with pytest.raises(ValueError, match="bags of ids that are not"):  # one bag for all rows of the batch
        explorer.trace(Turned(mode="sum"), *drawn(7, 3, 0))


@pytest.mark.parametrize(
    ("options", "size", "why"),
    [
        ({"mode": "sum"}, 65, "gather the rows and sum them by the bag of each id"),
        ({"mode": "sum", "scale_grad_by_freq": True}, 3, "scale_grad_by_freq or sparse"),
        ({"mode": "sum", "sparse": True}, 3, "scale_grad_by_freq or sparse"),
        ({"mode": "sum", "max_norm": 1.0}, 3, "embedding_renorm_"),
    ],
)
def test_other_bags_are_refused(options, size, why) -> None:
    with pytest.raises(ValueError, match=why):
        explorer.trace(Bags(**options), *drawn(7, size, 0))
