"""What this host gives the server: found out by trying, in processes like its workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.checkout import CHECKOUT
from explorer.runtime.workers.isolation import landlock, seccomp

SECONDS = 60.0
ROLES = ("compile", "run", "run-compiling")
WORK = {"compile": "compiles", "run": "runs", "run-compiling": "runs beside torch.compile"}
LEFT = {"compile": ("start a program",), "run": (), "run-compiling": ("start a program",)}
"""What a role may do of what is tried: compiling starts nvdisasm, and torch.compile beside a run g++."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, whether it is as the server would have it, and what was found."""

    what: str
    fine: bool
    found: str


def findings() -> Iterator[Finding]:
    """One after another, as they are found."""
    from explorer.runtime.targets.table import TARGETS

    version = landlock.version()
    yield Finding("Landlock", version > 0, f"version {version}" if version else "this kernel has none: no files kept")
    found = seccomp.LIBRARY if seccomp.available() else f"no {seccomp.LIBRARY}: install Debian's libseccomp2"
    yield Finding("seccomp", seccomp.available(), found)
    for role in ROLES:
        yield _worker(role)
    built = (CHECKOUT / "static" / "dist").is_dir()
    yield Finding("page", built, "its scripts are built" if built else "no static/dist: run make bundle")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", cores > 1, str(cores))
    for name, target in TARGETS.items():
        missing = target.missing()
        yield Finding(f"runs on {name}", not missing, missing or "can be had")


def _worker(role: str) -> Finding:
    what = f"worker that {WORK[role]}"
    command = [sys.executable, "-m", "explorer.runtime.workers.isolation.probe", role]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return Finding(what, False, f"cannot be isolated: {why}")
    answer = json.loads(done.stdout)
    could = [name for name, refused in answer["refused"].items() if not refused and name not in LEFT[role]]
    said = f"can {', '.join(could)}" if could else f"can neither {', nor '.join(answer['refused'])}"
    return Finding(what, not could, f"{said} ({', '.join(answer['held'])})")
