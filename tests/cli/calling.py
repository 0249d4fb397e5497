"""The command line as a user meets it: its output, its exit status. In a real process, or where it is what runs that is
asked for, with a real worker, only where that makes a difference: one takes a second to start, the other two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.cli import main

TRANSE = """dim D = 64
score TransE(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return norm(E[h] + R[r] - E[t], 1)
"""

LAYERS = Path(__file__).resolve().parents[2] / "examples" / "rgnn"
SCORES = LAYERS.parent / "kge"
OPS = LAYERS.parent / "embedding"

STAGES = ["graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cuda", "ptx", "sass"]

runs_here = pytest.mark.usefixtures("here")


def explorer(*arguments: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "explorer.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, **settings)


def called(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The command line in this process: status, stdout, stderr."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err
