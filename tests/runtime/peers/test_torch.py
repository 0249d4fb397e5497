"""The graph evaluated by PyTorch: the reference's numbers and gradients for every example, as its user wrote it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.runtime.runs import layer as run_layer
from explorer.runtime.runs import op as run_op
from explorer.runtime.runs import score as run_score
from explorer.runtime.runs.request import RunRequest, Setup, compile_request

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*/*.emb"))
PREPARE: dict[str, Any] = {"score": run_score.prepare, "layer": run_layer.prepare, "op": run_op.prepare}


@pytest.fixture(autouse=True)
def pretended_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run is told of a GPU's memory, where there is none."""
    monkeypatch.setattr("explorer.runtime.targets.gpu.device.available_bytes", lambda: 8 << 30)


def data_of(compilation: explorer.Compilation, folder: Path) -> str:
    """Small data for a definition."""
    graph: Any = compilation.stages["graph"].program
    rows = {"bags": {"ptr": [0, 2, 2, 5], "idx": [1, 0, 3, 3, 1]}, "blocks": {"ptr": [0, 1, 3], "blocks": [2, 0, 1]}}
    matrix = {"row": [0, 2, 2, 1], "col": [1, 0, 3, 3], "num_rows": 4, "num_cols": 4}
    if compilation.family == "layer":
        return "tiny"
    if compilation.family == "score":
        (folder / "few.tsv").write_text("".join(f"e{i}\tr{i % 2}\te{(i + 1) % 4}\n" for i in range(5)))
        return str(folder / "few.tsv")
    arrays = rows.get(graph.structure, matrix)
    np.savez(folder / "lists.npz", **{name: np.array(array) for name, array in arrays.items()})
    return str(folder / "lists.npz")


def set_up(text: str, folder: Path, **options: Any) -> Setup:
    compilation = explorer.compile(text)
    sizes = {name: 2 * place + 4 for place, name in enumerate(compilation.sizes)}
    if "H" in sizes and "G" in sizes:
        sizes |= {"H": 2, "G": 6}
    request = RunRequest(
        text=text, on="gpu", sizes=sizes, batch=7, data=data_of(compilation, folder), options={"grad": True, **options}
    )
    steps = PREPARE[compilation.family](request, compile_request(request))
    try:
        while True:
            next(steps)
    except StopIteration as ready:
        made: Setup = ready.value
        return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_gives_the_reference_and_right_gradients(path: Path, tmp_path: Path) -> None:
    from explorer.runtime.peers import timed as peers

    setup = set_up(path.read_text(), tmp_path)
    peer = peers.eager(setup, "cpu")
    assert peer.reason == ""
    assert peer.check is not None
    assert peer.check.matches
    gradients = setup.finished(*peer.outcome())[1]
    setup.check_gradients(gradients, lambda arrays: pytest.fail("small runs are checked whole"))
    assert setup.gradients_match, setup.gradients


def test_negatives_are_scored(tmp_path: Path) -> None:
    from explorer.runtime.peers import timed as peers

    path = next(path for path in EXAMPLES if path.stem == "transr")
    assert peers.eager(set_up(path.read_text(), tmp_path, negatives="tail:3", grad=False), "cpu").reason == ""


def test_what_learns_nothing_has_no_gradients(tmp_path: Path) -> None:
    """PyTorch refuses to differentiate a result without parameters; its time is that of the result."""
    from explorer.runtime.peers import timed as peers

    text = 'layer Degree(g: graph):\n    for n in g.nodes():\n        n["d"] = n.in_degree + 0.5\n    return n["d"]\n'
    peer = peers.eager(set_up(text, tmp_path), "cpu")
    assert peer.reason == ""
    assert peer.outcome()[1] == {}
