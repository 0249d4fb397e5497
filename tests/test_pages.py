"""The page's HTML as the server makes it: whole, and in the pieces that htmx swaps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from fastapi.testclient import TestClient

from explorer.compiler.pipeline import STAGES
from explorer.runtime.targets.table import TARGETS
from explorer.web.app import create_app
from explorer.web.examples import examples
from explorer.web.panes import code, views

TRANSR = next(example.text for example in examples() if example.name == "transr")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(hosts=frozenset({"testserver"}))) as client:
        yield client


def form(text: str, panes: list[dict[str, object]] | None = None, **fields: object) -> dict[str, str]:
    shown = panes or [{"stage": "loops"}]
    return {"text": text, "edit": "7", "good": "6", "panes": json.dumps(shown)} | {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()
    }


def facts_of(html: str) -> dict[str, object]:
    found = re.search(r'id="facts" hidden data-facts="([^"]*)"', html)
    assert found
    facts: dict[str, object] = json.loads(unescape(found[1]))
    return facts


def test_the_page_arrives_whole_and_keeps_its_own_policy(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "style=" not in answer.text
    assert re.findall(r"<script(?![^>]*\ssrc=)", answer.text) == []
    assert re.findall(r"\son\w+=", answer.text) == []
    assert re.findall(r'(?:src|href)="(?!/|#)', answer.text) == []
    nonce = re.search(r'name="csp-nonce" content="([^"]+)"', answer.text)
    assert nonce
    assert f"'nonce-{nonce[1]}'" in answer.headers["content-security-policy"]
    for spec in STAGES:
        assert f'data-open="{spec.name}"' in answer.text


def test_an_edit_gets_its_panes_counts_and_facts(client: TestClient) -> None:
    answer = client.post("/compile", data=form(TRANSR, sizes={"D": 33}))
    assert answer.headers["x-edit"] == "7"
    assert 'data-stage="loops"' in answer.text
    assert "Up to date" in answer.text
    facts = facts_of(answer.text)
    assert facts["ok"] is True
    assert facts["edit"] == 7
    assert facts["sizes"] == {"D": 33, "K": 64}
    assert 'data-operation="0"' in answer.text


def test_the_precision_of_products_is_chosen_with_what_it_costs(client: TestClient) -> None:
    page = client.get("/").text
    assert re.search(r'<option title="on CUDA cores[^"]*" selected>float32</option>', page)
    assert re.search(r'<option title="on tensor cores[^"]*errors of up to 2e-3">tf32</option>', page)
    answer = client.post("/compile", data=form(TRANSR, [{"stage": "kernels"}], options={"precision": "tf32x3"})).text
    assert "in tf32x3" in unescape(re.sub("<[^>]+>", "", answer))


def test_the_inspector_and_the_sizes_of_its_chunks_are_chosen(client: TestClient) -> None:
    page = client.get("/").text
    assert re.search(r'<option value="true" title="[^"]*all of a batch[^"]*" selected>whole batch</option>', page)
    assert re.search(r'<div class="op" data-of-chunks hidden>.*?<label for="inspect_edges">', page)
    options: dict[str, object] = {"inspect": "chunks", "inspect_edges": "32"}
    answer = client.post("/compile", data=form(TRANSR, [{"stage": "kernels"}], options=options)).text
    assert "scheduled TransR  template chunks" in unescape(re.sub("<[^>]+>", "", answer))


def test_a_broken_edit_leaves_the_panes_alone(client: TestClient) -> None:
    answer = client.post("/compile", data=form(TRANSR.replace("R[r]", "Rr[r]")))
    assert answer.headers["hx-reswap"] == "none"
    assert 'class="pane"' not in answer.text
    assert re.search(r"1 error(<[^>]*>)? in edit 7", answer.text)
    assert "The stages show edit 6" in answer.text
    assert facts_of(answer.text)["ok"] is False


def test_late_stages_come_on_request(client: TestClient) -> None:
    panes: list[dict[str, object]] = [{"stage": "ptx"}]
    assert "data-waiting" in client.post("/compile", data=form(TRANSR, panes)).text
    late = client.post("/late", data=form(TRANSR, panes)).text
    assert "data-waiting" not in late
    assert ".visible .entry" in unescape(re.sub("<[^>]+>", "", late))


def test_sass_is_made_only_for_an_open_pane(client: TestClient) -> None:
    count = re.compile(r'data-open="sass"(?s:.*?)data-total="(\d*)"')
    without = count.search(client.post("/best", data=form(TRANSR, [{"stage": "ptx"}])).text)
    assert without
    assert without[1] == ""
    late = client.post("/best", data=form(TRANSR, [{"stage": "sass"}])).text
    counted = count.search(late)
    assert counted
    assert int(counted[1]) > 100
    assert re.search(r'class="l[^"]*" data-operations="\d', late)
    assert "FFMA" in unescape(re.sub("<[^>]+>", "", late))


def test_what_kernels_take_stands_over_cuda_when_it_is_known(client: TestClient) -> None:
    panes: list[dict[str, object]] = [{"stage": "loops"}, {"stage": "cuda"}, {"stage": "ptx"}]
    rows = {"inspect": "false"}  # one kernel
    first = client.post("/compile", data=form(TRANSR, panes, options=rows)).text
    assert "registers" not in first
    late = client.post("/best", data=form(TRANSR, panes, options=rows)).text
    assert 'id="meta-0"' not in late
    assert re.search(
        r'<span class="meta" id="meta-1" title="TransR_kernel: \d+ registers[^"]*" hx-swap-oob="true">', late
    )
    assert len(re.findall(r'sm_90<span class="w"> · \d+ registers, no spills · 64 of 64 warps</span>', late)) == 2
    rgat = next(example.text for example in examples() if example.name == "rgat")
    several = client.post("/best", data=form(rgat, panes, options={"arch": "sm_80"})).text
    assert re.search(r"> · 8 kernels, at most \d+ registers, [^<]* spills · \d+ of 64 warps</span>", several)


def test_a_pane_shows_a_pass_and_a_difference(client: TestClient) -> None:
    plain = client.post("/panes", data=form(TRANSR, [{"stage": "loops", "at": 0, "passes": True}])).text
    assert ">fuse</b>" in plain
    assert 'aria-current="true"' in plain
    compared = client.post("/panes", data=form(TRANSR, [{"stage": "loops", "at": 1, "diff": True}])).text
    assert re.search(r'class="l[^"]* add"', compared)
    assert re.search(r'class="l[^"]* cut"', compared)


@pytest.mark.parametrize(
    "text",
    [
        "score T<script>alert(1)</script>(h: entity, r: relation, t: entity):\n    return 1\n",
        "(" * 10_000,
        "\ufffd\x00\x1b",
        "",
        "dim D = 1000000000\n" + TRANSR,
        "score T(h: entity, r: relation, t: entity):\n    param E[entity, 4]\n    return sum(E[r] * E[t])\n",
    ],
    ids=["script", "nesting", "signs", "nothing", "size", "set"],
)
def test_a_bad_text_is_answered_with_its_problems(client: TestClient, text: str) -> None:
    answer = client.post("/compile", data=form(text))
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "Traceback" not in answer.text
    facts = facts_of(answer.text)
    assert facts["ok"] is False
    assert facts["diagnostics"]


@pytest.mark.parametrize(
    "fields",
    [
        {"panes": '[{"stage": "loops", "colour": "red"}]'},
        {"panes": "[1, 2"},
        {"sizes": '{"D": "wide"}'},
        {"options": "[]"},
        {"edit": "soon"},
    ],
)
def test_a_form_that_the_page_would_not_send_is_refused(client: TestClient, fields: dict[str, str]) -> None:
    assert client.post("/compile", data=form(TRANSR) | fields).status_code == 422


def test_bytes_that_are_no_text_and_bodies_that_are_too_long_are_refused_in_words(client: TestClient) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/compile", content=b"edit=1&text=\xff\xfe%ff", headers=kind)
    assert answer.status_code == 200
    assert facts_of(answer.text)["ok"] is False
    answer = client.post("/compile", content=b"edit=1&text=" + b"x" * 10_000_000, headers=kind)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["diagnostics"][0]["message"]


def test_examples_are_listed_and_served(client: TestClient) -> None:
    assert client.get("/examples/kge/transr").text == TRANSR
    assert client.get("/examples/kge/none").status_code == 404
    assert client.get("/?example=../../etc/passwd").status_code == 404
    page = client.get("/?example=kge/distmult").text
    assert "score DistMult" in page
    menu = page[page.index('id="examples"') : page.index("</nav>")]
    assert menu.count('data-act="example"') == len(examples())


def test_a_link_to_no_example_is_answered_with_the_page_and_a_sentence(client: TestClient) -> None:
    answer = client.get("/?example=kge/<b>nope")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is no example kge/&lt;b&gt;nope. This is rgnn/rgat." in answer.text
    assert "layer RGAT" in answer.text


def test_a_difference_of_nothing_names_the_pass_that_changed_something_before(client: TestClient) -> None:
    html = client.post("/panes", data=form(TRANSR, [{"stage": "graph", "diff": True}])).text
    assert "</b> changed nothing here" in html
    assert 'class="diff"' not in html


def test_a_very_long_stage_is_cut() -> None:
    lines = [{"text": f"line {number}", "origin": 0, "unit": ""} for number in range(6_001)]
    stage = {"name": "cuda", "available": True, "reason": "", "ms": 1.0, "lines": lines, "passes": [], "resources": []}
    stage["origins"] = [{"operations": [], "made": None, "spans": []}]
    (pane,) = views.build_panes(
        {"operations": [], "stages": [stage], "counted": {"on": "", "rows": {}}}, [views.PaneState(stage="cuda")]
    )
    assert pane.code
    assert pane.code.total == 6_001
    assert sum(map(len, pane.code.chunks)) == code.MOST_LINES


def test_an_unknown_stage_in_a_pane_is_no_fault(client: TestClient) -> None:
    answer = client.post("/panes", data=form(TRANSR, [{"stage": "<b>nothing</b>"}]))
    assert answer.status_code == 200
    assert "<b>nothing" not in answer.text


def test_a_target_that_is_not_there_says_why_on_its_buttons(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "cpu", replace(TARGETS["cpu"], missing=lambda: "It is switched off."))
    page = client.get("/").text
    assert '<p class="label" id="cpu-reason">It is switched off.</p>' in page
    buttons = re.findall(r'<button[^>]*data-act="target" data-target="cpu"[^>]*>', page)
    assert len(buttons) == 2
    assert all('title="It is switched off."' in button and " disabled" in button for button in buttons)
