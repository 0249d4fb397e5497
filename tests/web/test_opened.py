"""What the page opens with is drawn once for each example, and what is the reader's own each time."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.web import pages
from explorer.web.panes import views
from explorer.web.templates.opened import KEPT, OpenedExamples


def test_an_example_is_drawn_once_however_many_open_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: Counter[str] = Counter()
    build = views.build_panes

    def counted(compiled: Any, *others: Any) -> Any:
        drawn[compiled["name"]] += 1
        return build(compiled, *others)

    monkeypatch.setattr(views, "build_panes", counted)
    client.app.state.opened = OpenedExamples()  # type: ignore[attr-defined]
    first, second = (client.get("/", params={"example": "kge/transh"}) for _ in range(2))
    other = client.get("/", params={"example": "kge/transe_l1"})
    assert [answer.status_code for answer in (first, second, other)] == [200] * 3
    assert drawn == {"TransH": 1, "TransE_L1": 1}
    assert first.text.count('class="pane"') == second.text.count('class="pane"') == 4
    assert "TransE_L1" in other.text


def test_who_comes_first_waits_for_no_compilation(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the page is drawn for nobody: neither for the page nor for what each option would change of it."""
    app: Any = client.app
    assert client.portal is not None
    client.portal.call(pages.draw_for_nobody, app)
    ended: list[object] = []
    monkeypatch.setattr(app.state.compiler, "_ended", ended.append)
    shown = client.get("/").text
    facts = json.loads(html.unescape(re.search(r'data-facts="([^"]*)"', shown)[1]))  # type: ignore[index]
    text = html.unescape(re.search(r'id="editor"[^>]*data-text="([^"]*)"', shown)[1])  # type: ignore[index]
    asked = dict.fromkeys(("sizes", "default_sizes", "options", "schedule"), "{}")
    answer = client.post("/effects", data={**asked, "text": text, "data": facts["data"], "edit": "1"})
    assert answer.json()["flips"]["grad"]
    assert ended == []


def test_what_is_the_readers_own_is_drawn_each_time(client: TestClient) -> None:
    for cookie, hidden in (("", False), ("about=seen", True), ("", False)):
        page = client.get("/", params={"example": "kge/transh"}, headers={"cookie": cookie}).text
        assert ('aria-label="About this page" hidden' in page) == hidden


def test_the_oldest_is_forgotten_and_equal_compilations_are_apart() -> None:
    opened, made = OpenedExamples(), Counter[int]()
    compilations = [{"name": "same"} for _ in range(KEPT + 1)]

    def context(place: int) -> Any:
        def make() -> dict[str, Any]:
            made[place] += 1
            return {"place": place}

        return opened.context(compilations[place], make)

    assert [context(place)["place"] for place in range(KEPT + 1)] == list(range(KEPT + 1))
    assert context(KEPT)["place"] == KEPT
    assert context(0)["place"] == 0
    assert made[0] == 2
    assert made[KEPT] == 1
