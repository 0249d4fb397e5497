"""The page's WebSocket and the JSON API over a queue, with a real worker process where there is a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from fastapi.testclient import TestClient

from explorer.checkout import CHECKOUT
from explorer.queue.broker import Broker, connect
from explorer.runtime.workers.pool import stream_here
from explorer.web.app import create_app
from tests.queue.conftest import Server
from tests.web.conftest import TRANSE
from tests.web.serving import eventually
from tests.web.test_socket import events_of, order

LONG = {
    "text": (CHECKOUT / "examples" / "kge" / "transr.emb").read_text(encoding="utf-8"),
    **{"on": "dae", "data": "WN18", "batch": 8192},
}
"""A run of two seconds and more, whatever the number of cores: the machine is simulated on one."""
SAMPLED = list(range(64, 8193, 64))
"""How many triples are done at each of its samples."""
TIMED = {"ms", "compile_ms", "date", "wall_ms", "host_ms"}


@pytest.fixture(scope="module")
def worker(started: Server) -> Iterator[subprocess.Popen[str]]:
    """A worker as a user starts it, once its processes are warm; of an emptied queue, since what an instructor ordered
    in a test before (a pause, say) holds for minutes."""
    redis.Redis.from_url(started.url).flushall()
    command = [sys.executable, "-m", "explorer.cli", "worker", "--queue", started.url, "--only", "cpu,dae"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "runs cpu, dae" in process.stdout.readline()
        yield process
        process.terminate()
        assert process.wait(60) == 0


@contextmanager
def client_of(server: Server, **settings: Any) -> Iterator[TestClient]:
    broker = Broker(connect(server.url), 10, 10)
    app = create_app(hosts=frozenset({"testserver"}), run_seconds=120, broker=broker, **settings)
    with TestClient(app) as client:
        yield client


def same(event: dict[str, Any]) -> str:
    """An event without what differs from one run to the next, as text."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: kept(each) for name, each in value.items() if not name.endswith("ms") and name not in TIMED}
        return [kept(each) for each in value] if isinstance(value, list) else value

    return json.dumps({name: each for name, each in kept(event).items() if name not in ("run", "edit", "at")})


def test_a_run_gives_the_same_events_and_result_as_in_this_process_tree(
    started: Server, worker: subprocess.Popen[str]
) -> None:
    asked = {"text": TRANSE, "on": "dae", "data": "FB15k-237", "batch": 64, "seed": 3}
    starting = ("progress", "queued")  # of processes that start, and of the line
    own = [same(event) for event in stream_here(asked) if event["event"] not in starting]
    with client_of(started) as client, client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, TRANSE, on="dae", batch=64, seed=3))
        found = events_of(socket, 1)
        assert all(event["at"] for event in found)
        assert [same(event) for event in found if event["event"] not in starting] == own
        answer = client.post("/api/run", json={"text": TRANSE, "on": "dae", "batch": 64, "seed": 3})
        assert answer.status_code == 200
        assert json.loads(same({"event": "result", **answer.json()})) == {"ok": True, **json.loads(own[-1])}
    assert len(own) >= 3


def test_a_page_that_comes_back_follows_its_run_over_another_connection(
    started: Server, worker: subprocess.Popen[str]
) -> None:
    with client_of(started) as client:
        with client.websocket_connect("/ws") as socket:
            socket.send_json(order(1, **LONG))
            seen = events_of(socket, 1, until="sample")
        with client.websocket_connect("/ws") as socket:
            socket.send_json({"type": "resume", "run": 1, "edit": 11, "at": seen[-1]["at"]})
            seen += events_of(socket, 1)
    assert [event["triples"] for event in seen if event["event"] == "sample"] == SAMPLED
    assert seen[-1]["event"] == "result"
    assert {event["edit"] for event in seen} == {11}


@pytest.mark.sweep
def test_a_killed_process_of_a_real_worker_is_survived(started: Server, worker: subprocess.Popen[str]) -> None:
    from tests.queue.faults import children

    with client_of(started) as client, client.websocket_connect("/ws") as socket:
        socket.send_json(order(1, **LONG))
        seen = events_of(socket, 1, until="sample")
        for pid in children(worker.pid):
            os.kill(pid, 9)
        seen += events_of(socket, 1)
    assert [event["event"] for event in seen].count("repeated") == 1
    assert seen[-1]["event"] == "result"
    assert seen[-1]["repeated"] is True


def test_readiness_is_that_of_a_worker_that_is_there(started: Server, worker: subprocess.Popen[str]) -> None:
    with client_of(started) as client:
        eventually(lambda: client.get("/healthz").json()["warm"])
