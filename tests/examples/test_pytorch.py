"""The page's modules of PyTorch, traced again: the texts that are shown, and the source's lines that they link to."""

from __future__ import annotations

import importlib
import json

import pytest

torch = pytest.importorskip("torch", reason="what is traced is PyTorch's, which this machine does without")

from explorer.runtime.trace import trace  # noqa: E402

trace_all = importlib.import_module("examples.trace_all")

SHOWN = json.loads(trace_all.RECORD.read_text(encoding="utf-8"))


def test_every_module_is_shown_as_the_file_is_written() -> None:
    assert list(SHOWN) == [path.stem for path in sorted(trace_all.FOLDER.glob("*.py"))]
    assert trace_all.as_json(SHOWN) == trace_all.RECORD.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHOWN)
def test_a_module_is_traced_to_what_is_shown(name, monkeypatch) -> None:
    # What was written was held against the module then, which takes most of the time; the same text is the same.
    monkeypatch.setattr(trace, "check", lambda *_: None)
    found = trace_all.traced(trace_all.FOLDER / f"{name}.py")
    assert [list(line) for line in found] == SHOWN[name], "`make traced` writes them anew: read the difference"


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_computed_is_linked_to_lines_of_the_forward_pass(name) -> None:
    source = (trace_all.FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    for line, asked in SHOWN[name]:
        computes = " = " in line or (line.startswith("    return ") and not line.endswith('"]'))
        assert bool(asked) == computes, line
        assert all("=" in source[each - 1] or "return" in source[each - 1] for each in asked)
