"""Traces the modules of examples/pytorch, and writes what the page shows of them: examples/pytorch/traced.json.

    python examples/trace_all.py     # or `make traced`

By module, the file has the lines of its text, and with each the lines of the module's source that ask for it. A test
traces them again, so what the page shows is what the tracer makes today; the page itself never runs Python.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("trace_all: PyTorch is not installed here: pip install torch")

import explorer

FOLDER = Path(__file__).parent / "pytorch"
RECORD = FOLDER / "traced.json"

Line = tuple[str, list[int]]
"""A line of a text, and the lines of the source that ask for what it computes, from 1 on."""


def traced(path: Path) -> list[Line]:
    """The text of the module that a file's `example` returns, with its inputs."""
    spec = importlib.util.spec_from_file_location(f"traced_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    torch.manual_seed(0)
    found = explorer.trace(*made.example())
    asked = [[each.line for each in lines if each.file == str(path)] for lines in found.lines]
    return list(zip(found.text.splitlines(), asked, strict=True))


def as_json(texts: dict[str, list[Line]]) -> str:
    """A line of JSON for each line of a text."""
    models = (
        f"{json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(line)}" for line in lines) + "\n]"
        for name, lines in texts.items()
    )
    return "{\n" + ",\n".join(models) + "\n}\n"


if __name__ == "__main__":
    RECORD.write_text(as_json({path.stem: traced(path) for path in sorted(FOLDER.glob("*.py"))}), encoding="utf-8")
    print(f"{RECORD}: {len(json.loads(RECORD.read_text(encoding='utf-8')))} modules")
