"""Runs of scores and layers on the machine at every level, as the command line and the page ask for them; those of
ops are in test_run_op.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.runtime.run import RunRequest, execute

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCORES = sorted((EXAMPLES / "kge").glob("*.emb"))
LAYERS = sorted((EXAMPLES / "rgnn").glob("*.emb"))
SMALL = {"D": 19, "K": 5, "F": 6, "G": 17, "H": 2}
TRIPLES = "".join(f"e{n % 7}\tr{n % 3}\te{n * n % 11}\n" for n in range(40))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("path", [*SCORES, *LAYERS], ids=lambda path: path.stem)
def test_every_example_is_right_on_the_machine_at_every_level(path: Path, level: int, tmp_path: Path) -> None:
    text, data = path.read_text(), tmp_path / "triples.tsv"
    data.write_text(TRIPLES)
    sizes = {name: size for name, size in SMALL.items() if f" {name} =" in text}
    source = str(data) if path in SCORES else "tiny"
    options = {"opt": level}
    found = list(execute(RunRequest(text=text, on="dae", data=source, sizes=sizes, batch=7, options=options)))[-1]
    assert found["event"] == "result", found
    assert found["matches_reference"], found["max_relative_error"]
    assert found["cycles"] > 0
