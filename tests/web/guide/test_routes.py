"""What the page fetches when a reader asks: words, the tour, the language, what options would change, other lines."""

from __future__ import annotations

import json
import re

from fastapi.testclient import TestClient

from explorer.compiler.options import OF_SUMS
from explorer.web.examples import examples
from explorer.web.guide import tour, words
from explorer.web.panes.code import MOST_LINES
from tests.web.guide.texts import MANY, long_text

TEXTS = {tour.key_of(example): example.text for example in examples()}


def test_words_are_kept_for_good_under_their_version_alone(client: TestClient) -> None:
    page = client.get("/").text
    (address,) = re.findall(r'data-words="([^"]+)"', page)
    found = client.get(address)
    assert found.headers["cache-control"].endswith("immutable")
    assert found.json()["passes"] == dict(words.PASSES)
    assert client.get("/guide/words?v=old").headers["cache-control"] == "no-cache"


def test_the_tour_and_the_language_are_answered(client: TestClient) -> None:
    stops = client.get("/guide/tour").json()
    assert len(stops) == 9
    assert stops[6]["panes"][0] == {"stage": "graph", "at": 5, "diff": True}
    sheet = client.get("/guide/language").text
    assert sheet.count("<article>") == 17
    assert "g: graph[user, item]" in sheet
    assert "edge_softmax(g, name)" in sheet


def test_the_page_opens_at_the_last_change(client: TestClient) -> None:
    page = client.get("/").text
    assert "rgat.emb · Embedding Compiler Explorer" in page
    (first,) = re.findall(r'<section class="pane" id="pane-0"[^>]*>', page)
    assert 'data-stage="graph"' in first
    assert 'data-at="7"' in first
    assert "data-diff" in first
    unchanged = client.get("/?example=kge/transr").text
    (first,) = re.findall(r'<section class="pane" id="pane-0"[^>]*>', unchanged)
    assert "data-diff" not in first


def test_the_line_stays_away_once_it_is_closed(client: TestClient) -> None:
    opened = r'<aside class="guide" id="guide" aria-label="About this page"( hidden)?>'
    assert re.findall(opened, client.get("/").text) == [""]
    assert re.findall(opened, client.get("/", headers={"cookie": "about=seen"}).text) == [" hidden"]


def test_effects_are_those_of_the_flipped_options(client: TestClient) -> None:
    flips = client.post("/effects", data={"edit": "3", "text": TEXTS["kge/transr"]}).json()["flips"]
    assert flips["interchange"][0] == "loops"
    assert flips["negatives"][0] == "graph"
    assert flips["level_hints"] == ["slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc"]
    assert flips["online"] == flips["compact"] == flips["store_streams"] == []
    assert client.post("/effects", data={"edit": "3", "text": "score"}).json()["flips"] is None


def test_effects_of_options_of_sums_are_told_where_a_kernel_reads_them(client: TestClient) -> None:
    flips = client.post("/effects", data={"edit": "3", "text": TEXTS["rgnn/rgat"]}).json()["flips"]
    assert flips["encoding"] == flips["split"] == ["kernels", "cuda"]
    assert flips["preload"] == flips["balance"] == []
    assert {"graph", "loops", "kernels", "dlc"} <= set(flips["edges"])
    of_no_sum = client.post("/effects", data={"edit": "3", "text": TEXTS["kge/transr"]}).json()["flips"]
    assert not any(of_no_sum[name] for name in (*OF_SUMS, "edges"))
    assert set(OF_SUMS) <= set(flips)


def test_recordings_are_those_of_the_model(client: TestClient) -> None:
    def recordings(text: str) -> list[str] | None:
        found: list[str] | None = client.post("/recordings", data={"edit": "3", "text": text}).json()["recordings"]
        return found

    assert recordings(TEXTS["embedding/sls"]) == ["sls/bags-of-4", "sls/bags-of-64"]
    assert recordings(TEXTS["kge/distmult"]) == []
    assert recordings("score") is None


def test_the_lines_behind_the_first_thousands_come_when_they_are_asked_for(client: TestClient) -> None:
    panes = json.dumps([{"stage": "graph"}])
    form = {"edit": "1", "text": long_text(), "panes": panes}
    pane = client.post("/compile", data=form).text
    numbers = [int(number) for number in re.findall(r'<span class="g">(\d+)</span>', pane)]
    assert max(numbers) == MOST_LINES
    assert "Show the rest" in pane
    rest = client.post("/rest", data=form).text
    others = [int(number) for number in re.findall(r'<span class="g">(\d+)</span>', rest)]
    assert others == list(range(MOST_LINES + 1, MANY + 11))


def test_sizes_that_nothing_mentions_are_folded(client: TestClient) -> None:
    text = TEXTS["kge/transe_l1"].replace("dim D = 64", "dim D = 64, Q = 3")
    answer = client.post("/compile", data={"edit": "1", "text": text, "panes": "[]"}).text
    assert re.findall(r'<div class="fr" data-idle data-size="(\w+)">', answer) == ["Q"]
    assert "1 more that changes nothing here" in answer
