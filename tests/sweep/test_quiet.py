"""The check of results raises no alarm at random programs: a sample here, the many by `quiet.py` itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUIET = Path(__file__).with_name("quiet.py")


def alarms(targets: str, count: int, seed: int, scale: float = 1.0, compiled: bool = True) -> str:
    """What the command says where it finds an alarm or a program that does not run; "" where there are none. What is
    not `compiled` is the text of the CPU's functions, as Python."""
    command = [sys.executable, str(QUIET), "--targets", targets, "--count", str(count), "--seed", str(seed)]
    environment = os.environ | ({} if compiled else {"NUMBA_DISABLE_JIT": "1"})
    command += ["--scale", str(scale)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_check_is_quiet_on_random_programs() -> None:
    assert alarms("loops,dlc,kernels", 30, seed=100_000) == ""


def test_the_check_is_quiet_on_random_programs_of_numbers_that_overflow() -> None:
    assert alarms("loops", 40, seed=110_000, scale=1e30) == ""


@pytest.mark.parametrize(
    "part", [pytest.param(4, marks=pytest.mark.sweep), pytest.param(1, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize(
    ("targets", "count", "compiled"),
    [
        ("loops,dlc", 120, True),
        ("dae", 600, True),
        ("cpu", 60, True),
        ("cpu", 600, False),
        ("kernels", 600, True),
        ("emulator", 60, True),
    ],
)
def test_the_check_is_quiet_on_random_programs_of_a_target(targets: str, count: int, compiled: bool, part: int) -> None:
    assert alarms(targets, count // part, seed=200_000, compiled=compiled) == ""
