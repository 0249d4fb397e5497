"""Rows that no block has room for in shared memory, and other sizes at which no kernel was found."""

from __future__ import annotations

import dataclasses

import pytest

import explorer
from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check_gradients, check_rows, compiled
from explorer.checkout import CHECKOUT
from explorer.runtime.data.graphs import GraphPreset, generate
from tests.compiler.passes.test_late_reshapes import TUCKER

TINY = GraphPreset(num_nodes=3, num_edges=4, num_ntypes=2, num_etypes=3, reach=1.0)
OUTERS = """
dim F = 242
layer Outers(g: graph):
    "58,564 numbers a node, read by rows and by columns, where a block has room for 58,112"
    input x[node, F], y[node, F]
    for n in g.nodes():
        m = max(outer(x[e.src], y[e.src]) for e in n.incoming_edges())
        n["h"] = (x[n] @ m) * (m @ y[n])
    return n["h"]
"""


def example(name: str) -> str:
    return (CHECKOUT / "examples" / f"{name}.emb").read_text()


@pytest.fixture
def tiny(emulated: Setting) -> Setting:
    return dataclasses.replace(emulated, graph=generate("tiny", TINY), lists=3)


def in_memory(case: Case) -> bool:
    kernels = compiled(case).stages["kernels"]
    return any("in the GPU's memory" in report.summary for report in kernels.passes)


def test_a_matrix_for_each_node(tiny: Setting) -> None:
    case = Case(OUTERS, 242, 0, {})
    assert in_memory(case)
    outcome = check_rows(tiny, case)
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("size", [512])
def test_bags_at_any_size(tiny: Setting, size: int) -> None:
    """From 512 on, a sum of a row has a kernel of its own, and the number that only the product has is left."""
    outcome = check_rows(tiny, Case(example("embedding/bag_dot"), size, 0, {}))
    assert outcome["agrees"], outcome
    outcome = check_gradients(tiny, Case(example("embedding/bag_dot"), size, 0, {"grad": "true"}))
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("size", [16, 21])
def test_a_product_of_a_row_with_a_tensor_is_by_tiles(emulated: Setting, size: int) -> None:
    """Forward by its middle dimension as by heads, backward as a sum of outer products of three factors."""
    case = Case(TUCKER, size, 0, {"grad": "true"})
    kernels = compiled(case).stages["kernels"].text
    assert "template gemm" in kernels
    assert "template outer_products" in kernels
    outcome = check_gradients(emulated, case)
    assert outcome["agrees"], outcome


def test_tucker_as_its_authors_write_it_compiles() -> None:
    for size in ({"D": 200, "K": 30}, {"D": 512, "K": 512}):
        made = explorer.compile(TUCKER, sizes=size, options={"grad": True}, on_demand=True)
        assert made.stages["cuda"].available, made.stages["cuda"].reason
        assert not any("in the GPU's memory" in report.summary for report in made.stages["kernels"].passes)
