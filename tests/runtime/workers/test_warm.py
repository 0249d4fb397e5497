"""A worker that compiles, when it is ready: nobody's first text waits for what the compiler loads with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def test_the_first_texts_load_nothing_more() -> None:
    script = """
import sys
from pathlib import Path
from explorer.compiler.pipeline import STAGES
from explorer.runtime.workers.worker import compile_model, warm_compile

warm_compile()
before = set(sys.modules)
for name in ("kge/transe_l1", "rgnn/rgat", "embedding/sls", "embedding/spmm"):
    text = Path(f"examples/{name}.emb").read_text()
    asked = {"text": text, "stages": [spec.name for spec in STAGES if not spec.on_demand], "or_usual": True}
    assert [event["ok"] for event in compile_model({**asked, "snapshots": [], "effects": []})] == [True]
assert not set(sys.modules) - before, set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-c", script], timeout=250, check=True, cwd=CHECKOUT)
