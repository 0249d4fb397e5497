"""torch.compile beside a run of the page's: on offer where the server's operator says so, and refused elsewhere."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.runtime.workers.isolation import seccomp
from explorer.runtime.workers.pool import WorkerPool
from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.messages import MessageError, RunMessage
from explorer.web.runs import run_request
from explorer.web.server import ServeError, Settings, new_server
from tests.web.held import without_processes

TEXT = "op Sum(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n"
BODY = {"text": TEXT, "on": "cpu", "data": "RM1:L0", "repeat": 2, "torch_compile": True}
CAN = importlib.util.find_spec("torch") is not None and shutil.which("g++") is not None


def test_a_server_offers_it_only_where_it_was_started_so() -> None:
    with without_processes(), TestClient(create_app(), base_url="http://localhost") as client:
        assert "torch.compile is not on offer: it takes a server that was" in client.get("/").text
        refused = client.post("/api/run", json=BODY)
        assert refused.status_code == 422
        assert refused.json()["message"].startswith("torch.compile is not on offer here: it takes a server")


@pytest.mark.sweep
@pytest.mark.skipif(not CAN, reason="needs PyTorch and g++")
def test_a_worker_that_is_kept_compiles_and_times_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PEER_COMPILE_SECONDS", 250.0)  # of a host that other tests keep busy
    app = create_app(compile_peers=True)
    with TestClient(app, base_url="http://localhost") as client:
        assert 'id="run-cpu-compiled"' in client.get("/").text
        result = client.post("/api/run", json={**BODY, "batch": 2}).json()
    assert result["matches_reference"], result
    (peer,) = result["peers"]
    assert peer["reason"] == ""
    assert peer["compile_ms"] > peer["median_ms"]


def test_a_host_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.runtime.peers.compiled.hindrance", lambda device: "there is no g++ here")
    assert create_app(compile_peers=True).state.compile_refused == "there is no g++ here"


@pytest.mark.skipif(not CAN or not seccomp.available(), reason="needs PyTorch, g++ and seccomp")
def test_a_worker_that_may_start_nothing_says_so_and_runs() -> None:
    async def run() -> dict[str, Any]:
        pool = WorkerPool("run", spare=0)
        asked = {name: value for name, value in BODY.items() if name != "torch_compile"}
        try:
            found = [event async for event in pool.stream({**asked, "compile_seconds": 60.0}, 120)]
            return dict(found[-1])
        finally:
            await pool.close()

    last = asyncio.run(run())
    assert last["matches_reference"], last
    (peer,) = last["peers"]
    assert peer["reason"] == "it starts a compiler, and the processes that run models here may start no program"


@pytest.mark.parametrize(("asked", "seconds"), [(True, limits.PEER_COMPILE_SECONDS), (False, None)])
def test_what_a_worker_is_asked(asked: bool, seconds: float | None) -> None:
    assert limits.RUN_SECONDS + (seconds or 0.0) <= limits.STOP_SECONDS, "a server that ends lets its runs end"
    message = RunMessage.model_validate({**BODY, "torch_compile": asked})
    state = create_app().state
    state.compile_refused = ""
    request = asyncio.run(run_request(message, state))
    assert request["compile_seconds"] == seconds
    assert "torch_compile" not in request
    state.compile_refused = "no compiler"
    if asked:
        with pytest.raises(MessageError, match="no compiler"):
            asyncio.run(run_request(message, state))


@pytest.mark.parametrize("more", [{"on": "dae"}, {"tune": {"trials": 4}}])
def test_a_run_that_compiles_nothing_beside_it_has_no_more_time(more: dict[str, Any]) -> None:
    state = create_app().state
    state.compile_refused = ""
    request = asyncio.run(run_request(RunMessage.model_validate({**BODY, **more}), state))
    assert request["compile_seconds"] is None


def test_workers_of_a_queue_have_none() -> None:
    with pytest.raises(ServeError, match="goes without --queue"):
        new_server(Settings("127.0.0.1", 0, queue="redis://localhost", compile_peers=True))
