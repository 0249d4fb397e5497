"""The gallery of the papers' figures: its links hold what the page takes, and show something."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from typing import Any

import pytest
from fastapi.testclient import TestClient

import explorer
from benchmarks.papers import PAPERS
from explorer.compiler.options import read_options
from explorer.compiler.pipeline import STAGES
from explorer.web.examples import examples
from explorer.web.guide.papers import GALLERY, Shown
from explorer.web.guide.tour import key_of

ALL = [shown for figures in GALLERY.values() for shown in figures]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs)["href"] or "")


def held_in(link: str) -> dict[str, Any]:
    code = link.removeprefix("/#1.")
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)))
    return found


def test_the_sheet_has_a_link_a_figure(client: TestClient) -> None:
    answer = client.get("/guide/papers")
    parser = Links()
    parser.feed(answer.text)
    texts = {key_of(example): example.text for example in examples()}
    assert len(parser.found) == len(ALL)
    for link, shown in zip(parser.found, ALL, strict=True):
        held = held_in(link)
        assert held["text"] == texts[shown.example]
        assert [pane["stage"] for pane in held["panes"]] == [view.stage for view in shown.panes]
        assert len(link) <= 12_000, "LONGEST_HASH of state.js"


@pytest.mark.parametrize("shown", ALL, ids=lambda shown: f"{shown.figure}-{shown.example}")
def test_what_a_figure_opens_compiles_and_changes_where_it_says(shown: Shown) -> None:
    options = read_options(shown.options)
    compilation = explorer.compile(shown.kept()["text"], options=options.to_json(), on_demand=True)
    for view in shown.panes:
        (spec,) = (spec for spec in STAGES if spec.name == view.stage)
        passes = {run.name: run for run in compilation.stages[view.stage].passes}
        assert compilation.stages[view.stage].text, spec.name
        assert not view.after or passes[view.after].changed


def test_benchmarks_that_it_names_are_there() -> None:
    known = {f"{paper.name} {figure.name}" for paper in PAPERS.values() for figure in paper.figures}
    assert {shown.bench for shown in ALL if shown.bench} <= known
