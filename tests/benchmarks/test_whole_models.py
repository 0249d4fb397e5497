"""Ember's Figure 8: parts of whole models, each held against float64, and what is said of them together."""

from __future__ import annotations

import pytest

from benchmarks import dae
from benchmarks.paper import whole_models as figure
from benchmarks.paper.whole_models import Simulated


def test_a_recommendation_models_lookups_are_those_of_the_suite_and_its_networks_right() -> None:
    model = figure.recommendation("RM1")
    bags, networks = (figure.simulate(part, model) for part in model.parts)
    suite = dae.set_up(dae.Case("SLS", "sls", "RM1:L0"))
    assert bags.right
    assert networks.right
    assert bags.decoupled == suite.account({"opt": 3})["cycles"]
    assert networks.decoupled == networks.alone


def test_the_second_layer_of_a_graph_network_takes_what_the_first_makes() -> None:
    sizes = [dict(part.sizes) for part in figure.graph_network(128, 256, 40).parts]
    assert sizes == [{"D": 128}, {"F": 128, "G": 256}, {"D": 256}, {"F": 256, "G": 40}]


@pytest.mark.parametrize("right", [True, False])
def test_shares_are_of_all_parts_and_a_wrong_result_is_said(right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {True: Simulated(30_000, 10_000, True), False: Simulated(70_000, 70_000, right)}
    monkeypatch.setattr(figure, "simulate", lambda part, model: found[part.looks_up])
    table = figure.figure_8((figure.recommendation("RM2"), figure.graph_network(8, 4, 2)))
    assert table.right is right
    assert [tuple(row.ours[name] for name in figure.COLUMNS) for row in table.rows] == [
        (30, 70, 10, 30, 12.5, 1.25),
        (60, 140, 20, 30, 12.5, 1.25),
    ]
