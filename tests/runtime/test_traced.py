"""A traced score and a traced layer in machine code: results and gradients of the module, on other inputs."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.score_modules import ENTITIES, RELATIONS, QuatE, TransR  # noqa: E402


def drawn(count, size, seed):
    return torch.randint(0, count, (size,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", [TransR, pytest.param(QuatE, marks=pytest.mark.sweep)])
def test_a_score(kind) -> None:
    module = kind()
    traced = explorer.trace(module, *(drawn(n, 5, n) for n in (ENTITIES, RELATIONS, ENTITIES)))
    redraw(module, 1)
    hold(module, traced.module(), [drawn(n, 300, seed) for seed, n in enumerate((ENTITIES, RELATIONS, ENTITIES))])


class Attending(torch.nn.Module):
    """Attention over the edges into a node, with a weight for each type."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 5))
        self.score = torch.nn.Linear(10, 1)

    def forward(self, x, src, dst, kind):
        message = torch.bmm(x[src].unsqueeze(1), self.weight[kind]).squeeze(1)
        other = torch.bmm(x[dst].unsqueeze(1), self.weight[kind]).squeeze(1)
        weight = torch.exp(torch.tanh(self.score(torch.cat([message, other], dim=-1))))
        total = torch.zeros(len(x), 1).index_add(0, dst, weight)
        return torch.zeros(len(x), 5).index_add(0, dst, message * weight / total[dst])


def test_a_layer() -> None:
    module = Attending()
    tensors = [torch.randn(6, 4), drawn(6, 9, 0), drawn(6, 9, 1), drawn(3, 9, 2)]
    replacement = explorer.trace(module, *tensors).module()
    redraw(module, 1)
    hold(module, replacement, [torch.randn(50, 4), drawn(50, 200, 3), drawn(50, 200, 4), drawn(3, 200, 5)])


class Explained(Attending):
    """The weights that attention gave, beside what it made of them."""

    def forward(self, x, src, dst, kind):
        weight = torch.exp(self.score(torch.cat([x[src], x[dst], kind[:, None] * x[src][:, :2]], dim=-1)))
        total = torch.zeros(len(x), 1).index_add(0, dst, weight)
        weight = weight / total[dst]
        return torch.zeros(len(x), 4).index_add(0, dst, x[src] * weight), weight.squeeze(-1)


def test_a_layer_of_two_results() -> None:
    module = Explained()
    tensors = [torch.randn(6, 4), drawn(6, 9, 0), drawn(6, 9, 1), torch.rand(9)]
    replacement = explorer.trace(module, *tensors).module()
    redraw(module, 1)
    hold(module, replacement, [torch.randn(50, 4), drawn(50, 200, 3), drawn(50, 200, 4), torch.rand(200)])
