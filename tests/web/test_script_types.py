"""What the server says is of the types that the page's scripts are checked against: tsc holds real messages to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html import unescape
from itertools import product
from pathlib import Path
from re import match, search
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.web.test_socket import events_of, order

DATA = {"kge/transe_l1": "tiny.tsv", "rgnn/rgcn": "tiny", "embedding/sls": "tiny"}
"""By example, of every family one, what it runs on."""
BROKEN = "op SLS(b: bog of row)"
OPTIONS = ("--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler")
NEEDED = {
    "cpu": ("device", "error_over_bound", "gradients", "limits", "median_ms", "sizes_from"),
    "dae": ("access", "basis", "cycles", "hit_rates", "occupancy", "pushed_first", "queues"),
}
"""By target fields of a result that the page reads."""


@pytest.fixture(scope="module")
def said(client: TestClient, root: Path) -> list[tuple[str, Any]]:
    """Messages by the name of their type: of a score, a layer and an op, on both targets that are always there."""
    texts = {name: (root / "examples" / f"{name}.emb").read_text(encoding="utf-8") for name in DATA}
    told: list[tuple[str, Any]] = [("Facts", facts_in(client.get(f"/?example={name}").text)) for name in DATA]
    told += [("Facts", facts_of_edit(client, BROKEN))]
    for family in ("score", "layer", "op"):
        told += [("Offered", entry) for entry in client.get(f"/api/data?family={family}").json()]
    told += [("Reuse", client.get("/api/locality?data=tiny").json())]
    told += [("Compiled", client.post("/api/compile", json={"text": texts["rgnn/rgcn"], "stages": ["loops"]}).json())]
    state: Any = client.app.state  # type: ignore[attr-defined]
    told += [("ClassNotice", state.classroom.notice(state.runs))]
    with client.websocket_connect("/ws") as socket:
        for number, (name, on) in enumerate(product(DATA, NEEDED)):
            socket.send_json(order(number, texts[name], on=on, data=DATA[name], batch=64))
            told += [("RunEvent", event) for event in events_of(socket, number)]
        tuned = order(8, texts["embedding/sls"], on="dae", data=DATA["embedding/sls"])
        socket.send_json({**tuned, "tune": {"trials": 3, "search": "random"}})
        told += [("RunEvent", event) for event in events_of(socket, 8)]
        socket.send_json(order(9, BROKEN))
        told += [("RunEvent", event) for event in events_of(socket, 9)]
    return told


def facts_of_edit(client: TestClient, text: str) -> Any:
    fields = {"text": text, "edit": 2, "good": 1, "sizes": "{}", "default_sizes": "{}", "options": "{}", "data": ""}
    headers = {"HX-Request": "true", "origin": "http://testserver"}
    panes = json.dumps([{"stage": "graph"}])
    return facts_in(client.post("/compile", data={**fields, "panes": panes, "against": "null"}, headers=headers).text)


def facts_in(page: str) -> Any:
    found = search(r'data-facts="([^"]*)"', page)
    assert found, page[:300]
    return json.loads(unescape(found[1]))


def told_wrong(said: list[tuple[str, Any]], folder: Path, root: Path) -> dict[int, str]:
    """By number of a message what tsc says where it is handed to a function that takes its type. More fields than the
    type names are no fault."""
    names = sorted({name for name, _ in said})
    calls = [f"take{name}({json.dumps(message)});" for name, message in said]
    head = [
        f'import type {{ {", ".join(names)} }} from "{(root / "static" / "js" / "types.d.ts").as_posix()}";',
        *(f"declare function take{name}<const T extends {name}>(said: T): void;" for name in names),
    ]
    (folder / "said.ts").write_text("\n".join([*head, *calls]), encoding="utf-8")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    command = [str(root / "node_modules" / ".bin" / "tsc"), *OPTIONS, "said.ts"]
    ran = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert (ran.returncode == 0) == (ran.stdout == ""), ran.stderr
    errors = [match(r"said\.ts\((\d+),.*?: (error .*)", line) for line in ran.stdout.splitlines() if line[:1] != " "]
    assert all(errors), ran.stdout
    return {int(error[1]) - len(head) - 1: error[2] for error in errors if error}


def without(message: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != field}


def test_what_the_server_says_is_of_the_scripts_types(said: list[tuple[str, Any]], tmp_path: Path, root: Path) -> None:
    kinds = {message["event"] for name, message in said if name == "RunEvent"}
    assert kinds >= {"started", "progress", "sample", "space", "trial", "result", "failed"}
    # A result that lacks a field is told: then silence about the others says something.
    right = {message["target"]: message for _, message in said if message.get("matches_reference")}
    assert right.keys() == NEEDED.keys()
    lacking = [("RunEvent", without(right[target], field)) for target in NEEDED for field in NEEDED[target]]
    wrong = told_wrong([*said, *lacking], tmp_path, root)
    assert sorted(wrong) == [len(said) + number for number in range(len(lacking))], wrong
