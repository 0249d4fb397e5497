"""The numbers for Prometheus: what they count, that they name nobody, and whom they are for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from explorer.web.app import create_app
from explorer.web.compiling import CompileService
from explorer.web.entrance.addresses import is_local, is_of
from explorer.web.monitoring.memory import tree_bytes
from explorer.web.queue import RunQueue
from tests.web.serving import Served, ask_for_run, eventually, said, serving

HERE = ("127.0.0.1", 50_000)
Numbers = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """A client on this computer of an application with its workers, of which nobody else asks anything."""
    with TestClient(create_app(hosts=frozenset({"testserver"}), concurrent_runs=1), client=HERE) as client:
        yield client


@pytest.fixture(scope="module")
def app(client: TestClient) -> FastAPI:
    app = client.app
    assert isinstance(app, FastAPI)
    return app


def numbers(text: str) -> Numbers:
    """Every sample by its name and its labels' values, in the order of the labels' names."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(each.name, *(value for _, value in sorted(each.labels.items()))): each.value for each in found}


def scraped(client: TestClient) -> Numbers:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return numbers(answer.text)


def grown(before: Numbers, after: Numbers, *sample: str) -> float:
    return after[sample] - before.get(sample, 0)


def test_answers_count_by_the_template_of_their_route(client: TestClient) -> None:
    before = scraped(client)
    client.get("/api/stages")
    client.get("/anna's/secret")
    client.get("/static/anna/secret.css")
    client.post("/api/compile", json={"text": 1})
    client.post("/api/compile", json={}, headers={"Origin": "https://elsewhere.example"})
    client.get("/api/stages", headers={"Host": "elsewhere.example"})
    after = scraped(client)
    expected = {("/api/stages", "200"): 1, ("none", "404"): 1, ("/static/{path}", "404"): 1}
    expected |= {("/api/compile", "422"): 1, ("none", "403"): 2}
    assert {key: grown(before, after, "explorer_requests_total", *key) for key in expected} == expected
    assert not [key for key in after if "secret" in str(key) or "elsewhere" in str(key)]


def test_compilations_count_by_outcome_and_their_stages_by_time(client: TestClient, transe: str) -> None:
    before = scraped(client)
    for text in (transe, transe, "score Anna(h: entity"):
        client.post("/api/compile", json={"text": text, "stages": ["loops", "cuda"]})
    after = scraped(client)
    assert grown(before, after, "explorer_compilations_total", "ok") == 1
    assert grown(before, after, "explorer_compilations_total", "diagnostics") == 1
    assert grown(before, after, "explorer_compile_cache_hits_total") == 1
    assert after["explorer_compile_cache_bytes",] > 1000
    assert grown(before, after, "explorer_compile_stage_seconds_count", "made", "loops") == 1
    assert grown(before, after, "explorer_compile_stage_seconds_sum", "made", "cuda") > 0
    assert not [key for key in after if "Anna" in str(key) or "TransE" in str(key)]


def test_runs_count_by_target_and_outcome(client: TestClient, transe: str) -> None:
    before = scraped(client)
    for text in (transe, "no model"):
        client.post("/api/run", json={"text": text, "on": "cpu", "batch": 8, "repeat": 1, "peers": False})
    after = scraped(client)
    assert grown(before, after, "explorer_runs_total", "result", "cpu") == 1
    assert grown(before, after, "explorer_runs_total", "error", "cpu") == 1


def test_workers_and_their_memory_are_told(client: TestClient, app: FastAPI) -> None:
    eventually(lambda: app.state.runners.warm and app.state.compilers.warm)
    before = scraped(client)
    assert before["explorer_workers", "run"] >= 1
    # The machine's Python alone has more than 10 MB, and so has each process of ours.
    assert min(before["explorer_memory_bytes", "server"], before["explorer_memory_bytes", "workers"]) > 10 << 20


def test_a_retired_worker_counts_once(client: TestClient, app: FastAPI) -> None:
    eventually(lambda: app.state.compilers.warm)
    before = scraped(client)
    killed = app.state.compilers.pids
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    client.post("/api/compile", json={"text": "score A"})
    eventually(lambda: retired(before, scraped(client)) == len(killed))
    eventually(lambda: len(set(app.state.compilers.pids) - set(killed)) >= len(killed))
    assert retired(before, scraped(client)) == len(killed)


def retired(before: Numbers, after: Numbers) -> float:
    return grown(before, after, "explorer_workers_retired_total", "compile")


@pytest.fixture
def served() -> Iterator[Served]:
    app = create_app()
    with serving(app) as server:
        gate = app.state.runners
        gate.pids, gate.retired = [], 0
        app.state.compiler = CompileService(gate, 1)
        app.state.runs = RunQueue(gate, 1, ended=app.state.metrics.ran)
        yield server


def told(served: Served) -> Numbers:
    head, _, body = served.get("/metrics").partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0], head
    return numbers(body.decode())


def test_students_pages_and_runs_are_told_as_they_are(served: Served) -> None:
    one, other = served.new_student(), served.new_student()
    eventually(lambda: told(served)["explorer_pages",] == 0)
    with served.page(one) as first, served.page(one) as second, served.page(other) as third:
        ask_for_run(first)
        said(first, "started")
        ask_for_run(second)
        ask_for_run(third)
        said(second, "queued")
        said(third, "queued")
        now = told(served)
        assert (now["explorer_students",], now["explorer_pages",]) == (2, 3)
        assert (now["explorer_runs_running",], now["explorer_runs_waiting",]) == (1, 2)
        second.send(json.dumps({"type": "cancel", "run": 1}))
        said(second, "failed")
    eventually(lambda: told(served).get(("explorer_runs_total", "cancelled", "cpu")) == 3)
    assert told(served)["explorer_requests_total", "/ws", "101"] == 5
    assert not [key for key in told(served) if one[:10] in str(key) or "127.0.0" in str(key)]


def test_a_queue_that_is_elsewhere_is_not_counted_here(served: Served) -> None:
    assert ("explorer_runs_waiting",) in told(served)
    served.app.state.runs, before = object(), served.app.state.runs
    try:
        now = told(served)
    finally:
        served.app.state.runs = before
    assert ("explorer_runs_waiting",) not in now
    assert ("explorer_compilations_running",) in now


@pytest.mark.parametrize(
    ("address", "header", "status"),
    [
        ("127.0.0.1", "", 200),
        ("127.8.0.1", "", 200),
        ("::1", "", 200),
        ("::ffff:127.0.0.1", "", 200),
        ("10.1.2.3", "", 200),
        ("192.0.2.7", "", 200),
        ("::ffff:10.1.2.3", "", 200),
        ("192.0.2.8", "", 403),
        ("8.8.8.8", "", 403),
        ("localhost", "", 403),
        ("", "", 403),
        ("127.0.0.1", "X-Forwarded-For", 403),
        ("127.0.0.1", "Forwarded", 403),
        ("10.1.2.3", "x-real-ip", 403),
        ("127.0.0.1", "Via", 403),
    ],
)
def test_numbers_are_for_this_computer_and_who_is_named(app: FastAPI, address: str, header: str, status: int) -> None:
    before, app.state.metrics_for = app.state.metrics_for, ("10.0.0.0/8", "192.0.2.7")
    try:
        answer = TestClient(app, client=(address, 1)).get("/metrics", headers={header: "127.0.0.1"} if header else {})
    finally:
        app.state.metrics_for = before
    assert answer.status_code == status
    assert ("explorer_requests_total" in answer.text) == (status == 200)


def test_two_applications_count_apart(client: TestClient) -> None:
    other = create_app()
    other.state.metrics.answered("/x", 200)
    assert ("explorer_requests_total", "/x", "200") not in scraped(client)


def test_addresses_of_both_kinds_are_in_networks_of_their_own() -> None:
    assert not is_of("10.0.0.1", ["2001:db8::/32"])
    assert is_of("2001:db8::5", ["10.0.0.0/8", "2001:db8::/32"])
    assert not is_local("10.0.0.1")


def test_memory_counts_what_was_started_and_what_that_started() -> None:
    # The outer holds still while its own child holds 60 MB.
    inner = "import sys; held = bytearray(b'x') * (60 << 20); print(flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        held = tree_bytes(process.pid)["workers"]
        process.stdin.close()
    assert 60 << 20 < held < 100 << 20
