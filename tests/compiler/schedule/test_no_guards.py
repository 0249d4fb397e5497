"""No kernel looks while it runs whether it is inside its arrays, and none is refused for it: examples as they are timed
and on graphs of all sizes, and models from the literature, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.module import Module
from explorer.runtime.data.graphs import graph_counts
from tests.compiler.swaps import ROOT, ZOO

LAYERS = sorted((ROOT / "examples" / "rgnn").glob("*.emb"))


def guards_of(compilation: Compilation) -> list[str]:
    """The lines of kernels' schedules that name a guard; there are kernels."""
    assert compilation.ok
    stage = compilation.stages["kernels"]
    assert stage.available, stage.reason
    program: Any = stage.program
    kernels = program.programs if isinstance(program, Module) else (program,)
    return [line for kernel in kernels for line in kernel.schedule if line.startswith("guard ")]


def check(path: Path, options: Mapping[str, Any], counts: Mapping[str, int] | None = None) -> None:
    """Asks for no guard in a text's kernels."""
    assert guards_of(explorer.compile(path.read_text(), options=options, counts=counts, on_demand=True)) == []


def test_rows_that_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their sizes, counts and options."""
    pytest.importorskip("torch", reason="the rows' peers are PyTorch's, which this machine does without")
    from benchmarks._gpu_rows import ROWS

    made: list[Compilation] = []
    compiled = explorer.compile

    def kept(*of: Any, **options: Any) -> Compilation:
        made.append(compiled(*of, **options))
        return made[-1]

    monkeypatch.setattr(explorer, "compile", kept)
    for row in ROWS:
        row.program()
    assert len(made) >= len(ROWS)
    assert [each.name for each in made if guards_of(each)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("graph", ["small", "fb15k", "biokg", "am", "mag", "wikikg2"])
@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
def test_layers_on_graphs_of_all_sizes(path: Path, graph: str, grad: bool) -> None:
    """Many nodes make several blocks of destinations, whose rows one piece alone may be added to."""
    check(path, {"grad": grad}, graph_counts(graph))


@pytest.mark.parametrize("graph", ["am", "mag"])
def test_rows_of_which_some_are_mirrored(graph: str) -> None:
    check(ROOT / "examples" / "rgnn" / "rgcn.emb", {}, graph_counts(graph))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", ZOO, ids=lambda path: path.stem)
def test_models_from_the_literature(path: Path, grad: bool) -> None:
    check(path, {"grad": grad})
