"""Gradients that nobody asks for are not computed: of features, of tables that are not trained, of all but a bias."""

from __future__ import annotations

import copy
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.runtime.torch import backward

torch = pytest.importorskip("torch", reason="the modules are PyTorch's, which this machine does without")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ENTITIES, RELATIONS, BATCH = 7, 3, 12


def score() -> tuple[Any, list[Any]]:
    text = (EXAMPLES / "kge" / "transr.emb").read_text()
    made = explorer.compile(text, sizes={"D": 5, "K": 4}, on_demand=True).torch(entity=ENTITIES, relation=RELATIONS)
    draw = torch.Generator().manual_seed(1)
    return made, [torch.randint(rows, (BATCH,), generator=draw) for rows in (ENTITIES, RELATIONS, ENTITIES)]


def wanted_of(made: Any) -> list[set[str]]:
    """Of each program with a backward pass, the tensors that it has gradients of."""
    return [{name for name, _ in program.graph.gradients} for program in made._backward]


def gradients_of(made: Any, given: Any) -> dict[str, Any]:
    made.zero_grad()
    made(*given).square().sum().backward()
    return {name: each.grad for name, each in made.named_parameters()}


NAMES = ("E", "R", "P")


@pytest.mark.parametrize("asked", [each for count in (1, 2) for each in combinations(NAMES, count)], ids="".join)
def test_some_gradients_are_those_of_all(asked: tuple[str, ...]) -> None:
    made, given = score()
    every = {name: each.clone() for name, each in gradients_of(made, given).items()}
    for name, each in made.named_parameters():
        each.requires_grad_(name in asked)
    found = gradients_of(made, given)
    assert wanted_of(made) == [set(NAMES), set(asked)]
    assert {name for name, each in found.items() if each is not None} == set(asked)
    for name in asked:
        torch.testing.assert_close(found[name], every[name], rtol=1e-5, atol=1e-6)
    for each in made.parameters():
        each.requires_grad_()
    for name, each in gradients_of(made, given).items():
        torch.testing.assert_close(each, every[name], rtol=1e-5, atol=1e-6)


def test_traced_features_are_frozen_where_they_need_no_gradient() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(4, 3)

        def forward(self, x: Any, edge_index: Any) -> Any:
            sums = torch.zeros(len(x), 3).index_add(0, edge_index[1], self.lin(x)[edge_index[0]])
            return sums.relu()

    edges = torch.randint(0, 6, (2, 20), generator=torch.Generator().manual_seed(3))
    layer, x = Layer(), torch.randn(6, 4)
    own = copy.deepcopy(layer)
    traced = explorer.trace(layer, x, edges).module()
    compiled, _ = traced._held
    compiled._backward._programs.clear()  # those that the trace was checked by
    for features in (x, x.clone().requires_grad_()):
        for each in (own, traced):
            each.zero_grad()
            features.grad = None
            each(features, edges).square().sum().backward()
            if each is own:
                want = [*(parameter.grad.clone() for parameter in own.parameters()), features.grad]
        for got, expected in zip([*(p.grad for p in traced.parameters()), features.grad], want, strict=True):
            assert (got is None) == (expected is None)
            if got is not None:
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    without, everything = wanted_of(compiled)
    assert everything - without == {"x"}


def test_for_more_sets_than_are_kept_all_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward, "MOST_PROGRAMS", 2)
    made, given = score()
    for asked in (("E",), ("R",), ("P",), ("R", "P")):
        for name, each in made.named_parameters():
            each.requires_grad_(name in asked)
        found = gradients_of(made, given)
        assert {name for name, each in found.items() if each is not None} == set(asked)
    assert wanted_of(made) == [{"E"}, {"R"}, set(NAMES)]


def test_options_changed_later_leave_them_out_too() -> None:
    compiled = explorer.compile((EXAMPLES / "kge" / "distmult.emb").read_text(), on_demand=True)
    changed = compiled.with_options(grad=True).with_frozen(frozenset({"R"})).with_options(arch="sm_80")
    graph: Any = changed.stages["graph"].program
    assert [name for name, _ in graph.gradients] == ["E"]
    assert changed.with_frozen(changed.frozen) is changed
