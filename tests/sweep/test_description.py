"""A served app answers what its description says, whatever is asked that fits it or does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.sweep.hostile import started

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.parametrize(
    "most", [pytest.param(15, marks=pytest.mark.sweep), pytest.param(40, marks=pytest.mark.exhaustive)]
)
def test_schemathesis_finds_nothing(tmp_path: Path, most: int) -> None:
    pytest.importorskip("schemathesis")
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", "--no-color", "--seed=1"]
    with started(tmp_path) as (port, _):
        page = f"http://127.0.0.1:{port}"
        cookies = "; ".join(f"{name}={value}" for name, value in httpx.get(page).cookies.items())
        assert cookies  # a page's: without one no file is kept
        done = subprocess.run(
            [
                *command,
                *("--phases=examples,coverage,fuzzing", "--request-timeout=90", "--warnings=off"),
                f"--max-examples={most}",
                *("--header", f"Cookie: {cookies}", f"{page}/api/openapi.json"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    # A text of 256 KiB is among what it shows.
    assert done.returncode == 0, "\n".join(line[:500] for line in done.stdout.splitlines()) + done.stderr[-2000:]
    assert (tmp_path / "log").read_text() == ""
