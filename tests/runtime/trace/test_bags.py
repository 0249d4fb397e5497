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


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_more_ids_than_columns_are_those_that_offsets_tell(mode) -> None:
    torch.manual_seed(0)
    module = Bags(mode=mode)
    found = explorer.trace(module, *drawn(7, 65, 0))
    assert "for e in n.incoming_edges()" in found.text
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, found.module(), drawn(count, 65, count))


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
    with pytest.raises(ValueError, match="bags are neither"):  # one bag for all rows of the batch
        explorer.trace(Turned(mode="sum"), *drawn(7, 3, 0))


class Told(Bags):
    """Bags of any size, told by where they begin."""

    def forward(self, x, offsets, weights=None):
        return self.bags(x, offsets, per_sample_weights=weights).sigmoid()


def told(ids, bags, seed, weighted=False):
    """Ids of bags of which some are empty, where these begin, and weights."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, ROWS, (ids,), generator=generator)
    begins = torch.randint(0, ids, (bags,), generator=generator).sort().values
    begins[0] = 0
    return (x, begins, torch.randn(ids, generator=generator)) if weighted else (x, begins)


@pytest.mark.parametrize(("mode", "weighted"), [("sum", False), ("sum", True), ("mean", False), ("max", False)])
def test_bags_that_offsets_tell_have_the_results_and_gradients_of_the_module(mode, weighted) -> None:
    torch.manual_seed(0)
    module = Told(mode=mode)
    found = explorer.trace(module, *told(13, 7, 0, weighted))
    assert "for e in n.incoming_edges()" in found.text
    redraw(module, 3)
    replacement = found.module()
    for ids, bags in ((30, 11), (5, 9), (4, 1)):
        hold(module, replacement, told(ids, bags, ids, weighted))


def test_what_each_bag_is_of_may_come_with_it() -> None:
    class Beside(Told):
        def forward(self, x, offsets, features):
            return (self.bags(x, offsets) * features).sum(-1)

    torch.manual_seed(0)
    module = Beside(mode="mean")
    replacement = explorer.trace(module, *told(13, 7, 0), torch.randn(7, 4)).module()
    redraw(module, 3)
    for ids, bags in ((30, 11), (5, 9)):
        hold(module, replacement, (*told(ids, bags, ids), torch.randn(bags, 4)))


def test_as_many_ids_as_bags_tell_no_set_from_another() -> None:
    with pytest.raises(ValueError, match="as many ids as bags: trace with one whose counts differ"):
        explorer.trace(Told(mode="sum"), *told(7, 7, 0))


def test_offsets_that_change_in_place_are_read_anew() -> None:
    module = Told(mode="sum")
    replacement = explorer.trace(module, *told(13, 7, 0)).module()
    x, offsets = told(12, 4, 1)
    for begins in ([0, 3, 3, 8], [0, 0, 0, 0], [0, 1, 2, 12]):
        offsets.copy_(torch.tensor(begins))
        torch.testing.assert_close(replacement(x, offsets), module(x, offsets))


def with_last(ids, bags, seed, weighted=False):
    """The same, with where the last bag ends."""
    x, begins, *weights = told(ids, bags, seed, weighted)
    return (x, torch.cat([begins, torch.tensor([ids])]), *weights)


@pytest.mark.parametrize(("mode", "weighted"), [("sum", False), ("sum", True), ("mean", False), ("max", False)])
def test_a_last_offset_is_where_the_ids_end(mode, weighted) -> None:
    torch.manual_seed(0)
    module = Told(mode=mode, include_last_offset=True)
    replacement = explorer.trace(module, *with_last(13, 7, 0, weighted)).module()
    redraw(module, 3)
    for ids, bags in ((30, 11), (5, 9), (4, 1)):
        hold(module, replacement, with_last(ids, bags, ids, weighted))


def test_ids_behind_the_last_offset_are_refused() -> None:  # whose gradients PyTorch leaves as they lie in memory
    x, offsets = with_last(13, 7, 0)
    replacement = explorer.trace(Told(mode="sum", include_last_offset=True), x, offsets).module()
    with pytest.raises(ValueError, match="takes the number 14 out of ids"):
        replacement(torch.cat([x, x[:1]]), offsets)


def test_bags_of_one_size_may_have_a_last_offset_too() -> None:
    class Even(Bags):
        def forward(self, x):
            offsets = torch.arange(0, x.numel() + 1, x.size(1))
            return self.bags(x.reshape(-1), offsets)

    torch.manual_seed(0)
    module = Even(mode="mean", include_last_offset=True)
    replacement = explorer.trace(module, *drawn(7, 3, 0)).module()
    hold(module, replacement, drawn(5, 3, 1))


def test_padding_among_bags_of_several_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="sum them by the bag of each id"):
        explorer.trace(Told(mode="sum", padding_idx=3), *told(13, 7, 0))


@pytest.mark.parametrize(
    ("options", "size", "why"),
    [
        ({"mode": "sum", "padding_idx": 3}, 65, "sum them by the bag of each id"),
        ({"mode": "sum", "scale_grad_by_freq": True}, 3, "scale_grad_by_freq or sparse"),
        ({"mode": "sum", "sparse": True}, 3, "scale_grad_by_freq or sparse"),
        ({"mode": "sum", "max_norm": 1.0}, 3, "embedding_renorm_"),
    ],
)
def test_other_bags_are_refused(options, size, why) -> None:
    with pytest.raises(ValueError, match=why):
        explorer.trace(Bags(**options), *drawn(7, size, 0))
