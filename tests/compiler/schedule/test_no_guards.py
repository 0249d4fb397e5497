"""No kernel looks while it runs whether it is inside its arrays, and none is refused for it: examples as they are timed
and on graphs of all sizes, and models from the literature, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.module import Module
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.graphs import graph_counts
from explorer.runtime.data.triples import InputError
from tests.compiler.swaps import ROOT, ZOO

SCORES = sorted((ROOT / "examples" / "kge").glob("*.emb"))
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
    from benchmarks.gpu_suite.rows import ROWS

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


@pytest.mark.sampled(6)
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


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", SCORES, ids=lambda path: path.stem)
def test_scores_by_chunks(path: Path, grad: bool) -> None:
    """A place in shared memory is one of the rows that are cached there: fewer than a chunk has edges."""
    check(path, {"inspect": "chunks", "grad": grad})


@pytest.mark.parametrize(("edges", "cached"), [(2, 1), (6, 8), (64, 3)])
def test_chunks_of_other_sizes(edges: int, cached: int) -> None:
    options = {"inspect": "chunks", "inspect_edges": edges, "inspect_cached": cached}
    check(ROOT / "examples" / "kge" / "transr.emb", options)


TYPED = """\
dim F = 4
layer Typed(g: graph):
    param V[ntype, F]
    param f[edge, F]
    for e in g.edges():
        e["h"] = relu(V[e.dst.ntype] * f[e])
    return e["h"]
"""


def test_a_segment_that_is_picked_ends_too() -> None:
    """The edges of a type's nodes: a node that `ntype_order` picks has a place in `dst_ptr`, and there is a next one,
    which is asked of what is given, once."""
    compilation = explorer.compile(TYPED, options={"grad": True}, on_demand=True)
    assert guards_of(compilation) == []
    (_, kernel) = compilation.stages["loops"].program.programs  # type: ignore[union-attr]
    arrays = {"dst_ptr": [0, 1, 3], "ntype_ptr": [0, 1, 2], "ntype_order": [1, 0]}
    given = {name: np.array(array, np.int32) for name, array in arrays.items()}
    given |= {name: np.ones((rows, 4), np.float32) for name, rows in {"V": 2, "f": 3, "upstream": 3}.items()}
    check_inputs(kernel, given)
    with pytest.raises(InputError, match=r"ntype_order\[1\] is 2, but dst_ptr has 2 rows"):
        check_inputs(kernel, given | {"ntype_order": np.array([1, 2], np.int32)})


@pytest.mark.parametrize("split", ["rows", "nonzeros"])
@pytest.mark.parametrize("queries", [1, 32])
def test_parts_of_rows_that_were_put_together(queries: int, split: str) -> None:
    """The second stage of attention over pages puts together what parts of all rows have found."""
    path = ROOT / "tests" / "zoo" / "paged_attention_gqa.emb"
    check(path, {"split": split}, {"queries": queries, "pages": 2048, "entries": 2048})
