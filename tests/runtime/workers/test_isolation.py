"""What a server's worker is kept to, on this host: found out by workers and by processes that are kept as they are."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
import pytest
from fastapi.testclient import TestClient

from explorer.checkout import CHECKOUT
from explorer.runtime.workers.isolation import doctor, landlock, seccomp
from explorer.runtime.workers.pool import WorkerPool
from explorer.web.app import create_app

TRANSE = """score TransE(h: entity, r: relation, t: entity):
    param E[entity, 4], R[relation, 4]
    return norm(E[h] + R[r] - E[t], 2)
"""
BY = {
    "landlock": ("read a file", "change a file", "list a folder"),
    "seccomp": ("open a connection", "listen for one", "start a program", "be looked into"),
}
"""What refuses each of the attempts."""


@pytest.mark.parametrize("role", doctor.ROLES)
def test_a_worker_is_refused_what_it_has_no_business_with(role: str) -> None:
    command = [sys.executable, "-m", "explorer.runtime.workers.isolation.probe", role]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout)
    given = {"landlock": landlock.version() > 0, "seccomp": seccomp.available()}
    assert answer["held"] == ["limits", *(name for name, given_here in given.items() if given_here)]
    expected = {name for held, names in BY.items() if given[held] for name in names} - set(doctor.LEFT[role])
    assert expected <= {name for name, refused in answer["refused"].items() if refused}


def test_this_host_keeps_workers() -> None:
    """CI's kernel and library do; a test that they are not there would say nothing of the rest."""
    if sys.platform != "linux":
        pytest.skip("Landlock and seccomp are Linux's")
    assert landlock.version() > 0
    assert seccomp.available()


def test_a_worker_that_is_kept_still_compiles_to_machine_code_and_reads_its_folders(tmp_path: Path) -> None:
    async def compile_there() -> tuple[str, dict[str, object]]:
        pool = WorkerPool("compile", spare=0, folders=[tmp_path])
        try:
            request = {"text": TRANSE, "stages": ["sass"], "first": False}
            found = [event async for event in pool.stream(request, 250)][-1]
            return Path(f"/proc/{pool.pids[0]}/status").read_text(), dict(found)
        finally:
            await pool.close()

    status, found = asyncio.run(compile_there())
    assert found["event"] == "result", found
    assert b"MUFU" in found["line"]  # SASS, by a program that it starts
    assert "NoNewPrivs:\t1" in status
    assert ("Seccomp:\t2" in status) == seccomp.available()


def test_a_folder_that_was_given_is_read_and_another_is_not() -> None:
    script = (
        "from pathlib import Path; from explorer.runtime.workers.isolation.worker import isolate\n"
        "isolate('run', [Path('/etc/apt')])\n"
        "print(len(list(Path('/etc/apt').iterdir())) > 0)\n"
        "list(Path('/etc/default').iterdir())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250, check=False)
    assert done.stdout == "True\n"
    assert ("PermissionError" in done.stderr) == (landlock.version() > 0)


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder with one file of lists where no worker may look unasked: temporary files are elsewhere."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        assert not folder.startswith(gettempdir() + os.sep)
        np.savez(Path(folder, "own.npz"), row=[2, 0, 1], col=[0, 1, 1])
        yield Path(folder)


def test_a_servers_workers_read_its_data(data: Path) -> None:
    with TestClient(create_app(data), base_url="http://localhost") as client:
        found = client.get("/api/locality", params={"data": "own.npz"})
        assert found.status_code == 200, found.text
        bags = (CHECKOUT / "examples" / "embedding" / "spmm_coo.emb").read_text()
        body = {"text": bags, "on": "cpu", "data": "own.npz", "repeat": 1}
        ran = client.post("/api/run", json=body)
        assert ran.status_code == 200, ran.text
        assert ran.json()["matches_reference"]
