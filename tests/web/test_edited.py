"""Texts of stages that somebody has edited, by the JSON API and on the page."""

from __future__ import annotations

import json
from re import search
from typing import Any

import pytest
from fastapi.testclient import TestClient

HEADERS = {"HX-Request": "true", "origin": "http://testserver"}


def compiled(client: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    answer = client.post("/api/compile", json={"text": text, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def stage(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in answer["stages"] if each["name"] == name)


@pytest.fixture(scope="module")
def loops(client: TestClient, transe: str) -> str:
    text: str = stage(compiled(client, transe, stages=["loops"]), "loops")["text"]
    return text


def other(loops: str) -> str:
    """The text with the operands of one line exchanged."""
    found = search(r"(\w+) = (\w+) \+ (\w+)\n", loops)
    assert found
    return loops.replace(found[0], f"{found[1]} = {found[3]} + {found[2]}\n")


def wrong(loops: str) -> str:
    found = search(r"(\w+) = (\w+) \+ (\w+)\n", loops)
    assert found
    return loops.replace(found[0], f"{found[1]} = {found[2]} - {found[3]}\n")


def test_a_compilation_goes_on_from_an_edited_stage(client: TestClient, transe: str, loops: str) -> None:
    plain, found = compiled(client, transe), compiled(client, transe, edited={"loops": other(loops)})
    (edit,) = found["edited"]
    assert (edit["stage"], edit["status"], edit["changed"]) == ("loops", "matches", 1)
    assert edit["inputs"] > 1
    assert stage(found, "loops")["edited"]
    assert [stage(found, name)["fork"] for name in ("graph", "loops", "slc", "dlc", "kernels", "cuda")] == [
        "",
        *["loops"] * 5,
    ]
    assert stage(found, "slc")["text"] != stage(plain, "slc")["text"]
    assert plain["edited"] == []


def test_what_is_wrong_and_what_is_none_are_told_apart(client: TestClient, transe: str, loops: str) -> None:
    found = compiled(client, transe, edited={"loops": wrong(loops)})
    (edit,) = found["edited"]
    assert edit["status"] == "wrong"
    assert edit["difference"]["output"] == "result"
    assert edit["operation"] in {operation["id"] for operation in found["operations"]}
    assert "proven wrong" in stage(found, "cuda")["reason"]
    found = compiled(client, transe, edited={"loops": loops.replace("parallel for", "parallel fur")})
    (edit,) = found["edited"]
    assert (edit["status"], edit["line"] > 1, edit["column"] > 1) == ("refused", True, True)
    assert stage(found, "cuda")["available"]


def test_texts_of_other_stages_and_too_long_ones_are_refused(client: TestClient, transe: str) -> None:
    answer = client.post("/api/compile", json={"text": transe, "edited": {"loops": 3}})
    assert answer.status_code == 422
    answer = client.post("/api/compile", json={"text": transe, "edited": {f"s{n}": "" for n in range(20)}})
    assert answer.status_code == 422
    long = "kernel TransE  template batch\n" + "  # nothing\n" * 15_000
    (edit,) = compiled(client, transe, edited={"loops": long})["edited"]
    assert (edit["status"], "more than the 131,072" in edit["message"]) == ("refused", True)
    (edit,) = compiled(client, transe, edited={"cuda": "int main() {}"})["edited"]
    assert "is not read back" in edit["message"]


def test_a_run_is_of_the_edited_text(client: TestClient, transe: str, loops: str) -> None:
    asked = {"text": transe, "on": "cpu", "batch": 8, "repeat": 1}
    answer = client.post("/api/run", json={**asked, "edited": {"loops": other(loops)}})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["edited"], answer.json()["matches_reference"]) == (["loops"], True)
    answer = client.post("/api/run", json={**asked, "edited": {"loops": wrong(loops)}})
    assert answer.status_code == 422
    assert "The edited loops cannot be run: result" in answer.json()["message"]


def page_of(client: TestClient, text: str, edited: dict[str, str], **pane: Any) -> str:
    panes = [{"stage": "loops", **pane}, {"stage": "slc"}]
    fields = {"text": text, "edit": 2, "good": 1, "panes": json.dumps(panes), "edited": json.dumps(edited)}
    answer = client.post("/compile", data=fields, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_page_says_what_was_found_and_marks_the_fork(client: TestClient, transe: str, loops: str) -> None:
    page = page_of(client, transe, {"loops": other(loops)}, editing=True)
    assert 'class="verdict matches"' in page
    assert 'data-editing="loops"' in page
    assert page.count("from loops, edited") >= 2  # the pane's head and the rail
    assert '<span class="ed">edited</span>' in page
    assert page.count('class="st forked"') >= 5
    assert "verdict" not in page_of(client, transe, {})


def test_the_page_shows_an_edit_beside_what_the_compiler_makes(client: TestClient, transe: str, loops: str) -> None:
    page = page_of(client, transe, {"loops": other(loops)}, diff=True)
    assert "what the compiler makes" in page
    assert 'class="diff"' in page


def test_what_somebody_writes_is_no_html(client: TestClient, transe: str, loops: str) -> None:
    page = page_of(client, transe, {"loops": loops.replace("parallel", "<img src=x>")})
    assert 'class="verdict refused"' in page
    assert "<img" not in page


def test_a_text_of_no_stage_is_refused(client: TestClient) -> None:
    for path in ("/api/compile", "/api/share"):
        answer = client.post(path, json={"text": "op", "edited": {"soup": ""}})
        assert answer.status_code == 422
        assert "no stage 'soup'" in answer.text
