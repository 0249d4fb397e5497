"""Modules that have two names, tensors that nothing reads, and calls that are none."""

from __future__ import annotations

from typing import Any

import pytest

import explorer
from explorer.runtime.trace.tapes.tape import TraceError

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")
from torch import nn  # noqa: E402

from tests.runtime.trace.held import hold  # noqa: E402

ROWS, D = 9, 4


def ids(count: int) -> Any:
    return torch.randint(0, ROWS, (count,))


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.E = nn.Embedding(ROWS, D)

    def forward(self, *, h: Any, t: Any) -> Any:
        return (self.E(h) * self.E(t)).sum(-1)


class Shared(nn.Module):
    """One linear module under two names, and one parameter in two embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.E, self.F, self.left = nn.Embedding(ROWS, D), nn.Embedding(ROWS, D), nn.Linear(D, D)
        self.F.weight, self.right = self.E.weight, self.left

    def forward(self, h: Any, t: Any) -> Any:
        return (self.left(self.E(h)) * self.right(self.F(t))).sum(-1)


class Unread(nn.Module):
    """Rows of three tables are gathered, and those of one are left."""

    def __init__(self) -> None:
        super().__init__()
        self.E, self.R, self.T = (nn.Embedding(ROWS + at, D) for at in range(3))

    def forward(self, h: Any, r: Any, t: Any) -> Any:
        self.R(r)
        return (self.E(h) * self.T(t)).sum(-1)


@pytest.mark.parametrize(("kind", "inputs"), [(Shared, 2), (Unread, 3)])
def test_the_same_on_other_batches(kind: Any, inputs: int) -> None:
    torch.manual_seed(0)
    module = kind()
    own = list(map(id, module.parameters()))
    traced = explorer.trace(module, *(ids(7) for _ in range(inputs)))
    assert list(map(id, module.parameters())) == own
    for count in (1, 5, 12):
        hold(module, traced.module(), [ids(count) for _ in range(inputs)])


def test_arguments_by_name_alone_are_asked_for() -> None:
    traced = explorer.trace(Pairs(), h=ids(7), t=ids(7)).module()
    with pytest.raises(TypeError, match="'h'"):
        traced()


def test_a_replacement_is_not_traced() -> None:
    traced = explorer.trace(Pairs(), h=ids(7), t=ids(7)).module()
    for module in (traced, nn.Sequential(traced)):
        with pytest.raises(TraceError, match="the one that it takes the place of"):
            explorer.trace(module, h=ids(7), t=ids(7))


def test_inference_mode_is_refused() -> None:
    with torch.inference_mode():
        made = ids(7)
        other = Pairs()
        with pytest.raises(TraceError, match="outside of it"):
            explorer.trace(Pairs(), h=made, t=made)
    with pytest.raises(TraceError, match="h was made in"):
        explorer.trace(Pairs(), h=made, t=made)
    with pytest.raises(TraceError, match="weight was made in"):
        explorer.trace(other, h=ids(7), t=ids(7))
