"""One server for all tests of the web: starting its workers takes a few seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from explorer.web.app import create_app

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
    """A client of a server with one run at a time, a 20 s limit and one data file, `tiny.tsv`."""
    folder = tmp_path_factory.mktemp("data")
    write_triples(folder / "tiny.tsv")
    with TestClient(create_app(folder, hosts=frozenset({"testserver"}), concurrent_runs=1, run_seconds=20)) as client:
        yield client


def write_triples(path: Path) -> None:
    path.write_text("anna\tknows\tben\nben\tknows\tcleo\ncleo\tlikes\tanna\n", encoding="utf-8")
