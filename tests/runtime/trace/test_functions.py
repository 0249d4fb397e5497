"""Functions that are composed of the language's own, held to PyTorch's, and axes in any order."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from torch.nn import functional  # noqa: E402

from tests.runtime.trace.held import hold, redraw  # noqa: E402


class Of(torch.nn.Module):
    """A function of rows of two tables, [B, 6], in all their elements."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.entities, self.relations = torch.nn.Embedding(9, 6), torch.nn.Embedding(4, 6)
        self.square = torch.nn.Parameter(torch.randn(6, 6))
        self.slope = torch.nn.Parameter(torch.tensor([0.3]))

    def forward(self, h, r, t):
        return (self.function(self, self.entities(h), self.relations(r)) * self.entities(t)).sum(-1)


def heads(x):
    return x.view(-1, 1, 2, 3)


FUNCTIONS = {
    "atanh": lambda m, a, b: torch.atanh(torch.tanh(a)) + b,
    "acosh": lambda m, a, b: torch.acosh(2 + a**2) + b,
    "asinh": lambda m, a, b: torch.asinh(3 * a) + torch.asinh(0 * b),
    "arcs": lambda m, a, b: torch.asin(torch.tanh(a)) * torch.acos(0.9 * torch.sin(b)) + torch.atan(5 * a * b),
    "atan2": lambda m, a, b: torch.atan2(a, b) + torch.atan2(b[:, :1], m.slope),
    "angle": lambda m, a, b: torch.complex(a, b).angle() * torch.polar(b**2, a).angle(),
    "sinh": lambda m, a, b: torch.sinh(a) * torch.cosh(b),
    "tan": lambda m, a, b: torch.tan(torch.tanh(a)) * b,
    "logarithms": lambda m, a, b: torch.log2(a**2 + 1) + torch.log10(b**2 + 1) * torch.exp2(a),
    "ceil": lambda m, a, b: torch.ceil(3 * a) * b,
    "hard": lambda m, a, b: functional.hardswish(4 * a) + functional.hardsigmoid(4 * b),
    "prelu": lambda m, a, b: functional.prelu(a, m.slope) * b,
    "glu": lambda m, a, b: functional.glu(torch.cat([a, b], -1)),
    "lerp": lambda m, a, b: torch.lerp(a, b, 0.3) + torch.lerp(a, b, torch.sigmoid(a)),
    "addcdiv": lambda m, a, b: torch.addcdiv(a, b, b**2 + 1, value=0.5),
    "logaddexp": lambda m, a, b: torch.logaddexp(a, b),
    "cross": lambda m, a, b: torch.linalg.cross(a.view(-1, 2, 3), b.view(-1, 2, 3)).flatten(1),
    "cross before the last": lambda m, a, b: torch.cross(a.view(-1, 3, 2), b.view(-1, 3, 2), dim=1).flatten(1),
    "permuted": lambda m, a, b: (
        (a.view(-1, 3, 2)[:, :, :, None] * b[:, None, None, :2]).permute(0, 3, 1, 2).sum(1).flatten(1)
    ),
    "taken between": lambda m, a, b: (heads(a) * heads(b).transpose(1, 2))[:, 1:, 1].flatten(1).sum(1, keepdim=True),
    "attention": lambda m, a, b: attention(torch.stack([a, b, a * b], 1)),
    "a first state of zeros": lambda m, a, b: torch.zeros(len(a), 6) @ m.square + a,
}


def attention(x):
    """Of three tokens, with two heads."""
    q, k, v = (each.view(-1, 3, 2, 3).transpose(1, 2) for each in (x, torch.tanh(x), torch.sin(x)))
    return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 3, 6).sum(1)


def batch(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=generator) for most in (9, 4, 9)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_replacement_has_the_results_and_gradients(name) -> None:
    torch.manual_seed(0)
    module = Of(FUNCTIONS[name])
    found = explorer.trace(module, *batch(7, 0))
    redraw(module, 3)
    for count in (11, 4):
        hold(module, found.module(), batch(count, count))


def test_axes_in_another_order_are_a_sum_without_one() -> None:
    assert 'einsum("abc->' in explorer.trace(Of(FUNCTIONS["attention"]), *batch(7, 0)).text
