"""Modules that score triples become texts with their names, and replacements with their results and gradients."""

from __future__ import annotations

import inspect

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace import complex_modules  # noqa: E402
from tests.runtime.trace import score_modules as modules  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402


def ids(count, batch, seed):
    return torch.randint(0, count, (batch,), generator=torch.Generator().manual_seed(seed))


def triples_for(module, batch, seed):
    """The arguments of a module's forward: a tensor for each id, or one of triples."""
    names = list(inspect.signature(module.forward).parameters)
    drawn = [
        ids(count, batch, seed + at) for at, count in enumerate((modules.ENTITIES, modules.RELATIONS, modules.ENTITIES))
    ]
    return [torch.stack(drawn, dim=1)] if len(names) == 1 else drawn[: len(names)]


@pytest.mark.parametrize("kind", [*modules.MODULES, *complex_modules.MODULES])
def test_a_replacement_has_the_results_and_gradients_of_the_module(kind) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    traced = explorer.trace(module, *triples_for(module, 5, 1))
    assert traced.compilation.ok
    assert all(name in traced.text for name in traced.tensors)
    redraw(module, 3)
    hold(module, traced.module(), triples_for(module, 17, 40))


def test_the_text_is_what_one_would_write() -> None:
    traced = explorer.trace(modules.Rescal(), *triples_for(modules.Rescal(), 5, 1))
    assert traced.text == (
        "score Rescal(h: entity, r: relation, t: entity):\n"
        '    "Traced from the PyTorch module Rescal"\n'
        "    param E[entity, 6], R[relation, 6, 6]\n"
        "    return dot(E[h] @ R[r], E[t])\n"
    )
    assert list(traced.tensors) == ["E", "R"]
    assert list(traced.maps) == ["h", "r", "t"]


class Interaction(torch.nn.Module):
    """A function of rows that were gathered before, as PyKEEN's interactions are."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, h, r, t):
        return self.function(h, r, t, self.weight)


INTERACTIONS = {
    "TransE": lambda h, r, t, w: -(h + r - t).norm(p=2, dim=-1),
    "DistMult": lambda h, r, t, w: (h * r * t).sum(dim=-1),
    "weighted": lambda h, r, t, w: torch.einsum("bd,bd,bd,d->b", h, r, t, w),
    "TransF": lambda h, r, t, w: ((h + r) * t).sum(-1) + (h * (t - r)).sum(-1),
    "cosine": lambda h, r, t, w: torch.nn.functional.cosine_similarity(h + r, t, dim=-1),
}


@pytest.mark.parametrize("name", INTERACTIONS)
def test_rows_that_a_batch_brings_are_tables_of_its_own(name) -> None:
    module = Interaction(INTERACTIONS[name])
    traced = explorer.trace(module, *(torch.randn(5, 4) for _ in range(3)))
    redraw(module, 5)
    hold(module, traced.module(), [torch.randn(13, 4, generator=torch.Generator().manual_seed(at)) for at in range(3)])


def test_the_interaction_reads_its_three_rows() -> None:
    traced = explorer.trace(Interaction(INTERACTIONS["TransE"]), *(torch.randn(5, 4) for _ in range(3)))
    assert "return -norm(h[i] + r[j] - t[k], 2)" in traced.text


def test_ids_may_come_of_a_batch_of_another_form() -> None:
    """What is computed of integers alone is computed again for every batch."""

    class Turned(modules.DistMult):
        def forward(self, triples):
            h, r, t = triples.t().contiguous()
            return (self.entities(h) * self.relations(r % 2) * self.entities((t + 1) % modules.ENTITIES)).sum(1)

    module = Turned()
    traced = explorer.trace(module, *triples_for(module, 5, 1))
    hold(module, traced.module(), triples_for(module, 8, 11))


def test_whole_tables_may_be_normalised_before_rows_are_taken() -> None:
    class Normalised(modules.DistMult):
        def forward(self, h, r, t):
            table = torch.nn.functional.normalize(self.entities.weight, dim=1)
            return (table[h] * self.relations(r) * table[t]).sum(1)

    module = Normalised()
    traced = explorer.trace(module, *triples_for(module, 5, 1))
    hold(module, traced.module(), triples_for(module, 8, 11))


def test_state_is_shared_and_training_goes_on() -> None:
    module = modules.TransE()
    replacement = explorer.trace(module, *triples_for(module, 5, 1)).module()
    batch = triples_for(module, 12, 9)
    optimizer = torch.optim.SGD(replacement.parameters(), lr=0.1)
    before = module(*batch).detach().clone()
    replacement(*batch).sum().backward()
    optimizer.step()
    assert not torch.allclose(module(*batch), before)
    torch.testing.assert_close(replacement(*batch), module(*batch), rtol=0, atol=1e-5)


def test_a_module_that_does_something_else_in_training_says_so() -> None:
    module = modules.ErMlp().eval()
    replacement = explorer.trace(module, *triples_for(module, 5, 1)).module()
    with pytest.raises(ValueError, match="not traced in training"):
        replacement.train()(*triples_for(module, 5, 1))
    other = explorer.trace(modules.DistMult(), *triples_for(modules.DistMult(), 5, 1)).module()
    other.eval()(*triples_for(modules.DistMult(), 5, 1))


def test_ids_that_are_the_same_in_the_example_alone_are_two_maps() -> None:
    """Relations 0 and 1 are what is left of them over 2, but 2 and 3 are not."""

    class Folded(modules.DistMult):
        def __init__(self):
            super().__init__()
            self.parity = torch.nn.Embedding(2, modules.D)

        def forward(self, h, r, t):
            return (self.entities(h) * self.relations(r) * self.parity(r % 2)).sum(1)

    module = Folded()
    traced = explorer.trace(module, torch.tensor([1, 5, 3]), torch.tensor([0, 1, 1]), torch.tensor([0, 2, 4]))
    hold(module, traced.module(), triples_for(module, 30, 4))


def test_heads_and_tails_that_are_the_same_in_the_example_are_two_maps() -> None:
    ids = torch.zeros(4, dtype=torch.int64)
    module = modules.TransE()
    traced = explorer.trace(module, ids, ids.clone(), ids.clone())
    hold(module, traced.module(), triples_for(module, 30, 4))
