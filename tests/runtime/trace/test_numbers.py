"""Types, and numbers at which a formula's gradient is none: what eager computes there, or a refusal."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.held import hold  # noqa: E402
from tests.runtime.trace.test_refused import CALL, of, scored  # noqa: E402

SAME = CALL[0], CALL[1], CALL[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.vector_norm(x, ord=3, dim=-1),
        lambda x: torch.linalg.vector_norm(x, ord=16, dim=-1),
        lambda x: torch.linalg.vector_norm(x.view(-1, 2, 3), dim=(1, 2)),
        lambda x: x.std(-1),
        lambda x: torch.nn.functional.elu(x * 1000).sum(-1),
    ],
)
def test_gradients_are_finite_where_eager_has_them(function) -> None:
    module = of(lambda m, h, r, t: function(m.entities(h) - m.entities(t)))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    hold(module, replacement, SAME)


def test_an_elu_has_the_gradient_of_eager_at_zero() -> None:
    module = of(lambda m, h, r, t: torch.nn.functional.elu(m.entities(h) - m.entities(t).detach().floor()).sum(-1))
    with torch.no_grad():
        module.entities.weight.round_()
    hold(module, explorer.trace(module, *SAME).module(), SAME)


class Weighted(torch.nn.Module):
    """An interaction whose weight is used through a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, h, t, w):
        return (h * t).sum(-1) * self.function(w)


def test_a_cast_to_bool_is_a_comparison_with_zero() -> None:
    module = Weighted(lambda w: w.bool().float())
    rows = torch.randn(4, 6), torch.randn(4, 6)
    replacement = explorer.trace(module, *rows, torch.ones(4)).module()
    hold(module, replacement, [*rows, torch.tensor([0.5, 0.0, -3.0, 1.0])])


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.to(torch.int8).float(),
        lambda w: w.to(torch.uint8).float(),
        lambda w: w.half().float(),
        lambda w: w.bfloat16().float(),
        lambda w: w.double().float(),
        lambda w: w.sum(dtype=torch.float64).float(),
        lambda w: torch.logical_not(w).float(),
        lambda w: torch.logical_and(w, w).float(),
        lambda w: ((w > 0) + (w > 1)).float(),
        lambda w: w - float("inf"),
        lambda w: w.unsqueeze(-1).std(-1),
        lambda w: torch.linalg.vector_norm(w.unsqueeze(-1), ord=0.5, dim=-1),
    ],
)
def test_other_types_and_numbers_are_refused(function) -> None:
    with pytest.raises(explorer.runtime.trace.tapes.tape.TraceError, match=r"\n.*lambda w"):
        explorer.trace(Weighted(function), torch.randn(4, 6), torch.randn(4, 6), torch.randn(4))


@pytest.mark.parametrize("option", ["scale_grad_by_freq", "sparse"])
def test_embeddings_with_gradients_of_their_own_are_refused(option) -> None:
    module = of(scored, entities=torch.nn.Embedding(9, 6, **{option: True}))
    with pytest.raises(ValueError, match=option):
        explorer.trace(module, *CALL)


def test_what_no_id_leads_to_stays_as_it_was() -> None:
    class Reduced(torch.nn.Module):
        def __init__(self, begin, name, included):
            super().__init__()
            self.of = begin, name, included

        def forward(self, x, edges):
            begin, name, included = self.of
            ids = edges[1].unsqueeze(-1).expand(-1, 4)
            return begin(x).scatter_reduce(0, ids, x[edges[0]], name, include_self=included)

    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2], [1, 2, 3, 4, 5, 3, 3, 0]])
    few = edges[:, :2]
    for begin, name, included in (
        (torch.ones_like, "prod", True),
        (torch.ones_like, "prod", False),
        (torch.zeros_like, "sum", False),
        (torch.zeros_like, "amax", False),
        (torch.zeros_like, "mean", False),
    ):
        module = Reduced(begin, name, included)
        hold(module, explorer.trace(module, x, edges).module(), [x, few])
    for begin, name in ((torch.zeros_like, "prod"), (torch.ones_like, "amax"), (lambda x: x * 2, "sum")):
        with pytest.raises(ValueError, match="along ids"):
            explorer.trace(Reduced(begin, name, False), x, edges)


@pytest.mark.parametrize(
    "repeated",
    [
        lambda ids: ids.unsqueeze(-1).repeat(1, 4),
        lambda ids: ids.view(-1, 1).tile(4).long(),
        lambda ids: ids[:, None].expand(-1, 4).contiguous(),
    ],
)
def test_ids_repeated_in_memory_of_their_own_are_the_same_ids(repeated) -> None:
    class Summed(torch.nn.Module):
        def forward(self, x, edges):
            return torch.zeros_like(x).scatter_add(0, repeated(edges[1]), x[edges[0]] * x[edges[1]])

    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2], [1, 2, 3, 4, 5, 3, 3, 0]])
    replacement = explorer.trace(Summed(), x, edges).module()
    hold(Summed(), replacement, [x, edges])
    hold(Summed(), replacement, [x, edges[:, 2:5]])


def test_ids_repeated_along_themselves_are_others() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x, edges):
            later = edges[1].repeat(2)[1 : edges.shape[1] + 1, None].repeat(1, 4)
            return torch.zeros_like(x).scatter_add(0, later, x[edges[0]] * x[edges[1]])

    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2], [1, 2, 3, 4, 5, 3, 3, 0]])
    with pytest.raises(ValueError, match="several sets"):
        explorer.trace(Twice(), x, edges)


def test_tables_of_other_lengths_are_refused() -> None:
    module = of(lambda m, h, r, t: (m.entities(h) * m.more(h)).sum(-1), more=torch.nn.Embedding(30, 6))
    with pytest.raises(ValueError, match=r"numbers differ: entities 9, more 30"):
        explorer.trace(module, *CALL)


def test_truths_of_ids_are_other_ids() -> None:
    module = of(lambda m, h, r, t: (m.entities(h) * m.relations(r) * m.few(r.bool().long())).sum(-1))
    module.few = torch.nn.Embedding(2, 6)
    hold(module, explorer.trace(module, CALL[0], CALL[1] % 2, CALL[2]).module(), CALL)
