"""What an assignment locks: options keep their usual values, stages are shown to nobody, by no way in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.compiler.pipeline import STAGES
from explorer.web.instructor.classroom import Locks
from tests.web.instructor.classes import Class, teaching
from tests.web.serving import said
from tests.web.test_script_types import facts_in

LOCKS = Locks(frozenset({"reorder", "negatives", "vlen"}), frozenset({"loops", "ptx"}))
REASON = "The instructor has locked this stage"


@contextmanager
def locks_on(client: TestClient) -> Iterator[None]:
    """The class of a server has locks."""
    state: Any = client.app.state  # type: ignore[attr-defined]
    state.classroom.assign("It", "begin", "", 1, LOCKS)
    try:
        yield
    finally:
        state.classroom.assignment = None


@pytest.fixture
def locked(client: TestClient) -> Iterator[TestClient]:
    """A client of such a server."""
    with locks_on(client):
        yield client


def words(page: str) -> str:
    """What a page shows, without its markup."""
    return unescape(re.sub(r"<[^>]*>", "", page))


def shown(client: TestClient, path: str, text: str) -> str:
    panes = json.dumps([{"stage": name} for name in ("graph", "loops", "ptx")])
    return words(client.post(path, data={"edit": "2", "text": text, "panes": panes}).text)


WORDS = {"loops": "parallel for", "ptx": ".visible .entry"}
"""What a stage has that no other pane of these has."""


@pytest.mark.parametrize(
    ("path", "stages"), [("/compile", {"loops"}), ("/panes", {"loops", "ptx"}), ("/best", {"ptx"})]
)
def test_a_locked_stage_is_in_no_pane(client: TestClient, transe: str, path: str, stages: set[str]) -> None:
    before = shown(client, path, transe)
    assert {name for name, word in WORDS.items() if word in before} == stages
    assert REASON not in before
    with locks_on(client):
        page = shown(client, path, transe)
    assert not any(word in page for word in WORDS.values())
    assert REASON in page


def test_the_first_page_has_no_locked_stage(client: TestClient) -> None:
    assert WORDS["loops"] in words(client.get("/").text)
    with locks_on(client):
        page = client.get("/").text
    assert WORDS["loops"] not in words(page)
    assert page.count(REASON) == 1
    assert "data-waiting" not in page


def test_locked_options_keep_their_usual_values(locked: TestClient, transe: str) -> None:
    facts = facts_in(locked.post("/compile", data={"edit": "2", "text": transe, "options": CHANGED}).text)
    assert [facts["options"][name] for name in ("reorder", "negatives", "grad")] == [True, "none", True]


CHANGED = json.dumps({"reorder": False, "negatives": "tail:2", "grad": True})


def test_scripts_are_told(locked: TestClient, transe: str) -> None:
    for body in ({"options": {"vlen": 8}}, {"stages": ["graph", "loops"]}):
        answer = locked.post("/api/compile", json={"text": transe, **body})
        assert answer.status_code == 422
        assert "The instructor has locked" in answer.json()["diagnostics"][0]["message"]
    told = locked.post("/api/run", json={"text": transe, "on": "cpu", "options": {"negatives": "tail:2"}})
    assert (told.status_code, "locked negatives" in told.text) == (422, True)
    answer = locked.post("/api/compile", json={"text": transe}).json()
    assert {stage["name"] for stage in answer["stages"]} == {spec.name for spec in STAGES} - LOCKS.stages
    again = locked.post("/api/compile", json={"text": transe, "options": answer["options"], "stages": ["graph"]})
    assert again.status_code == 200


def test_pages_are_told_and_their_runs_keep_the_usual_values() -> None:
    with teaching() as taught:
        anna = taught.join("Anna")
        with taught.served.page(anna) as hers:
            assert said(hers, "class")["locked"] == {"options": [], "stages": []}
            assigns(taught, locked_option=["reorder"], locked_stage=["ptx", "sass"])
            assert said(hers, "class")["locked"] == {"options": ["reorder"], "stages": ["ptx", "sass"]}
            options = {"reorder": False, "grad": True}
            hers.send(json.dumps({"type": "run", "run": 1, "text": "x", "on": "cpu", "options": options}))
            said(hers, "started")
            (running,) = taught.served.app.state.runs._running.values()
            assert running.job.request["options"] == {"grad": True}
            taught.does("unassign")
            assert said(hers, "class")["locked"] == {"options": [], "stages": []}


def assigns(taught: Class, **locks: list[str]) -> None:
    answer = taught.desk.post("/instructor/assign", data={"title": "It", "text": "begin", **locks})
    assert answer.status_code == 200, answer.text


def test_only_what_there_is_can_be_locked() -> None:
    with teaching() as taught:
        for locks in ({"locked_option": ["colour"]}, {"locked_stage": ["nowhere"]}):
            answer = taught.desk.post("/instructor/assign", data={"title": "It", "text": "begin", **locks})
            assert answer.status_code == 422
        assert taught.classroom.assignment is None
