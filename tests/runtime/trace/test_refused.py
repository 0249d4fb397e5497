"""What the language has no words for is refused with the operator, the user's line and what to do."""

from __future__ import annotations

import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from tests.runtime.trace.score_modules import Embedded  # noqa: E402


def of(function, **parts):
    """A module whose forward is a function of itself, h, r and t."""

    class Module(Embedded):
        def forward(self, h, r, t):
            return function(self, h, r, t)

    module = Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


BATCH = torch.tensor([[0, 1, 2], [3, 0, 8], [5, 3, 1], [7, 2, 4]])
CALL = (BATCH[:, 0], BATCH[:, 1], BATCH[:, 2])


def scored(m, h, r, t):
    return (m.entities(h) * m.relations(r) * m.entities(t)).sum(-1)


def branching(m, h, r, t):
    if m.entities(h).sum() > 0:
        return scored(m, h, r, t)
    return -scored(m, h, r, t)


def counting(m, h, r, t):
    return scored(m, h, r, t) * float(m.entities(h).mean().item())


def centred(m, h, r, t):
    scores = scored(m, h, r, t)
    return scores - scores.mean()


def sized(m, h, r, t):
    return scored(m, h, r, t) / len(h)


def sorting(m, h, r, t):
    return m.entities(h).sort(dim=-1).values.sum(-1)


def nearest(m, h, r, t):
    rows = m.entities.weight
    return m.relations(r).sum(-1) + torch.cdist(rows, rows).topk(3).values.sum(-1)[h]


def without_gradients(m, h, r, t):
    with torch.no_grad():
        weight = m.relations(r) * 2
    return (m.entities(h) * weight * m.entities(t)).sum(-1)


def keeping_back(m, h, r, t):
    return (m.entities(h).detach() * m.relations(r) * m.entities(t)).sum(-1)


def changing(m, h, r, t):
    with torch.no_grad():
        m.entities.weight.mul_(0.5)
    return scored(m, h, r, t)


def pairs(m, h, r, t):
    return (m.entities(h) @ m.entities(t).T).diagonal()


def one_to_all(m, h, r, t):
    return (m.entities(h) * m.relations(r)) @ m.entities.weight.exp().T


def noisy(m, h, r, t):
    return scored(m, h, r, t) + torch.rand(h.shape)


def and_their_number(m, h, r, t):
    return scored(m, h, r, t), len(h)


def nothing(m, h, r, t):
    return [len(m.entities(h))]


def and_the_same_for_all(m, h, r, t):
    return scored(m, h, r, t), m.entities.weight.mean()


def averaged(m, h, r, t):
    return scored(m, h, r, t).mean()


def and_ids(m, h, r, t):
    return scored(m, h, r, t), h


def normed(m, h, r, t):
    return m.bn(m.entities(h) * m.relations(r)).sum(-1)


REFUSED = {
    branching: ("is_nonzero|_local_scalar_dense", "torch.where", "if m.entities(h).sum() > 0:"),
    counting: ("_local_scalar_dense", "torch.where", "float(m.entities(h).mean().item())"),
    centred: ("mean", "mixes", "return scores - scores.mean()"),
    sized: ("", "two examples of other sizes", "/ 499"),
    sorting: ("aten.sort", "find the ids outside", "m.entities(h).sort"),
    nearest: ("aten.topk", "hand them in as edges", "torch.cdist(rows, rows).topk(3)"),
    without_gradients: ("aten.embedding", "no_grad", "weight = m.relations(r) * 2"),
    keeping_back: ("", "gradient", "entities"),
    changing: ("entities.weight", "outside of forward", "m.entities.weight.mul_(0.5)"),
    pairs: ("mm", "every element of the batch", "m.entities(t).T"),
    one_to_all: ("mm", "Multiply with the parameter itself", "m.entities.weight.exp().T"),
    noisy: ("rand", "drawn at random", "torch.rand(h.shape)"),
    averaged: ("mean", "Leave it to the loss", "return scored(m, h, r, t).mean()"),
    and_their_number: ("", "two examples of other sizes", "tensors alone"),
    nothing: ("", "list without a tensor", ""),
    and_the_same_for_all: ("", "the same for all rows", ""),
    and_ids: ("the result.1", "32-bit floats", ""),
    normed: ("running_mean|num_batches_tracked", "changed in place", "m.bn(m.entities(h)"),
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_it_says_which_operator_where_and_what_to_do(function) -> None:
    module = of(function, bn=torch.nn.BatchNorm1d(6))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(ValueError, match=r"\w") as caught:
        explorer.trace(module, *CALL)
    operator, advice, line = REFUSED[function]
    said = str(caught.value)
    for part in (operator, advice):
        assert any(each in said for each in part.split("|")), said
    assert line in said
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(tensor, before[name])


def test_dropout_in_training_is_refused() -> None:
    module = of(lambda m, h, r, t: m.drop(scored(m, h, r, t)), drop=torch.nn.Dropout(0.5))
    with pytest.raises(ValueError, match=r"module\.eval"):
        explorer.trace(module, *CALL)
    assert explorer.trace(module.eval(), *CALL).compilation.ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_floats_are_refused(dtype) -> None:
    with pytest.raises(ValueError, match="32-bit floats"):
        explorer.trace(of(scored).to(dtype), *CALL)


def test_ids_that_no_row_has_are_refused_at_the_call() -> None:
    replacement = explorer.trace(of(scored), *CALL).module()
    with pytest.raises(ValueError, match="9 rows"):
        replacement(torch.tensor([9]), torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(ValueError, match="traced with the tensors"):
        replacement(torch.tensor([1]), torch.tensor([0]), 3)
    with pytest.raises(ValueError, match=r"h is \[any, 4\] of whole numbers, but this was traced with \[any\]"):
        replacement(torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, dtype=torch.int64), CALL[2][:3])
    with pytest.raises(ValueError, match="r has the shape"):  # which eager would repeat
        replacement(CALL[0], CALL[1][:1], CALL[2])


def test_what_a_module_raises_on_other_sizes_is_said() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) + torch.zeros(4))
    with pytest.raises(ValueError, match=r"raises RuntimeError on inputs like the example's.*h \[11\]"):
        explorer.trace(module, *CALL)


@pytest.mark.parametrize(
    "function", [lambda x: x.flip(0), lambda x: x.roll(1, 0), lambda x: x[0], lambda x: x.softmax(0)]
)
def test_rows_that_meet_others_of_the_batch_are_refused(function) -> None:
    module = of(lambda m, h, r, t: (function(m.entities(h)) * m.entities(t)).sum(-1))
    with pytest.raises(ValueError, match=r"rows of the batch or graph"):
        explorer.trace(module, *CALL)


def test_calls_that_no_module_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no torch\.nn\.Module"):
        explorer.trace(lambda h: h, CALL[0])
    with pytest.raises(ValueError, match="missing a required argument: 'r'"):
        explorer.trace(of(scored), CALL[0])


def small(module):
    """A module with parameters so small that its gradients are."""
    with torch.no_grad():
        for each in module.parameters():
            each.mul_(0.005)
    return module


def chosen(m, h, r, t):
    return torch.where(scored(m, h, r, t) > 1e3, m.entities(t).detach().sum(-1), m.entities(t).sum(-1))


@pytest.mark.parametrize("function", [keeping_back, chosen])
def test_what_is_detached_is_refused_where_it_is_read(function) -> None:
    with pytest.raises(ValueError, match=r"is detached.*\n.*\.detach\(\)"):
        explorer.trace(small(of(function)), *CALL)


class Halved(torch.autograd.Function):
    """Has half the gradient that it would have."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 2


def test_a_small_gradient_that_differs_is_refused() -> None:
    module = of(lambda m, h, r, t: (Halved.apply(m.entities(h)) * m.relations(r)).sum(-1))
    with pytest.raises(ValueError, match="gradient"):
        explorer.trace(small(module), *CALL)


def test_results_without_a_gradient_are_refused() -> None:
    with pytest.raises(ValueError, match="has no gradient"):
        explorer.trace(of(lambda m, h, r, t: scored(m, h, r, t).detach()), *CALL)
    with pytest.raises(ValueError, match=r"returns torch\.bool"):
        explorer.trace(of(lambda m, h, r, t: scored(m, h, r, t) > 0), *CALL)


def test_what_eager_cannot_differentiate_is_refused() -> None:
    def clamping(m, h, r, t):
        ids = h.clone()
        first = m.entities(ids)
        ids.clamp_(max=3)
        return (first * m.entities(ids) * m.relations(r)).sum(-1)

    with pytest.raises(ValueError, match="has no gradients on the example: one of the variables"):
        explorer.trace(of(clamping), *CALL)


def a_number_that_ids_change(m, h, r, t):
    most = torch.tensor(0)
    most += h.max()
    return scored(m, h, r, t) * most


def the_size_of_the_batch(m, h, r, t):
    return scored(m, h, r, t) / torch.as_tensor([h.shape[0]]).squeeze()


def a_convolution_with_steps(m, h, r, t):
    return torch.nn.functional.conv1d(m.entities(h)[:, None], torch.ones(1, 1, 2), stride=2).sum((1, 2))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (a_number_that_ids_change, "numbers outside of PyTorch"),
        (the_size_of_the_batch, "make two texts"),
        (a_convolution_with_steps, "a convolution has steps"),
    ],
)
def test_whole_numbers_of_ids_and_wide_convolutions_are_refused(function, why) -> None:
    with pytest.raises(ValueError, match=why):
        explorer.trace(of(function), *CALL)


def test_parameters_of_complex_numbers_are_refused() -> None:
    class Complex(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entities = torch.nn.Parameter(torch.randn(9, 4, dtype=torch.complex64))

        def forward(self, h, t):
            return (self.entities[h] * self.entities[t].conj()).real.sum(-1)

    with pytest.raises(ValueError, match="view_as_complex"):
        explorer.trace(Complex(), *CALL[::2])


def test_a_branch_on_a_size_that_the_example_alone_takes_is_told_as_one() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * (2 if len(h) > 8 else 1))
    with pytest.raises(ValueError, match="branch on how many rows there are"):
        explorer.trace(module, *(ids[:5] for ids in CALL))
