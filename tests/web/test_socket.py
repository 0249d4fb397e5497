"""Runs over the WebSocket: streaming, cancelling, taking turns, and what is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

PRODUCT = """dim D = 256
score Product(h: entity, r: relation, t: entity):
    param E[entity, D], P[relation, D, D]
    return sum(E[h] * (P[r] @ E[t]))
"""
LONG = {"text": PRODUCT, "data": "tiny.tsv", "batch": 60_000, "repeat": 1_000}
"""A run of 8 TFLOP, which no host has done before what is said of it here has come: minutes of two cores' time. Its
parameters are small, and so is what is checked of it."""


def order(run: int, text: str, **changes: Any) -> dict[str, Any]:
    return {"type": "run", "run": run, "edit": 10 + run, "text": text, "on": "cpu", "repeat": 2, **changes}


def events_of(socket: WebSocketTestSession, run: int, until: str = "") -> list[dict[str, Any]]:
    """The events of one run, up to its last or to the first of kind `until`; other runs' are passed over."""
    seen = []
    while not seen or seen[-1]["event"] not in ("result", "failed", until):
        event = socket.receive_json()
        if event["run"] == run:
            seen.append(event)
    return seen


def test_samples_arrive_and_the_result_is_checked(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws", headers={"origin": "http://testserver"}) as socket:
        socket.send_json(order(1, transe))
        events = events_of(socket, 1)
    kinds = [event["event"] for event in events]
    assert kinds.count("sample") == 2
    assert kinds[-1] == "result"
    assert events[-1]["matches_reference"] is True
    assert {event["edit"] for event in events} == {11}


def test_a_dae_run_streams_the_machine(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, transe, on="dae", batch=128))
        events = events_of(socket, 1)
    samples = [event for event in events if event["event"] == "sample"]
    assert len(samples) >= 10
    assert [sample["cycle"] for sample in samples] == sorted(sample["cycle"] for sample in samples)
    assert events[-1]["source"] == "simulated"


def test_cancel_stops_a_run_and_the_next_one_works(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, **LONG))
        events_of(socket, 1, until="sample")
        socket.send_json({"type": "cancel", "run": 1})
        left = events_of(socket, 1)
        assert left[-1]["kind"] == "cancelled"
        assert len([event for event in left if event["event"] == "sample"]) < LONG["repeat"] / 4
        socket.send_json(order(2, transe))
        assert events_of(socket, 2)[-1]["event"] == "result"


def test_a_run_number_that_is_used_again_stops_the_older_run(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, **LONG))
        events_of(socket, 1, until="sample")
        socket.send_json({**order(1, transe), "edit": 99})
        last = {}
        while len(last) < 2:
            event = socket.receive_json()
            if event["event"] in ("result", "failed"):
                last[event["edit"]] = event
    assert last[11]["kind"] == "cancelled"
    assert last[99]["event"] == "result"


def test_a_waiting_run_is_superseded_by_a_newer_one(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, **LONG))
        events_of(socket, 1, until="sample")
        socket.send_json(order(2, transe))
        waiting = events_of(socket, 2, until="queued")[-1]
        assert waiting["position"] == 1
        assert "about" in waiting["message"]
        socket.send_json(order(3, transe))
        assert events_of(socket, 2)[-1]["kind"] == "superseded"
        socket.send_json({"type": "cancel", "run": 1})
        assert events_of(socket, 3)[-1]["event"] == "result"


def test_a_session_that_leaves_makes_room_for_the_next(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as other:
        with client.websocket_connect("/ws") as socket:
            socket.send_json(order(1, **LONG))
            events_of(socket, 1, until="sample")
            other.send_json(order(1, transe))
            assert events_of(other, 1, until="queued")[-1]["position"] == 1
        assert events_of(other, 1)[-1]["event"] == "result"


def test_a_killed_worker_is_told_and_the_server_lives(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, **LONG))
        events_of(socket, 1, until="sample")
        for pid in client.app.state.runners.pids:
            os.kill(pid, signal.SIGKILL)
        last = events_of(socket, 1)[-1]
        assert last["kind"] == "crashed"
        assert "SIGKILL" in last["message"]
        assert last["hint"]
        assert client.get("/healthz").status_code == 200
        socket.send_json(order(2, transe))
        assert events_of(socket, 2)[-1]["event"] == "result"


def test_a_full_queue_is_refused(client: TestClient, transe: str, limits_of: Callable[..., None]) -> None:
    limits_of(runs_waiting=1)
    with client.websocket_connect("/ws") as one, client.websocket_connect("/ws") as two:
        one.send_json(order(1, **LONG))
        events_of(one, 1, until="sample")
        one.send_json(order(2, transe))
        events_of(one, 2, until="queued")
        two.send_json(order(1, transe))
        last = events_of(two, 1)[-1]
        assert last["kind"] == "refused"
        assert "full" in last["message"]
        refused = client.post("/api/run", json={"text": transe, "on": "cpu"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"]


def test_another_site_cannot_connect(client: TestClient) -> None:
    for origin in ("http://evil.example", "null", "http://testserver.evil.example"):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("/ws", headers={"origin": origin}) as socket,
        ):
            socket.receive_json()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("nonsense", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"type": "walk"}', "either 'run', 'resume' or 'cancel'"),
        ('{"type": "run"}', "The field"),
        ('{"type": "cancel"}', "'run'"),
        ("", "not JSON"),
    ],
)
def test_a_message_that_is_no_order_is_told_so(message: str, words: str, client: TestClient) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_text(message)
        event = socket.receive_json()
    assert event["kind"] == "refused"
    assert words in event["message"]


def test_data_outside_the_offer_is_refused(client: TestClient, transe: str) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json(order(5, transe, data="/etc/passwd"))
        event = socket.receive_json()
    assert (event["kind"], event["run"], event["edit"]) == ("refused", 5, 15)


def test_a_message_beyond_the_limit_ends_the_connection(client: TestClient) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_text("x" * 300_000)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 1009


def test_an_order_to_go_on_is_refused_where_runs_end_with_their_page(client: TestClient) -> None:
    with client.websocket_connect("/ws") as socket:
        socket.send_json({"type": "resume", "run": 4, "edit": 2, "at": "anything"})
        (event,) = events_of(socket, 4)
    assert event["kind"] == "refused"
    assert event["hint"] == "Run it again."
