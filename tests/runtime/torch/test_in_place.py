"""What callers do between a call and its gradients, and behind these, and tensors that are read negated."""

from __future__ import annotations

from typing import Any

import pytest

import explorer

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

from explorer.runtime.torch.structure import aligned  # noqa: E402

ENTITIES, RELATIONS, BATCH, D = 11, 3, 17, 6
TRANSE = """dim D = 6
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return norm(E[h] + R[r] - E[t])
"""
BAGS = """dim D = 6
op Bags(b: bag of row):
    param T[row, D]
    return sum(tanh(T[i]) for i in b)
"""


def transe(**changed: Any) -> Any:
    return explorer.compile(TRANSE, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS, **changed)


def ids(count: int, *shape: int, dtype: Any = torch.int64) -> Any:
    return torch.randint(0, count, shape, dtype=dtype)


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_that_are_written_over_give_no_gradients_of_others(checks, dtype):
    score = transe(check_indices=checks)
    for _ in range(3):
        index = [ids(n, BATCH, dtype=dtype) for n in (ENTITIES, RELATIONS, ENTITIES)]
        want = torch.autograd.grad(score(*index).sum(), [score.E, score.R])
        loss = score(*index).sum()
        index[0].copy_(ids(ENTITIES, BATCH))
        if dtype == torch.int32:  # which are read where they are
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(loss, [score.E, score.R])
        else:
            torch.testing.assert_close(torch.autograd.grad(loss, [score.E, score.R]), want)


def test_lists_that_are_written_over_give_no_gradients_of_others():
    made = explorer.compile(BAGS, on_demand=True).torch(row=9)
    ptr, idx = torch.tensor([0, 2, 5], dtype=torch.int32), torch.tensor([1, 2, 3, 4, 0], dtype=torch.int32)
    for structure in ((ptr, idx), (made.prepare(ptr, idx),)):
        loss = made(*structure).square().sum()
        idx[0] = (idx[0] + 1) % 9
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_ids_that_inference_has_made_are_taken():
    score = transe()
    with torch.inference_mode():
        index = [ids(n, BATCH, dtype=torch.int32) for n in (ENTITIES, RELATIONS, ENTITIES)]
    for _ in range(2):
        found = torch.autograd.grad(score(*index).sum(), score.E)
        want = torch.autograd.grad(score(*(each.long() for each in index)).sum(), score.E)
        torch.testing.assert_close(found, want)


def test_negatives_of_other_tensors_are_read_as_they_are():
    score = transe()
    index = [ids(n, BATCH) for n in (ENTITIES, RELATIONS, ENTITIES)]
    table = torch.randn(ENTITIES, D)
    other = torch._neg_view(-table)  # as PyTorch gives imaginary parts of conjugates
    assert other.is_neg()
    assert other.is_contiguous()
    torch.testing.assert_close(score(*index, E=other), score(*index, E=table))
    assert not aligned(other).is_neg()


def test_gradients_of_gradients_are_refused_and_not_left_out():
    score, index = transe(), [ids(n, BATCH) for n in (ENTITIES, RELATIONS, ENTITIES)]
    want = torch.autograd.grad(score(*index).sum(), [score.E, score.R])
    scores = score(*index)
    found = torch.autograd.grad(scores.sum(), [score.E, score.R], create_graph=True)
    torch.testing.assert_close(found, want)
    penalised = scores.sum() + found[0].square().sum()
    with pytest.raises(RuntimeError, match="Compiled gradients have no gradients themselves"):
        penalised.backward()
