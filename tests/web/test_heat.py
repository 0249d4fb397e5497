"""`POST /heat`: what each operation is predicted to take, by its number, asked for apart from every edit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import explorer
from explorer.compiler.heat.heat import heat_json
from explorer.web.heat.view import UNKNOWN, shown
from explorer.web.panes.amounts import time


def ask(client: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    answer = client.post("/heat", data={"text": text, "edit": "3", "good": "3", **fields})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("name", "options", "data"),
    [
        ("kge/transr", {}, ""),
        ("rgnn/rgat", {"grad": True}, "small"),
        ("embedding/sls", {"opt": 3}, "RM1:L0"),
        ("embedding/sls", {"grad": True}, "RM1:L0"),
    ],
)
def test_every_operation_has_its_figures(
    client: TestClient, root: Path, name: str, options: dict[str, Any], data: str
) -> None:
    text = (root / "examples" / f"{name}.emb").read_text()
    found = ask(client, text, options=json.dumps(options), data=data)
    body = {"text": text, "options": options, "stages": ["graph"], "data": data}
    compiled = client.post("/api/compile", json=body).json()
    assert found["operations"].keys() == {str(operation["id"]) for operation in compiled["operations"]}
    assert 0.9 < sum(figure["share"] for figure in found["operations"].values()) <= 1.000001
    for figure in found["operations"].values():
        assert figure["words"].startswith("predicted: ")
        assert figure["short"] == "0" or re.fullmatch(r"[\d.]+ (s|ms|µs|ns|ps)", figure["short"])
        assert figure["short"] in figure["words"] or figure["short"] == "0"
    assert re.match(r"predicted for .* by published figures of sm_\w+: [\d,.]+ GB/s", found["basis"])


def test_the_same_is_not_computed_twice(client: TestClient, transe: str) -> None:
    first = ask(client, transe)
    hits = client.app.state.compiler.hits  # type: ignore[attr-defined]
    panes = json.dumps([{"stage": "loops", "diff": True}])
    assert ask(client, transe, panes=panes, edit="9") == first  # whatever the panes show
    assert client.app.state.compiler.hits == hits + 1  # type: ignore[attr-defined]


def test_what_has_no_data_has_no_figures(client: TestClient, root: Path) -> None:
    # How many rows of the tables a triple's gradients are for depends on the data of a run, which a score is not for.
    found = ask(client, (root / "examples" / "kge" / "transr.emb").read_text(), options=json.dumps({"grad": True}))
    assert found == {"reason": UNKNOWN}


def test_a_small_share_is_not_said_to_be_none() -> None:
    cost = {"flop": 1, "bytes": 4, "seconds": 1e-12, "limit": "memory"}
    costs = {"0": {**cost, "share": 0.0004}, "1": {**cost, "share": 0.05}, "2": {**cost, "share": 0.9496}}
    predicted = {"seconds": 1e-9, "operations": costs, "rest": {**cost, "share": 0.0}}
    told = shown({"counted": "one triple", "device": "sm_90", "predicted": predicted, "measured": None})["operations"]
    ends = [figure["words"].rpartition("; ")[2] for figure in told.values()]
    assert ends == ["<0.1 % of all operations", "5.0 % of all operations", "95 % of all operations"]


def test_what_was_measured_is_said_beside_what_is_predicted(root: Path) -> None:
    compilation = explorer.compile((root / "examples" / "kge" / "transr.emb").read_text(), on_demand=True)
    samples = {"samples": 30, "share": 0.75, "reasons": {"long_sb": 20, "selected": 10}}
    measured = {
        "labels": ["measured on a device of this test with ncu 0, 2026-01-02, at FB15k"],
        "kernels": ["TransR_product_kernel"],
        "samples": 40,
        "operations": {"0": samples},
        "lines": {"12": samples},
        "rest": {"samples": 10, "share": 0.25, "reasons": {"wait": 10}},
    }
    heat = heat_json(compilation)
    assert "measured" not in json.dumps(shown(heat))
    told = shown({**heat, "measured": measured})
    words = "measured on a device of this test with ncu 0, 2026-01-02, at FB15k: 30 of 40 samples, 75 %"
    assert told["lines"]["12"]["words"] == f"{words}: 67 % for global memory, 33 % going on"
    assert re.fullmatch(rf"predicted: .*; {words}: .*", told["operations"]["0"]["words"])
    assert "measured" not in told["operations"]["1"]["words"]
    assert told["basis"].endswith(f"lines of TransR_product_kernel in sass {measured['labels'][0]}")


def test_what_does_not_compile_says_why(client: TestClient) -> None:
    assert "operations" not in (found := ask(client, "score ("))
    assert found["reason"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 ps"),
     (4.1e-11, "41 ps"), (1.9e-12, "1.9 ps"), (9.96e-9, "10 ns"), (9.96e-8, "100 ns"), (7.424e-7, "742 ns"),
     (1.2345e-6, "1.23 µs"), (0.5, "500 ms"), (2, "2 s")],
)  # fmt: skip
def test_times_in_short(seconds: float, words: str) -> None:
    assert time(seconds) == words
