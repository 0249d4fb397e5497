"""The table of decisions: what the page shows of a schedule, what it refuses, and what it costs."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from re import findall, search, sub
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.web import messages

SPMM = (Path(__file__).parents[2] / "examples" / "embedding" / "spmm.emb").read_text(encoding="utf-8")
HEADERS = {"HX-Request": "true", "origin": "http://testserver"}


def posted(client: TestClient, path: str, schedule: Any = None, good: Any = None, status: int = 200) -> str:
    """What the page gets for a schedule, where another one was good before."""
    fields = {"text": SPMM, "edit": 3, "good": 2, "panes": json.dumps([{"stage": "kernels"}])}
    chosen = {"schedule": schedule if isinstance(schedule, str) else json.dumps(schedule or {})}
    answer = client.post(path, data={**fields, **chosen, "good_schedule": json.dumps(good or {})}, headers=HEADERS)
    assert answer.status_code == status, answer.text[:300]
    return answer.text


def facts(page: str) -> dict[str, Any]:
    found = search(r'data-facts="([^"]*)"', page)
    assert found
    read: dict[str, Any] = json.loads(unescape(found[1]))
    return read


def code(page: str) -> str:
    """The text of the kernels."""
    return "\n".join(unescape(sub("<[^>]+>", "", line)) for line in findall(r'<span class="t">(.*)</span>', page))


def changed(page: str) -> list[str]:
    """The decisions that are marked as chosen by hand."""
    return findall(r'class="row set"[^>]*>.*?data-decision="([^"]+)"', page.replace("\n", " "))


def test_each_decision_has_a_row_with_its_domain_and_reason(client: TestClient) -> None:
    page = posted(client, "/compile")
    assert 'data-decision="SpMM_0.chunk" data-usual="32"' in page
    assert '<option value="64">64</option>' in page
    assert "Usual: 32." in page
    assert changed(page) == []


def test_a_change_is_marked_and_compiled_and_the_rest_stays(client: TestClient) -> None:
    page = posted(client, "/compile", {"SpMM_0.chunk": 64, "SpMM_0.popular": False})
    assert changed(page) == ["SpMM_0.chunk", "SpMM_0.popular"]
    assert facts(page)["schedule"] == {"SpMM_0.chunk": 64, "SpMM_0.popular": False}
    assert "chunk = 64" in code(page)
    assert "data-waits-for-cost" in page


def test_what_is_refused_says_why_and_the_last_good_kernel_stays(client: TestClient) -> None:
    page = posted(client, "/compile", {"SpMM_0.chunk": 1000}, good={"SpMM_0.chunk": 64})
    assert facts(page)["schedule"] == {"SpMM_0.chunk": 64}
    assert code(page) == code(posted(client, "/compile", {"SpMM_0.chunk": 64}))
    assert search(r"chunk = 1000: <button [^>]*data-act=.story.[^>]*>it takes 32, 64, 128", page)
    page = posted(client, "/compile", {"SpMM_0.strategy": "gemm"})
    assert facts(page)["schedule"] == {}
    assert "strategy = gemm: " in page


def test_what_nobody_asks_for_is_listed(client: TestClient) -> None:
    page = posted(client, "/compile", {"Other_7.chunk": 64, "SpMM_0.colour": "<b>red</b>"})
    assert "without effect here" in page
    assert "<b>red" not in page
    assert facts(page)["ok"]


@pytest.mark.parametrize(
    "hostile",
    [
        "[]",
        "{",
        '{"SpMM_0.chunk": 1e3}',
        '{"SpMM_0.chunk": [64]}',
        '{"SpMM_0.chunk": null}',
        '{"SpMM_0.chunk": 99999999999999999999}',
        json.dumps({"SpMM_0.chunk": "x" * 201}),
        json.dumps({f"K{number}.chunk": 1 for number in range(messages.MOST_CHOICES + 1)}),
    ],
)
def test_hostile_schedules_are_refused(client: TestClient, hostile: str) -> None:
    posted(client, "/compile", hostile, status=422)
    body = '{"text": "", "schedule": ' + hostile + "}"
    answer = client.post("/api/compile", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_a_key_that_is_none_is_a_problem_of_the_compilation(client: TestClient) -> None:
    answer = client.post("/api/compile", json={"text": SPMM, "schedule": {"chunk": 64}, "stages": ["kernels"]}).json()
    assert not answer["ok"]
    assert "KERNEL.DECISION" in answer["diagnostics"][0]["message"]


def test_a_million_entries_are_too_large_to_read(client: TestClient) -> None:
    many = {f"K{number}.chunk": 1 for number in range(1_000_000)}
    answer = client.post("/api/compile", json={"text": SPMM, "schedule": many})
    assert answer.status_code == 413


def test_costs_are_of_before_and_after(client: TestClient) -> None:
    page = posted(client, "/costs", {"SpMM_0.chunk": 64})
    assert "1,024 → 2,048 B shared" in page
    assert search(r"registers · .* of 64 warps", page)
    assert search(r"[\d.]+ MB → [\d.]+ MB asked", page)
    assert "→" not in posted(client, "/costs", {"SpMM_0.chunk": 64}, good={"SpMM_0.chunk": 64})


def test_a_run_takes_a_schedule(client: TestClient) -> None:
    """What it makes of it is the GPU's; here, that it is let through and read."""
    order = {"text": SPMM, "on": "cpu", "data": "tiny", "batch": 8, "repeat": 1, "schedule": {"SpMM_0.chunk": 64}}
    assert client.post("/api/run", json=order).json()["matches_reference"]
    answer = client.post("/api/run", json={**order, "schedule": {"chunk": 64}})
    assert "KERNEL.DECISION" in answer.json()["message"]
