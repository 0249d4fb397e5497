"""Scores of a batch with all rows of a table, whose rows ids gather too."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tests.runtime.trace.batch_modules import drawn  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402

ENTITIES, RELATIONS, D = 17, 5, 4


class All(nn.Module):
    """What `scored` makes of a query and this module."""

    inputs = drawn(ENTITIES, RELATIONS)

    def __init__(self, scored):
        super().__init__()
        self.E, self.R = nn.Embedding(ENTITIES, D), nn.Embedding(RELATIONS, D)
        self.own, self.bias = nn.Embedding(ENTITIES, 1), nn.Parameter(torch.randn(ENTITIES))
        self.scored = scored

    def forward(self, h, r):
        return self.scored(self, h, self.E(h) * self.R(r))


SCORED = {
    "matmul": lambda m, h, q: q @ m.E.weight.t(),
    "einsum": lambda m, h, q: torch.einsum("bd,nd->bn", q, m.E.weight),
    "linear, with biases": lambda m, h, q: torch.sigmoid(F.linear(q, m.E.weight) + m.bias),
    "biases that are gathered too": lambda m, h, q: F.linear(q, m.E.weight) + m.own.weight.view(-1) + m.own(h),
    "the table first": lambda m, h, q: (m.E.weight @ q.t()).t(),
    "distances": lambda m, h, q: -(q.unsqueeze(1) - m.E.weight.unsqueeze(0)).norm(dim=-1),
    "cdist": lambda m, h, q: -torch.cdist(q, m.E.weight),
    "a softmax over all": lambda m, h, q: torch.log_softmax(q @ m.E.weight.t(), 1),
}


@pytest.mark.parametrize("scored", SCORED.values(), ids=SCORED)
def test_scores_with_all_rows_have_the_results_and_gradients_of_the_module(scored) -> None:
    torch.manual_seed(0)
    module = All(scored)
    found = explorer.trace(module, *All.inputs(7, 0))
    redraw(module, 3)
    for count in (13, 4, 1):
        hold(module, found.module(), All.inputs(count, count))


def test_the_table_and_the_matrix_are_one_tensor() -> None:
    module = All(SCORED["matmul"])
    found = explorer.trace(module, *All.inputs(7, 0))
    assert f"param E[entity, {D}], R[relation, {D}], all_E[{ENTITIES}, {D}]" in found.text
    assert found.tensors["all_E"] is found.tensors["E"] is module.E.weight
    assert [name for name, _ in found.module().named_parameters()] == [name for name, _ in module.named_parameters()]
