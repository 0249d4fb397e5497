"""The check of results raises no alarm at random programs: a sample here, the many by `quiet.py` itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

QUIET = Path(__file__).with_name("quiet.py")


def alarms(targets: str, count: int, seed: int) -> str:
    """What the command says where it finds an alarm or a program that does not run; "" where there are none."""
    command = [sys.executable, str(QUIET), "--targets", targets, "--count", str(count), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_check_is_quiet_on_random_programs() -> None:
    assert alarms("loops,dlc", 60, seed=100_000) == ""


@pytest.mark.sweep
@pytest.mark.parametrize(("targets", "count"), [("dae", 300), ("cpu", 150)])
def test_the_check_is_quiet_on_random_programs_of_a_target(targets: str, count: int) -> None:
    assert alarms(targets, count, seed=200_000) == ""
