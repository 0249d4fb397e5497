"""The log as lines of JSON: one an answer, with its number, and nothing of what was sent or from where."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from explorer.web.monitoring.logs import JsonLines, request_id
from tests.web.serving import PATIENCE


def test_every_answer_is_a_line_and_says_nothing_that_was_sent(root: Path) -> None:
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--log-format", "json"]
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": root}
    with subprocess.Popen(command, env=os.environ | {"PYTHONUNBUFFERED": "1"}, **settings) as server:
        assert server.stdout is not None
        (port,) = re.findall(r":(\d+)/", server.stdout.readline())
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            number = client.get("/healthz?text=anna").headers["x-request-id"]
            client.get("/anna/was/here", headers={"X-Forwarded-For": "8.8.8.8"})
            client.get("/examples/anna/ben")
            client.request("DELETE", "/healthz")
            client.post("/api/compile", json={"text": "score Anna(", "stages": ["anna"]})
        server.terminate()
        _, log = server.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in log.splitlines()]
    told = [(line["method"], line["route"], line["status"]) for line in lines]
    assert told == [
        ("GET", "/healthz", 200),
        ("GET", "none", 404),
        ("GET", "/examples/{folder}/{name}", 404),
        ("DELETE", "/healthz", 405),
        ("POST", "/api/compile", 422),
    ]
    assert lines[0]["request"] == number
    assert len({line["request"] for line in lines}) == len(lines)
    assert all(line["ms"] >= 0 and line["level"] == "info" and line["time"].endswith("+00:00") for line in lines)
    assert not re.search(r"anna|ben|8\.8\.8\.8|127\.0\.0\.1", log, re.IGNORECASE)


def test_a_fault_is_told_by_its_type_and_place() -> None:
    try:
        raise KeyError("Anna's text")
    except KeyError:
        record = logging.LogRecord("explorer.web.app", logging.ERROR, "", 0, "%s failed", ("/compile",), sys.exc_info())
    number = request_id.set("0123")
    try:
        line = JsonLines().format(record)
    finally:
        request_id.reset(number)
    told = json.loads(line)
    assert (told["message"], told["error"], told["request"]) == ("/compile failed", "KeyError", "0123")
    assert re.fullmatch(r".*test_logs\.py:\d+", told["raised"][-1])
    assert "Anna" not in line
