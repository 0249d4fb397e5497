"""`POST /story`: the story of one operation of an edit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

import explorer
from explorer.web.panes import views


def ask(client: TestClient, text: str, operation: int, **fields: Any) -> str:
    form = {"text": text, "edit": "3", "good": "3", "operation": str(operation), **fields}
    answer = client.post("/story", data=form)
    assert answer.status_code == 200
    return answer.text


def scenes(html: str) -> list[str]:
    return re.findall(r'data-scene="([^"]+)"', html)


def test_a_story_goes_from_the_text_to_both_targets(client: TestClient, transe: str) -> None:
    html = ask(client, transe, 0)
    assert scenes(html) == [
        "graph",
        "loops",
        "kernels",
        "cuda",
        "ptx",
        "sass",
        "slc",
        *(f"slc.opt{n}" for n in (1, 2, 3)),
        "dlc",
    ]
    assert 'data-act="story-machine-code"' in html
    assert "cuKE §V-B" in html
    assert "<script" not in html
    assert " style=" not in html


def test_an_operation_that_is_not_there_has_no_story(client: TestClient, transe: str) -> None:
    assert "no such operation" in ask(client, transe, 40)
    assert "No story to tell" in ask(client, "score (", 0)
    assert client.post("/story", data={"text": transe, "edit": "1", "operation": "-1"}).status_code == 422


def test_a_text_is_escaped(client: TestClient, transe: str) -> None:
    html = ask(client, transe.replace("    return", "    # <b>&\n    return").replace(", 1)", ", 1)  # <i>"), 0)
    assert "<i>" not in html
    assert "&lt;i&gt;" in html


def test_two_sides_are_told_beside_each_other(client: TestClient, transe: str) -> None:
    against = json.dumps({"sizes": {}, "options": {"vlen": 4}})
    html = ask(client, transe, 0, options=json.dumps({"vlen": 8}), against=against)
    assert "data-compared" in html
    (opt1,) = re.findall(r'data-scene="slc.opt1".*?</section>', html, re.DOTALL)
    assert opt1.count('class="side"') == 2
    (graph,) = re.findall(r'data-scene="graph".*?</section>', html, re.DOTALL)
    assert graph.count('class="side"') == 1
    assert "A and B alike" in graph


def test_machine_code_is_told_where_it_is_asked_for(client: TestClient, transe: str) -> None:
    html = ask(client, transe, 0, machine_code="true")
    (sass,) = re.findall(r'data-scene="sass".*?</section>', html, re.DOTALL)
    assert "float arithmetic" in sass
    assert "story-machine-code" not in html


def test_refusals_in_the_list_of_passes_lead_to_their_operation(root: Path) -> None:
    compiled = explorer.compile((root / "examples" / "rgnn" / "rgat.emb").read_text()).to_json()
    (pane,) = views.build_panes(compiled, [views.PaneState(stage="graph", passes=True)])
    rows = {row.name: row.refused_of for row in pane.passes}
    labels = {operation["id"]: operation["label"] for operation in compiled["operations"]}
    assert rows["reorder"] == ((7, "dot"),) == ((7, labels[7]),)
    assert rows["compact"] == ()


def test_each_refusal_leads_to_the_operation_that_it_is_of(root: Path) -> None:
    """Those that name a value, and those of strategies, which name a kernel."""
    of_rgat = explorer.compile((root / "examples" / "rgnn" / "rgat.emb").read_text()).to_json()
    (pane,) = views.build_panes(of_rgat, [views.PaneState(stage="graph", passes=True)])
    (reorder,) = [row for row in pane.passes if row.name == "reorder"]
    assert reorder.refusals
    assert {operation for _, operation in reorder.refusals} == {7}
    of_sls = explorer.compile((root / "examples" / "embedding" / "sls.emb").read_text()).to_json()
    (pane,) = views.build_panes(of_sls, [views.PaneState(stage="kernels", passes=True)])
    refused = [(text, operation) for row in pane.passes for text, operation in row.refusals]
    numbers = {operation["id"] for operation in of_sls["operations"]}
    assert any(text.startswith("SLS_0 is not split") for text, _ in refused)
    assert all(operation in numbers for _, operation in refused)
