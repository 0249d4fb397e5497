"""Products of rows and matrices in kernels of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.loops import For, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.report import Report
from explorer.compiler.schedule.distribute.products.split_products import split_products
from explorer.compiler.target import TARGETS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "rgnn"

GCN, RGCN = ((EXAMPLES / f"{name}.emb").read_text() for name in ("gcn", "rgcn"))
GRAPHS: tuple[Mapping[str, Any], ...] = (
    {"src": [0, 1, 1, 4], "dst": [2, 2, 2, 0], "etype": [0, 2, 2, 0], "num_nodes": 6, "num_etypes": 4},
    {"src": [], "dst": [], "etype": [], "num_nodes": 3, "num_etypes": 2},
)
"""Isolated nodes, parallel edges and types that no edge has; and no edge at all."""


def split(compilation: explorer.Compilation) -> tuple[tuple[Kernel, ...], Report]:
    """The kernels behind the pass, and what it says."""
    report = Report(compilation.options)
    program = compilation.stages["loops"].program
    assert isinstance(program, Kernel | Module)
    changed = split_products(program, report)
    programs = changed.programs if isinstance(changed, Module) else (changed,)
    return tuple(program for program in programs if isinstance(program, Kernel)), report


def tensors(compilation: explorer.Compilation, graph: Mapping[str, Any]) -> dict[str, Any]:
    """Random tensors of a layer for a graph."""
    generator = np.random.default_rng(5)
    counts = {"node": graph["num_nodes"], "edge": len(graph["src"]), "etype": graph["num_etypes"], "ntype": 1}
    program: Any = compilation.stages["graph"].program
    shapes = {
        tensor.name: (*(counts[name] for name in tensor.sets), *(program.size(extent) for extent in tensor.dims))
        for tensor in program.tensors
        if tensor.kind in ("input", "param")
    }
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def outermost(kernel: Kernel) -> For:
    (loop,) = kernel.body
    assert isinstance(loop, For)
    return loop


def test_sums_come_before_the_product_that_needs_them() -> None:
    kernels, report = split(explorer.compile(GCN))
    stored = [[buffer.name for buffer in kernel.buffers if buffer.kind == "output"] for kernel in kernels]
    assert stored == [["GCN_0_y"], ["out"]]
    assert [buffer.name for buffer in kernels[1].buffers if buffer.kind == "temporary"] == ["GCN_0_y"]
    assert report.done == ["GCN_0: the product with W in a kernel of its own"]
    assert all(outermost(kernel).parallel for kernel in kernels)


def test_a_product_that_needs_no_sum_comes_before_them() -> None:
    kernels, report = split(explorer.compile(RGCN, options={"aggregate": False}))
    assert [kernel.name for kernel in kernels] == ["RGCN_0", "RGCN_1_rows", "RGCN_1"]
    assert [kernel.template for kernel in kernels] == ["gemm", "gemm", "traversal"]
    assert report.done == ["RGCN_1: the product with w0 in a kernel of its own"]


@pytest.mark.parametrize("graph", GRAPHS, ids=["ragged", "empty"])
@pytest.mark.parametrize("text", [GCN, RGCN], ids=["gcn", "rgcn"])
@pytest.mark.parametrize("aggregate", [True, False], ids=["aggregated", "transformed"])
def test_the_kernels_compute_what_the_loops_do(text: str, graph: Mapping[str, Any], aggregate: bool) -> None:
    sizes = {"F": 20, "G": 17}
    compilation = explorer.compile(text, sizes=sizes, options={"aggregate": aggregate})
    inputs = {**graph, **tensors(compilation, graph)}
    want = compilation.run(inputs, "loops")
    np.testing.assert_allclose(compilation.run(inputs, "kernels"), want, rtol=1e-4, atol=1e-5)


def test_a_matrix_of_few_columns_stays_in_the_iteration() -> None:
    kernels, report = split(explorer.compile(GCN, sizes={"F": 20, "G": 8}))
    assert [kernel.name for kernel in kernels] == ["GCN_0"]
    assert not report.done


def test_a_product_that_ends_sums_stays_with_them_where_no_cache_holds_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(split(explorer.compile(RGCN))[0]) == 2
    monkeypatch.setitem(TARGETS, "sm_90", replace(TARGETS["sm_90"], l2_bytes=0))
    assert len(split(explorer.compile(RGCN))[0]) == 1
    assert len(split(explorer.compile(RGCN, options={"inspect": "false"}))[0]) == 2
    assert len(split(explorer.compile(GCN))[0]) == 2
