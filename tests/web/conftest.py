"""One server for all tests of the web: starting its workers takes a few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from explorer.web.app import create_app
from explorer.web.compiling import CompileService
from explorer.web.queue import RunQueue

TRANSE = """dim D = 64
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""


@pytest.fixture(scope="session")
def transe() -> str:
    """A model that every target runs."""
    return TRANSE


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a server with one run at a time, two minutes for each and one for a compilation, of a host that other
    tests keep busy, and one data file, `tiny.tsv`."""
    folder = tmp_path_factory.mktemp("data")
    write_triples(folder / "tiny.tsv")
    app = create_app(folder, hosts=frozenset({"testserver"}), concurrent_runs=1, run_seconds=120, compile_seconds=60)
    with TestClient(app) as client:
        yield client


@pytest.fixture
def limits_of(client: TestClient) -> Iterator[Callable[..., None]]:
    """Sets limits of the server for this test, on the processes that it has: others would take seconds to start."""
    state: Any = client.app.state  # type: ignore[attr-defined]
    runs, compiler = state.runs, state.compiler

    def limit(run_seconds: float = 120, runs_waiting: int = 10, compile_seconds: float = 60) -> None:
        state.runs = RunQueue(state.runners, 1, run_seconds, runs_waiting)
        state.compiler = CompileService(compiler._pool, 1, compile_seconds)

    yield limit
    state.runs, state.compiler = runs, compiler


def write_triples(path: Path) -> None:
    path.write_text("anna\tknows\tben\nben\tknows\tcleo\ncleo\tlikes\tanna\n", encoding="utf-8")
