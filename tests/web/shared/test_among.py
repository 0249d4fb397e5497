"""What one of several processes has of what one alone would have."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.entrance.connections import most_connections
from explorer.web.shared.among import Among, share


def among(folder: Path, processes: int) -> list[Among]:
    return [Among(number, processes, folder, b"secret") for number in range(processes)]


@pytest.mark.parametrize("total", [0, 1, 2, 3, 7, 16])
@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_all_have_together_what_one_would_have(tmp_path: Path, total: int, processes: int) -> None:
    shares = [share(total, each) for each in among(tmp_path, processes)]
    assert sum(shares) == share(total, None) == total
    assert max(shares) - min(shares) <= 1


@pytest.fixture
def own_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("own_files")
def test_connections_are_shared_out(tmp_path: Path) -> None:
    alone = most_connections()
    assert sum(most_connections(each) for each in among(tmp_path, 4)) <= max(alone, limits.CONNECTIONS)
    assert most_connections(among(tmp_path, 4)[0]) < alone


def test_processes_that_compile_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One each at least, and what one server has to spare once."""
    monkeypatch.setattr("explorer.runtime.workers.pool.WorkerPool.open", lambda _: None)
    monkeypatch.setattr(limits, "concurrent_compiles", lambda: 3)
    monkeypatch.setattr(limits, "concurrent_late", lambda: 1)
    found = []
    for each in among(tmp_path, 2):
        app = create_app(among=each)
        with TestClient(app):
            found.append((app.state.compilers._total, app.state.late._total, app.state.keeper.tidies))
    assert found == [(2 + 1, 1, True), (1, 1, False)]
