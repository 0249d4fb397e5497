"""Importing the compiler loads what a compilation to CUDA begins with, and nothing that takes long to load."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "lark", "importlib.metadata", "tempfile", "subprocess", "difflib", "numba", "torch")


def test_the_import_of_the_compiler_loads_nothing_heavy() -> None:
    script = f"import sys, explorer.compiler; print(sorted({{*{HEAVY!r}}} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_import_of_the_compiler_writes_few_functions() -> None:
    """The dataclasses of the standard library compile up to six functions each, when they are defined."""
    script = (
        "import dataclasses; made = []; create = dataclasses._create_fn;"
        "dataclasses._create_fn = lambda name, *rest, **named: made.append(name) or create(name, *rest, **named);"
        "import explorer.compiler; print(len(made))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250, check=True)
    assert int(shown.stdout) < 200, shown.stdout
