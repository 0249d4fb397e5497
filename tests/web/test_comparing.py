"""What the page makes of a compilation: two sides of a comparison, the graph drawn, what each option does."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

import explorer
from explorer.compiler.to_json import with_origins
from explorer.web import settings
from explorer.web.panes import views
from explorer.web.panes.drawing import draw

SLS = """dim D = 8

op SLS(b: bag of row):
    param T[row, D]
    return sum(T[i] for i in b)
"""


def compiled(text: str, **options: Any) -> dict[str, Any]:
    return explorer.compile(text, options=options).to_json()


def shown(stage: str, before: dict[str, Any], after: dict[str, Any]) -> views.Pane:
    (pane,) = views.build_panes(after, [views.PaneState(stage=stage)], before)
    return pane


def test_two_sides_are_told_apart_by_what_differs() -> None:
    sides = compiled(SLS, vlen=4), compiled(SLS, vlen=8)
    pane = shown("slc.opt1", *sides)
    assert pane.sides_are == ("vlen 4", "vlen 8")
    assert pane.sides is not None
    texts = [[line for chunk in side.chunks for line in chunk if line.mark in ("cut", "add")] for side in pane.sides]
    assert len(texts[0]) == len(texts[1]) > 0
    same = shown("slc", *sides)
    assert same.same
    assert same.sides is None


def test_a_pane_at_an_earlier_pass_is_not_compared() -> None:
    sides = compiled(SLS, vlen=4), compiled(SLS, vlen=8)
    (pane,) = views.build_panes(sides[1], [views.PaneState(stage="slc.opt1", at=0)], sides[0])
    assert pane.sides is None


def test_the_levels_past_the_chosen_one_are_aside() -> None:
    rail = views.build_rail(compiled(SLS, opt=1), [], {})
    aside = [stage.short for stage in rail.branches["dae"] if stage.aside]
    assert aside == [".opt2", ".opt3"]


def test_every_value_is_drawn_and_every_operand_is_an_edge(transe: str) -> None:
    made = compiled(transe)
    graph = made["stages"][0]
    drawing = draw(with_origins(graph, graph["lines"]), made["counted"])
    values = [line["text"].split()[0] for line in graph["lines"] if line["text"].lstrip().startswith("%")]
    assert [node["id"] for node in drawing["nodes"] if node["kind"] != "tensor"] == values
    assert sum(node["kind"] == "result" for node in drawing["nodes"]) == 1
    names = {node["id"] for node in drawing["nodes"]}
    assert {name for edge in drawing["edges"] for name in edge} <= names
    for line in graph["lines"]:
        if line["text"].lstrip().startswith("%"):
            name, _, rest = line["text"].partition(" = ")
            read = {word.strip(",") for word in rest.split(" : ")[0].split() if word.startswith("%")}
            assert {a for a, b in drawing["edges"] if b == name.strip() and a.startswith("%")} == read


def test_an_op_is_drawn_too() -> None:
    made = compiled(SLS)
    graph = made["stages"][0]
    drawing = draw(with_origins(graph, graph["lines"]), made["counted"])
    assert ("T", "%1") in drawing["edges"]
    assert {node["hue"] for node in drawing["nodes"]} == {"many", "vertex", "uniq"}


def test_a_graph_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch, transe: str) -> None:
    made = compiled(transe)
    graph = made["stages"][0]
    lines = with_origins(graph, graph["lines"])
    count = len(draw(lines, made["counted"])["nodes"])
    monkeypatch.setattr("explorer.web.panes.drawing.MOST_NODES", count - 1)
    assert draw(lines, made["counted"]) == {"nodes": [], "edges": [], "too_many": count}


def test_each_option_says_what_it_does_here() -> None:
    told = settings.effects(compiled(SLS))
    assert told["compact"] == "nothing to do here"
    assert told["aggregate"] == "nothing to do here"
    assert "store_streams" not in told  # off: what it would do is not known
    assert settings.effects(compiled(SLS, store_streams=True))["store_streams"]


@pytest.mark.parametrize("switch", settings.SWITCHES, ids=lambda switch: switch.name)
def test_every_switch_is_an_option(switch: settings.Switch) -> None:
    assert explorer.compile(SLS, options={switch.name: True}).options.to_json()[switch.name] is True


def test_every_parameter_of_the_machine_is_offered_once() -> None:
    from explorer.machine.parameters import MachineParameters

    offered = [parameter.name for parameter in settings.machine_parameters()]
    assert sorted(offered) == sorted(MachineParameters().values())
    assert [name for name in offered if name in settings.SLIDERS] == offered[: len(settings.SLIDERS)]


def test_reuse_distances_are_a_rising_curve(client: TestClient) -> None:
    found = client.get("/api/locality", params={"data": "RM1:L2"}).json()
    assert found["accesses"] == 8192
    assert found["share"] == sorted(found["share"])
    assert found["within_1000"] > 0.9
    refused = client.get("/api/locality", params={"data": "/etc/passwd"})
    assert refused.status_code == 404
    assert "no data set" in refused.json()["diagnostics"][0]["message"]


def test_each_kind_of_op_has_data(client: TestClient) -> None:
    offered = client.get("/api/data", params={"family": "op"}).json()
    assert {entry["for"] for entry in offered} == {"bag", "matrix", "query"}
    assert views.kind_of_lists(compiled(SLS)) == "bag"


def test_work_in_words() -> None:
    assert views.work_in_words({}) == "none: it only moves data"
    assert views.work_in_words({"edge": 1_000, "node": 8}) == "1,000 FLOP an edge, 8 a node"
    assert views.work_in_words({"batch": 2}) == "2 FLOP a triple"
    assert views.work_in_words({"unit": 2}) == "2 FLOP once"
