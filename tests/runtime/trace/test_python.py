"""What Python makes of a module's inputs and state, which a text does not say, is held to the trace or refused."""

from __future__ import annotations

import numpy as np
import pytest

import explorer

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from explorer.runtime.trace.tapes.recorded import place_of  # noqa: E402
from tests.runtime.trace.held import hold, redraw  # noqa: E402
from tests.runtime.trace.test_refused import CALL, of, scored  # noqa: E402


def test_a_number_taken_out_of_ids_is_held_at_the_call() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) / (int(r.max() > 0) + 1))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"int\(r\.max\(\) > 0\)"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])
    module = of(lambda m, h, r, t: scored(m, h, r, t) / (int(r.clamp(max=1).max()) + 1))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"the number 1 out of ids.*r\.clamp"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])


@pytest.mark.parametrize(
    "largest",
    [
        lambda x: x.max(dim=-1, keepdim=True).values.detach(),
        lambda x: x.amax(-1).unsqueeze(-1).detach(),
        lambda x: x.detach().amax(-1, keepdim=True),
    ],
)
def test_what_a_softmax_takes_off_may_be_detached(largest) -> None:
    def softmax(m, h, r, t):
        x = m.entities(h) * m.relations(r)
        weight = torch.exp(x - largest(x))
        return (weight / weight.sum(-1, keepdim=True) * m.entities(t)).sum(-1)

    module = of(softmax)
    hold(module, explorer.trace(module, *CALL).module(), CALL)


def test_a_detached_largest_number_whose_gradient_counts_is_refused() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) - m.entities(h).amax(-1).detach())
    with pytest.raises(ValueError, match="gradient of entities"):
        explorer.trace(module, *CALL)


def test_a_number_of_ids_that_differs_is_refused() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * (2 if h.sum().item() > 10**6 else 1))
    with pytest.raises(ValueError, match=r"out of ids.*\n.*h\.sum\(\)\.item\(\)"):
        explorer.trace(module, *CALL)


def test_how_many_ids_are_picked_is_held_at_the_call() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) / len((r % 2).unique()))
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match=r"another number.*unique"):
        replacement(CALL[0], CALL[1] * 0, CALL[2])


def test_a_number_that_comes_as_a_tensor_is_held_at_the_call() -> None:
    class Powered(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entities = torch.nn.Embedding(9, 6)

        def forward(self, h, t, k):
            return (self.entities(h) * self.entities(t)).sum(-1) * int(k)

    module = Powered()
    replacement = explorer.trace(module, CALL[0], CALL[2], torch.tensor(3)).module()
    hold(module, replacement, [CALL[0], CALL[2], torch.tensor(3)])
    with pytest.raises(ValueError, match="k is 7, but this was traced with 3"):
        replacement(CALL[0], CALL[2], torch.tensor(7))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_triples_of_any_count_are_triples(rows) -> None:
    class Triples(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.entities, self.relations = torch.nn.Embedding(9, 6), torch.nn.Embedding(9, 6)

        def forward(self, x):
            return (self.entities(x[:, 0]) * self.relations(x[:, 1]) * self.entities(x[:, 2])).sum(-1)

    module = Triples()
    hold(module, explorer.trace(module, torch.stack(CALL, 1)).module(), [torch.stack(CALL, 1)[:rows]])


def test_a_branch_on_a_size_is_refused() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * (2 if len(h) > 100 else 1))
    with pytest.raises(ValueError, match="two examples of other sizes"):
        explorer.trace(module, *CALL)


def test_examples_of_many_rows_take_no_time() -> None:
    from explorer.runtime.trace.tapes.examples import redrawn

    first, second = redrawn({"x": torch.zeros(10**7, 0)}, {499})
    assert first.sizes == (10000019,)
    assert second.sizes == (13333339,)  # far from the first, as are the sets that ids pick of it


def keeping(m, h, r, t):
    if m.kept is None:
        m.kept = h
    return scored(m, h, r, t)


def appending(m, h, r, t):
    m.seen.append(len(h))
    return scored(m, h, r, t)


def adding(m, h, r, t):
    m.plain += 1
    return scored(m, h, r, t)


def replacing(m, h, r, t):
    m.relations.count = m.relations.count + 1
    return scored(m, h, r, t)


@pytest.mark.parametrize("function", [keeping, appending, adding, replacing], ids=lambda function: function.__name__)
def test_what_changes_the_module_is_refused_and_changes_nothing(function) -> None:
    module = of(function, kept=None, seen=[], plain=torch.zeros(1))
    module.relations.register_buffer("count", torch.zeros(1))
    with pytest.raises(ValueError, match=r"forward (changes|makes).*(kept|seen|plain|relations\.count)"):
        explorer.trace(module, *CALL)
    assert module.kept is None
    assert module.seen == []
    assert module.plain.item() == module.relations.count.item() == 0


def test_a_flag_that_forward_sets_is_as_it_stays() -> None:
    def flagged(m, h, r, t):
        factor, m.first = (2.0 if m.first else 3.0), False
        return scored(m, h, r, t) * factor

    def turned(m, h, r, t):
        m.first = not m.first
        return scored(m, h, r, t)

    module = of(flagged, first=False)
    hold(module, explorer.trace(module, *CALL).module(), CALL)
    assert module.first is False
    for function in (turned, lambda m, h, r, t: setattr(m, "first", len(h)) or scored(m, h, r, t)):
        with pytest.raises(ValueError, match="forward changes what the module holds, first"):
            explorer.trace(of(function, first=True), *CALL)


@pytest.mark.parametrize(
    "taken",
    [
        lambda m, h: m.scale.tolist()[0],
        lambda m, h: float(m.scale.numpy()[1]),
        lambda m, h: 2 if max(h.tolist()) > 10 else 1,
        lambda m, h: 2 if np.asarray(h).max() > 10 else 1,
    ],
)
def test_numbers_that_python_takes_out_of_tensors_are_refused(taken) -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * taken(m, h))
    module.register_buffer("scale", torch.tensor([2.0, 3.0]))
    with pytest.raises(
        ValueError, match=r"numbers are taken out of a tensor.*\n.*lambda m, h: .*(tolist|numpy|asarray)"
    ):
        explorer.trace(module, *CALL)


def test_numbers_of_parameters_that_nobody_sees_are_refused() -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * m.scale.untyped_storage()[2])
    module.scale = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="taken out of a parameter"):
        explorer.trace(module, *CALL)
    hidden = [torch.nn.Parameter(torch.ones(1))]
    with pytest.raises(ValueError, match="no parameter, buffer or input"):
        explorer.trace(of(lambda m, h, r, t: scored(m, h, r, t) * hidden[0]), *CALL)


def test_ids_are_made_again_on_the_device_of_the_inputs() -> None:
    class Looped(torch.nn.Module):
        def forward(self, x, edges):
            loops = torch.arange(len(x), device=x.device) * torch.tensor([1])
            ends = torch.cat([edges, loops.expand(2, -1)], 1)
            return torch.zeros_like(x).index_add(0, ends[1], x[ends[0]])

    inputs = {"x": torch.randn(6, 4), "edges": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])}
    traced = explorer.trace(Looped(), *inputs.values())
    hold(Looped(), traced.module(), inputs.values())
    found = traced._binding.ids.of({place_of(name): each.to("meta") for name, each in inputs.items()})
    assert {each.device.type for each in found.values()} == {"meta"}


def test_the_mode_of_each_module_within_is_held_at_the_call() -> None:
    module = of(lambda m, h, r, t: m.bn(m.entities(h) * m.relations(r)).sum(-1), bn=torch.nn.BatchNorm1d(6))
    module.bn.eval()
    replacement = explorer.trace(module, *CALL).module()
    hold(module, replacement, CALL)
    with pytest.raises(ValueError, match="not traced in training"):
        replacement.train()(*CALL)
    hold(module.eval(), replacement.eval(), CALL)


@pytest.mark.parametrize("count", [lambda h: (h > 5).nonzero().numel(), lambda h: len(h[h > 3])])
def test_a_branch_on_how_many_ids_are_picked_is_refused(count) -> None:
    module = of(lambda m, h, r, t: scored(m, h, r, t) * (2 if count(h) else 1))
    with pytest.raises(ValueError, match=r"how many ids are picked.*\n.*lambda h: "):
        explorer.trace(module, *CALL)


class SameNames(torch.nn.Module):
    """Parameters and arguments that are called alike."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 4))
        self.e = torch.nn.Parameter(torch.randn(4))

    def forward(self, x, w, e):
        rows = x[e[0]] @ self.w * w[e[0]] + self.e
        return torch.zeros_like(x).index_add(0, e[1], rows) + w


def test_an_argument_may_be_called_as_a_parameter_is() -> None:
    torch.manual_seed(0)
    module = SameNames()
    found = explorer.trace(module, torch.randn(7, 4), torch.randn(7, 4), torch.randint(7, (2, 13)))
    redraw(module, 3)
    hold(module, found.module(), (torch.randn(23, 4), torch.randn(23, 4), torch.randint(23, (2, 61))))


class Named(torch.nn.Module):
    """Its ids are called as the language calls the sets that every score has."""

    def __init__(self) -> None:
        super().__init__()
        self.entities, self.relations = torch.nn.Embedding(20, 4), torch.nn.Embedding(7, 4)

    def forward(self, batch, negative, unit):
        return (self.entities(batch) * self.relations(negative) * self.entities(unit)).sum(-1)


def test_ids_called_as_a_set_that_every_score_has_get_another_name() -> None:
    module = Named()
    traced = explorer.trace(module, *CALL)
    assert "score Named(batch_: entity, negative_: relation, unit_: entity):" in traced.text
    hold(module, traced.module(), CALL)
