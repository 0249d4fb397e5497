"""Which stages an edit has made: those that its panes show, and those that others are made of."""

from __future__ import annotations

import json
import re

import pytest
from fastapi.testclient import TestClient

from explorer.compiler.pipeline import STAGES
from explorer.web.examples import examples
from explorer.web.guide.tour import key_of

TEXTS = {key_of(example): example.text for example in examples()}
LEFT = {spec.name for spec in STAGES if spec.when_shown or spec.on_demand}
USUAL = ("graph", "loops", "slc", "cuda")


def counts(client: TestClient, *stages: str, path: str = "/compile", **more: str) -> dict[str, str]:
    """The rail's count of each stage for an edit, "" where it has none; `data-late` behind those made when shown."""
    panes = json.dumps([{"stage": stage} for stage in stages])
    sent = {"text": TEXTS["kge/transr"], "edit": "3", "good": "3", "panes": panes} | more
    html = client.post(path, data=sent).text
    found = re.findall(r'data-open="([\w.]+)".*?data-total="(\d*)"( data-late)?', html, re.DOTALL)
    return {name: total + late for name, total, late in found}


def waiting(found: dict[str, str]) -> set[str]:
    assert all(count == " data-late" or count.isdigit() for count in found.values())
    return {name for name, count in found.items() if not count.isdigit()}


def test_stages_that_no_pane_shows_wait_for_one(client: TestClient) -> None:
    assert waiting(counts(client, *USUAL)) == LEFT
    assert waiting(counts(client, *USUAL, "slc.opt2")) == LEFT - {"slc.opt2"}
    assert waiting(counts(client, *USUAL, "dlc", path="/panes")) == LEFT - {"dlc"}


def test_what_a_pane_is_compared_with_is_made(client: TestClient) -> None:
    beside = {"stage": "slc", "diff": True, "versus": {"stage": "slc.opt3", "at": 0}}
    found = counts(client, panes=json.dumps([beside]))
    assert waiting(found) == LEFT - {"slc.opt3"}


def test_the_program_that_the_reader_runs_is_made_though_no_pane_shows_it(client: TestClient) -> None:
    sent = {"text": TEXTS["kge/transr"], "edit": "3", "panes": json.dumps([{"stage": "graph"}])}
    for on, known in (("", {"cpu", "gpu"}), ("dae", {"cpu", "gpu", "dae"})):
        html = client.post("/compile", data={**sent, "on": on}).text
        (facts,) = re.findall(r"data-facts='([^']*)'|data-facts=\"([^\"]*)\"", html)
        programs = re.search(r"programs\W+\{(.*?)\}", "".join(facts).replace("&#34;", '"').replace("&quot;", '"'))
        assert programs
        assert set(re.findall(r'"(\w+)": "\w{16}"', programs[1])) == known


def test_the_page_opens_with_the_counts_of_all(client: TestClient) -> None:
    html = client.get("/?example=kge/transr").text
    made = {name for name, total in re.findall(r'data-open="([\w.]+)".*?data-total="(\d*)"', html, re.DOTALL) if total}
    assert made == {spec.name for spec in STAGES if not spec.on_demand}


@pytest.mark.parametrize("stage", ["slc.opt1", "dlc"])
def test_a_stage_is_the_same_whenever_it_is_made(client: TestClient, stage: str) -> None:
    whole = client.post("/api/compile", json={"text": TEXTS["kge/transr"]}).json()["stages"]
    (made,) = (each for each in whole if each["name"] == stage)
    assert counts(client, *USUAL, stage)[stage] == str(len(made["lines"]))
