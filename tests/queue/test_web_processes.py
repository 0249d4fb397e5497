"""Runs over two web processes and a real queue: a page whose process is killed follows its run over the other."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.queue.conftest import Server
from tests.queue.test_page import LONG, SAMPLED, worker  # noqa: F401  # a fixture
from tests.web.processes.starting import Several, several
from tests.web.serving import PATIENCE, eventually
from tests.web.test_socket import order


def page_of(served: Several) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{served.port}/ws", open_timeout=PATIENCE)


def test_a_run_goes_on_at_another_process(server: Server, worker: Popen[str], tmp_path: Path) -> None:  # noqa: F811
    with several(tmp_path, server.url) as served:
        one = served.pids[0]
        with served.client() as client:
            eventually(lambda: client.get("/readyz").status_code == 200)
        with served.only(one):
            opened = page_of(served)
        seen = []
        with opened as page, suppress(ConnectionClosed):
            page.send(json.dumps(order(1, **LONG)))
            while not seen or seen[-1]["event"] != "sample":
                seen.append(json.loads(page.recv()))
            os.kill(one, signal.SIGKILL)
            while True:  # what was on its way still comes
                seen.append(json.loads(page.recv()))
        eventually(lambda: one not in served.pids)
        assert seen[-1]["event"] == "sample"
        at = [event["at"] for event in seen if "at" in event][-1]
        with page_of(served) as page:
            page.send(json.dumps({"type": "resume", "run": 1, "edit": 11, "at": at}))
            while seen[-1]["event"] not in ("result", "failed"):
                seen.append(json.loads(page.recv()))
    assert [event["triples"] for event in seen if event["event"] == "sample"] == SAMPLED
    assert seen[-1]["event"] == "result"
    assert "repeated" not in [event["event"] for event in seen]
