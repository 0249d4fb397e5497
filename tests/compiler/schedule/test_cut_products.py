"""What a nest is cut in where its products stand among other things."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.ir import loops
from explorer.compiler.ir.node import Names, Span
from explorer.compiler.ir.statements import written_names
from explorer.compiler.schedule.distribute.products.separate_rows import fissioned

OF_PARAMETERS = """
dim F = 32, G = 24
layer Parameters(g: graph):
    input x[node, F]
    param W[F, F], V[F, G]
    for n in g.nodes():
        n["h"] = x[n] @ (sigmoid(W) @ V)
    return n["h"]
"""
ENDED = """
dim D = 64, F = 32
op Ended(b: bag of row):
    param T[row, D], P[D, F]
    input dense[bag, F]
    return dot(sum(T[i] for i in b) @ P, dense[b])
"""
BESIDE_A_SCALAR = """
dim F = 32
layer Beside(g: graph):
    input x[node, F], w[node]
    param A[F, F]
    for e in g.edges():
        e["s"] = sigmoid(w[e.src] * w[e.dst])
        e["m"] = relu((x[e.src] * x[e.dst]) @ A) * e["s"]
    for n in g.nodes():
        n["h"] = sum(e["m"] / (e["s"] + 1) for e in n.incoming_edges())
    return n["h"]
"""
SHARED = """
dim H = 2
layer Shared(g: graph):
    input v[node, H, 1], x[node, 1]
    param W[1, 4]
    for n in g.nodes():
        n["h"] = dot(x[n], v[n]) @ reshape(W, 2, 2)
        for e in n.outgoing_edges():
            n["h"] += tanh(dot(cos(x[e.src]), v[e.src]))
    return n["h"]
"""


def templates(text: str, **options: object) -> list[str]:
    program = explorer.compile(text, options=options, on_demand=True).stages["kernels"].program
    return [kernel.template for kernel in getattr(program, "programs", (program,))]


def test_what_is_summed_of_parameters_is_summed_once() -> None:
    program = explorer.compile(OF_PARAMETERS, on_demand=True).stages["kernels"].program
    weights, *others = [kernel for kernel in program.programs if not kernel.once]
    assert [b.extents for b in weights.buffers if b.kind == "output"] == [("F", "G")]
    assert not [b.name for kernel in others for b in kernel.buffers if b.name in ("W", "V")]


def test_a_product_that_ends_in_a_dot_is_done_by_tiles() -> None:
    """The row's number is that of the row itself, not of the last one, which threads behind it have too."""
    text = explorer.compile(ENDED, on_demand=True).stages["kernels"].text
    assert "gemm" in text


def test_what_cannot_be_cut_apart_is_whole() -> None:
    """A row that the product and the sum over edges both read: of the nest there was left the kernel of its matrix."""
    program = explorer.compile(SHARED, on_demand=True).stages["kernels"].program
    assert program.result in {b.name for kernel in program.programs for b in kernel.buffers if b.kind == "output"}


@pytest.mark.parametrize("grad", [False, True])
def test_scalars_beside_a_product_are_stored(grad: bool) -> None:
    """A product without sums over its columns left what else its iteration stores to nobody."""
    program = explorer.compile(BESIDE_A_SCALAR, options={"grad": grad}, on_demand=True).stages["kernels"].program
    written = {b.name for kernel in program.programs for b in kernel.buffers if b.kind == "output"}
    read = {b.name for kernel in program.programs for b in kernel.buffers if b.kind == "temporary"}
    assert read <= written


def test_a_loop_is_distributed_over_what_has_nothing_in_common() -> None:
    origin = (Span(line=1, column=1, end_line=1, end_column=2),)
    load = loops.Load(result="x1", buffer="x", indices=("n", "f"), origin=origin)
    stores = [
        loops.Store(target=row, indices=("f",), function="copy", operands=("x1",), origin=origin) for row in ("p", "q")
    ]
    loop = loops.For(variable="f", extent=8, body=(load, *stores), origin=origin)
    kernel = loops.Kernel(name="k", template="rows", sizes=(), buffers=(), body=(loop,), origin=origin)
    first, second = fissioned(kernel, (loop,), Names({"f", "x1"}))
    assert (written_names((first,)), written_names((second,))) == ({"p"}, {"q"})
    assert loops.result_of(first) != loops.result_of(second)
