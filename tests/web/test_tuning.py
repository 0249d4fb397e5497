"""Searches over the WebSocket, as the page asks for them: through the same worker and the same limits as runs."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.runtime.runs import events
from explorer.tuner import shipped
from explorer.web import limits
from explorer.web.instructor.classroom import Classroom, Locks
from tests.tuner.tune.searching import hold_together, of_kind


def searched(client: TestClient, text: str, **fields: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    with client.websocket_connect("/ws") as page:
        page.send_json({"type": "run", "run": 5, "text": text, **{"batch": 4, "data": "tiny.tsv", **fields}})
        while not told or not events.is_last(told[-1]):
            told.append(page.receive_json())
    return told


@pytest.mark.parametrize("on", ["dae", "cpu"])
def test_a_page_sees_every_trial(on: str, client: TestClient, transe: str) -> None:
    said = searched(client, transe, on=on, repeat=3, tune={"trials": 6, "search": "genetic", "seed": 2})
    hold_together(said)
    assert {event["run"] for event in said} == {5}
    assert not said[-1]["tuned"]["kept"], "the server keeps nothing for runs of others"


def test_the_time_limit_of_runs_leaves_a_result(
    client: TestClient, transe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RUN_SECONDS", 1.5)
    # A batch that is simulated in a tenth of a second or more: no host ends 512 trials of it within the limit.
    said = searched(client, transe, on="dae", batch=512, tune={"trials": 512, "search": "random"})
    hold_together(said)
    assert 1 <= said[-1]["tuned"]["trials"] < 512
    assert "time limit ended the search" in said[-1]["tuned"]["why"][-1]


def test_what_the_instructor_has_locked_is_not_varied(
    client: TestClient, transe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(options=frozenset({"opt", "vlen"}))
    monkeypatch.setattr(Classroom, "locks", property(lambda self: locks))
    said = searched(client, transe, on="dae", tune={"trials": 4})
    hold_together(said)
    assert not {"opt", "vlen"} & {gene["key"] for gene in of_kind("space", said)[0]["genes"]}


@pytest.mark.parametrize("field", ["edited", "against"])
def test_a_search_has_no_place_for_some_fields(field: str, client: TestClient, transe: str) -> None:
    fields: dict[str, Any] = {"edited": {"loops": "nothing"}, "against": {"options": {"opt": 1}}}
    last = searched(client, transe, on="dae", tune={"trials": 4}, **{field: fields[field]})[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert f"no place for what is {field}" in last["message"]


def test_a_recording_is_searched_whatever_the_text_is(client: TestClient, transe: str) -> None:
    name = shipped.names()[0]
    said = searched(client, transe, on="gpu", tune={"trials": 5, "replay": name})
    hold_together(said)
    assert said[-1]["source"] == "replayed"
    assert said[-1]["device"].startswith("recorded on ")
    said = searched(client, transe, on="gpu", tune={"trials": 5, "replay": "../" + name})
    assert f"There is no recording '../{name}'" in said[-1]["message"]
