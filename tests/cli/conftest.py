"""A model in a file, and runs in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from explorer.runtime.workers.worker import run_model
from tests.cli.calling import TRANSE


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "transe.emb"
    path.write_text(TRANSE, encoding="utf-8")
    return path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, which has loaded what they need: what a run answers is the same in a worker of its own."""

    def stream(request: Mapping[str, Any], **_: Any) -> Iterator[dict[str, Any]]:
        for event in run_model(json.loads(json.dumps(request))):
            yield json.loads(json.dumps(event, allow_nan=False))

    monkeypatch.setattr("explorer.runtime.workers.pool.stream_here", stream)
