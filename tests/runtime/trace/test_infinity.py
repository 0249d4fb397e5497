"""Infinity in the places of a mask, as before a softmax that is to leave them out."""

from __future__ import annotations

from math import inf

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tests.runtime.trace.held import hold, redraw  # noqa: E402

ROWS, LENGTH = 17, 5


class Read(nn.Module):
    """A sequence's rows as one, each by its share; ids that are 0 are padding."""

    def __init__(self, masked):
        super().__init__()
        self.items, self.score, self.masked = nn.Embedding(ROWS, 4), nn.Linear(4, 1), masked

    def forward(self, x):
        rows = self.items(x)
        shares = self.masked(self.score(rows).squeeze(-1), x == 0).softmax(1)
        return (shares.unsqueeze(-1) * rows).sum(1)


class Attended(Read):
    """Rows that attend to each other, but for the padding."""

    def forward(self, x):
        rows = self.items(x)
        return (self.masked(rows @ rows.transpose(1, 2) / 2, (x == 0).unsqueeze(1)).softmax(-1) @ rows).sum(1)


class Logarithms(Read):
    def forward(self, x):
        return torch.log_softmax(self.masked(self.score(self.items(x)).squeeze(-1), x == 0), 1).exp()


class OfQueries(Read):
    """Rows that attend to each other by PyTorch's own function; `masked` makes of the padding what it takes."""

    def __init__(self, masked):
        super().__init__(masked)
        self.parts = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.parts(self.items(x)).view(*x.shape, 3, 2, 2).permute(2, 0, 3, 1, 4)
        made = F.scaled_dot_product_attention(q, k, v, attn_mask=self.masked((x != 0)[:, None, None, :]))
        return made.transpose(1, 2).flatten(2).sum(1)


class Heads(Read):
    def __init__(self, masked):
        super().__init__(masked)
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        rows = self.items(x)
        return self.heads(rows, rows, rows, key_padding_mask=x == 0, need_weights=False)[0].sum(1)


class Scores(Read):
    """What a softmax outside takes."""

    def forward(self, x):
        return self.masked(self.score(self.items(x)).squeeze(-1), x == 0)


class Unlikely(Read):
    """Of whose scores those below 0 are left out but for the first."""

    def forward(self, x):
        rows = self.items(x)
        scores = self.score(rows).squeeze(-1)
        below = (scores < 0) & (torch.arange(LENGTH) > 0)
        return (self.masked(scores, below).softmax(1).unsqueeze(-1) * rows).sum(1)


def put(scores, mask):
    scores = scores.clone()
    scores[mask.expand_as(scores)] = -inf
    return scores


MASKS = {
    "masked_fill": lambda scores, mask: scores.masked_fill(mask, -inf),
    "of a tensor": lambda scores, mask: scores.masked_fill(mask, torch.tensor(-inf)),
    "in place": lambda scores, mask: scores.clone().masked_fill_(mask, -inf),
    "where": lambda scores, mask: torch.where(mask, -inf, scores),
    "where not": lambda scores, mask: torch.where(~mask, scores, -inf),
    "put": put,
    "turned": lambda scores, mask: -(-scores).masked_fill(mask, inf),
}


KEPT = {
    "which are kept": lambda kept: kept,
    "a sum's": lambda kept: torch.zeros(kept.shape).masked_fill(~kept, -inf),
    "of each pair": lambda kept: kept & kept.transpose(2, 3),
}


def sequences(count, seed):
    x = torch.randint(1, ROWS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    x[:, 3:] *= torch.arange(count).unsqueeze(1) % 2  # of each second one the end is padding
    x[:, 1] *= torch.arange(count) % 3
    return (x % ROWS,)


def traced(module):
    torch.manual_seed(0)
    found = explorer.trace(module, *sequences(7, 0))
    redraw(module, 3)
    return found.module()


@pytest.mark.parametrize("masked", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("made", [Read, Attended, Logarithms, Unlikely])
def test_what_is_masked_has_no_share_and_no_gradient(made, masked) -> None:
    module = made(masked)
    replacement = traced(module)
    for count in (13, 4, 1):
        hold(module, replacement, sequences(count, count))


@pytest.mark.parametrize("made", [Read, Attended, Logarithms, Scores])
def test_a_row_that_is_masked_whole_and_infinity_itself_are_those_of_the_module(made) -> None:
    module = made(MASKS["masked_fill"])
    replacement = traced(module)
    (x,) = sequences(6, 2)
    x[2] = 0
    want, got = module(x), replacement(x)
    assert not want[2].isfinite().any()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("made", [OfQueries, Heads])
@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_a_row_that_attention_masks_whole_is_0_and_has_no_gradient(made, kept) -> None:
    module = made(kept)
    replacement = traced(module)
    for count in (13, 4, 1):
        (x,) = sequences(count, count)
        x[count // 2] = 0
        hold(module, replacement, (x,))
