"""Nsight Compute's command line: where it is, and what it prints. Needs nothing but Python."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

COMPLAINT = re.compile(r"^==ERROR== (?!The application returned).+", re.MULTILINE)
"""What ncu says where it cannot do its own part."""


class Failed(Exception):
    """Why a program did not do what it was started for."""


class NoCounters(Failed):
    """Why ncu cannot measure here: it is not there, or this user may not read the device's counters."""


def find_ncu() -> str:
    """ncu on the path, or of the newest toolkit in the usual places; "" where there is none."""
    places = [*Path("/usr/local").glob("cuda*/bin/ncu"), *Path("/opt/nvidia/nsight-compute").glob("*/ncu")]
    return which("ncu") or next((str(place) for place in sorted(places, reverse=True)), "")


def version_of(ncu: str) -> str:
    """Its name and version."""
    found = re.search(r"Version ([\d.]+\d)", run([ncu, "--version"], 60))
    return f"ncu {found[1]}" if found else "ncu"


def run(command: Sequence[str], seconds: float, cwd: Path | None = None) -> str:
    """What a program prints. Raises Failed where it ends badly or takes longer: then it ends with all that it began."""
    name, pipe = Path(command[0]).name, subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True, cwd=cwd
    ) as process:
        try:
            said, complained = process.communicate(timeout=max(seconds, 1))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"{name} took longer than {seconds:.0f} s") from None
            raise
    if process.returncode:
        kind = NoCounters if COMPLAINT.search(complained + said) else Failed
        raise kind(f"{name} ended with {process.returncode}: {end_of(complained + said)}")
    return said


def end_of(text: str) -> str:
    """What ncu itself complains of, and else the last that was said, in a line."""
    complaints = " ".join(COMPLAINT.findall(text))
    return complaints[:400] or " ".join(text.split())[-400:]
