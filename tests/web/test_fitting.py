"""What is compiled is what runs: for data that fixes sizes, for every family, and where they would differ."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.checkout import CHECKOUT
from explorer.compiler.pipeline import STAGES
from explorer.web.compiling import CompileService, Flight

STAGE_OF = {target: spec.name for spec in STAGES for target in spec.targets}
ATTENTION = """dim B = 2, D = 16
op Blocks(q: blocks of block):
    input x[query, D]
    param K[block, B, D]
    return sum(sum(K[j] @ x[q]) for j in q)
"""
HALVES = """dim D = 128
op Halves(b: bag of row):
    param T[row, D]
    return sum(reshape(T[i], 2, 64) for i in b)
"""


def text_of(name: str) -> str:
    return (CHECKOUT / f"examples/{name}.emb").read_text()


def compiled(client: TestClient, text: str, on: str = "cpu", **asked: Any) -> dict[str, Any]:
    """A compilation's answer, and `shown`, what a run request carries of it."""
    answer: dict[str, Any] = client.post("/api/compile", json={"text": text, "stages": [STAGE_OF[on]], **asked}).json()
    assert answer["ok"], answer
    (stage,) = answer["stages"]
    shown = {"program": stage["digest"], "sizes": answer["sizes"], "options": answer["options"]}
    return {**answer, "shown": shown}


def run(client: TestClient, text: str, on: str = "cpu", **asked: Any) -> tuple[int, dict[str, Any]]:
    response = client.post("/api/run", json={"text": text, "on": on, "repeat": 1, "batch": 2, **asked})
    return response.status_code, response.json()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "data", "sizes"),
    [
        (text_of("embedding/sls"), "RM1:L0", {"D": 32}),
        (text_of("embedding/sls"), "RM3:L2", {"D": 128}),
        (text_of("embedding/spmm"), "products/5000", {"D": 100}),
        (text_of("embedding/spmm"), "tiny", {"D": 128}),
        (ATTENTION, "BigBird:8", {"B": 8, "D": 512}),
        (HALVES, "RM1:L0", {"D": 128}),
        (text_of("rgnn/rgcn"), "tiny", {"F": 64, "G": 64}),
        (text_of("kge/transe_l1"), "tiny.tsv", {"D": 64}),
    ],
    ids=["sls", "alike", "spmm", "tiny", "blocks", "misfit", "layer", "score"],
)
def test_what_is_compiled_for_data_runs_on_it(client: TestClient, text: str, data: str, sizes: dict[str, int]) -> None:
    answer = compiled(client, text, data=data)
    assert answer["sizes"] == sizes
    status, ran = run(client, text, data=data, compiled=answer["shown"])
    assert (status, ran.get("message")) == (200, "")
    assert (ran["sizes"], ran["sizes_from"]) == (answer["sizes"], answer["sizes_from"])


@pytest.mark.parametrize(
    ("text", "wanted", "data"),
    [
        (text_of("rgnn/rgcn"), "tiny", "tiny"),
        (text_of("rgnn/rgcn"), "RM1:L0", "small"),
        (text_of("rgnn/rgcn"), "", "small"),
        (text_of("rgnn/rgcn"), "/etc/passwd", "small"),
        (text_of("embedding/sls"), "RM3:L2", "RM3:L2"),
        (text_of("embedding/sls"), "BigBird:8", "RM1:L0"),
        (ATTENTION, "RM1:L0", "BigBird:8"),
        (text_of("embedding/spmm"), "tiny", "tiny"),
        (text_of("embedding/spmm"), "RM1:L0", "com-Youtube/500"),
        (text_of("kge/transe_l1"), "RM1:L0", ""),
        (text_of("rgnn/rgcn").replace("sum(", "summ("), "tiny", ""),
    ],
)
def test_a_page_gets_an_edit_for_data_that_fits_it_of_one_compilation(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, text: str, wanted: str, data: str
) -> None:
    asked: list[Mapping[str, Any]] = []
    ask = CompileService._ask

    def counted(self: CompileService, flight: Flight) -> Any:
        asked.append(flight.request.to_json())
        return ask(self, flight)

    monkeypatch.setattr(CompileService, "_ask", counted)
    form = {"text": f"{text}\n# for {wanted}\n", "edit": "2", "data": wanted, "panes": '[{"stage": "cuda"}]'}
    answer = client.post("/compile", data=form)
    assert answer.status_code == 200
    found = re.search(r'"data": "([^"]*)"', html.unescape(answer.text))
    assert (found[1] if found else "") == data
    assert len(asked) == 1


def test_sizes_of_data_stand_between_those_that_are_given_and_the_usual(client: TestClient) -> None:
    text = text_of("embedding/spmm")
    usual = {"default_sizes": {"D": 24}}
    for data, sizes, want in (
        ("products/5000", {}, ({"D": 100}, {"D": "products/5000"})),
        ("products/5000", {"D": 5}, ({"D": 5}, {"D": "given"})),
        ("tiny", {}, ({"D": 24}, {"D": "given"})),
    ):
        answer = compiled(client, text, data=data, sizes=sizes, **usual)
        assert (answer["sizes"], answer["sizes_from"]) == want
        status, ran = run(client, text, data=data, sizes=sizes, compiled=answer["shown"], **usual)
        assert (status, ran["sizes"], ran["sizes_from"]) == (200, *want)


def test_sizes_that_do_not_fit_a_text_are_left_and_it_is_said(client: TestClient) -> None:
    answer = compiled(client, HALVES, data="RM1:L0")
    assert answer["sizes_from"] == {"D": "the text, for D = 32 of RM1:L0 does not fit it"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", ["cpu", "dae"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": "RM2:L0"}, "D is 64, not 32"),
        ({"sizes": {"D": 8}}, "D is 8, not 32"),
        ({"options": {"grad": True, "opt": 1}}, "grad is true, not false, opt is 1, not 3"),
        ({"text": text_of("embedding/sls_mean")}, "its text or the data that it is compiled for"),
    ],
    ids=["data", "sizes", "options", "text"],
)
def test_another_program_than_what_was_compiled_is_refused(
    client: TestClient, on: str, changed: dict[str, Any], said: str
) -> None:
    asked = {"text": text_of("embedding/sls"), "on": on, "data": "RM1:L0"}
    shown = compiled(client, **asked)["shown"]  # type: ignore[arg-type]
    status, answer = run(client, **{**asked, **changed}, compiled=shown)  # type: ignore[arg-type]
    assert status == 422
    assert answer["kind"] == "refused"
    assert answer["message"] == f"What would run is not the program that was compiled: {said}."
    status, _ = run(client, **{**asked, **changed})  # type: ignore[arg-type]
    assert status == 200  # where nothing was shown, nothing is held against it


def test_the_page_compiles_an_op_for_the_data_that_it_offers_first(client: TestClient) -> None:
    for example, data in (("embedding/sls", "RM1:L0"), ("embedding/spmm", "com-Youtube/500"), ("rgnn/rgcn", "small")):
        found = re.search(r'data-facts="([^"]*)"', client.get("/", params={"example": example}).text)
        assert found
        facts = json.loads(found[1].replace("&#34;", '"').replace("&amp;", "&"))
        assert facts["data"] == data
        assert set(facts["programs"]) == {"cpu", "dae", "gpu"}
        assert all(facts["programs"].values())


@pytest.mark.parametrize(("name", "data"), [("embedding/sls", "RM1:L0"), ("rgnn/rgcn", "aifb"), ("kge/transe_l1", "")])
def test_a_schedule_that_is_none_is_said_also_where_there_is_data(client: TestClient, name: str, data: str) -> None:
    """A request of `sweep/hostile.py` found that an op was fitted to its data all the same, and that failed."""
    asked = {"text": text_of(name), "data": data, "stages": ["graph"], "schedule": {".": 4}}
    answer = client.post("/api/compile", json=asked).json()
    assert not answer["ok"]
    assert "values by KERNEL.DECISION" in answer["diagnostics"][0]["message"]
