"""Products of rows and matrices: which loops they are found in, and what their kernels compute."""

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import run_program
from explorer.compiler.ir.loops import print_statement
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.schedule.match.matrix_products import find_products
from explorer.compiler.schedule.program import schedule
from tests.compiler.models import EXAMPLES, TRANSR, draw_inputs
from tests.compiler.schedule.test_numbers import assert_same
from tests.compiler.test_layers import drawn, tiny_graph

RESCAL, TRANSE = (next(p for p in EXAMPLES if p.stem == name).read_text() for name in ("rescal", "transe_l2"))


def loops_of(text, sizes, **options):
    compilation = explorer.compile(text, sizes=sizes, options=options, on_demand=True)
    program = compilation.stages["loops"].program
    return compilation, getattr(program, "programs", (program,))


def test_a_product_is_found_with_its_prologue_and_epilogue():
    _, (kernel,) = loops_of(TRANSR, {"D": 32, "K": 16})
    found = find_products(kernel)
    (product,) = found.products
    assert [print_statement(s) for s in product.prologue] == ["e = E[ih, d]", "e1 = E[it, d]", "u = e - e1"]
    assert (product.factor, product.matrix.buffer, product.matrix_index.buffer) == ("u", "P", "r")
    assert [print_statement(s) for s in product.epilogue][-1] == "s += u1 * u1"
    assert [print_statement(s) for s in found.rest] == ["u2 = sqrt(s)", "out[b] = u2"]


def test_a_backward_pass_multiplies_by_the_transpose():
    _, (kernel, *_) = loops_of(TRANSR, {"D": 32, "K": 16}, grad=True)
    scheduled = schedule(kernel, Report.silent())
    products = [program.name for program in scheduled.programs if program.template == "gemm"]
    assert products == ["TransR_0_product", "TransR_0_rest_product"]
    inspections = [program.name for program in scheduled.programs if program.template == "inspector"]
    assert len(inspections) == 2  # the rows are grouped once, for both


def test_loops_without_a_product_have_none():
    _, (kernel,) = loops_of(TRANSE, {"D": 8})
    assert find_products(kernel) is None


@pytest.mark.parametrize("factor", ["W[r]", "relu(W[r])", "W[r] + sum(E[h])"])
def test_a_matrix_by_itself_is_no_product_of_rows(factor):
    text = f"""dim K = 16

score Squares(h: entity, r: relation, t: entity):
    param W[relation, K, K]
    param E[entity, K]
    return norm(dot({factor}, W[r]))
"""
    compilation, (kernel,) = loops_of(text, {})
    assert find_products(kernel) is None
    inputs = draw_inputs(compilation, batch=5, entities=3, relations=2)
    want, _ = run_program(kernel, inputs)
    got, _ = run_program(schedule(kernel, Report.silent()), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", [TRANSR, RESCAL], ids=["transr", "rescal"])
@pytest.mark.parametrize("sizes", [{"D": 33, "K": 100}, {"D": 40, "K": 33}, {"D": 16, "K": 64}, {"D": 1, "K": 17}])
def test_products_give_the_numbers_of_the_loops(text, sizes):
    sizes = {name: size for name, size in sizes.items() if f"{name} =" in text}
    compilation, (kernel,) = loops_of(text, sizes)
    inputs = draw_inputs(compilation, batch=11, entities=7, relations=9)
    inputs["r"] = np.where(inputs["r"] < 5, 2, inputs["r"])  # some relations have no rows
    want, _ = run_program(kernel, inputs)
    got, _ = run_program(schedule(kernel, Report.silent()), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_more_rows_than_a_tile():
    compilation, (kernel,) = loops_of(RESCAL, {"D": 16})
    inputs = draw_inputs(compilation, batch=131, entities=5, relations=1)
    want, _ = run_program(kernel, inputs)
    got, _ = run_program(schedule(kernel, Report.silent()), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_the_inspector_can_be_left_out():
    _, (kernel,) = loops_of(TRANSR, {"D": 32, "K": 32})
    report = Report(Options(inspect="false"))
    assert schedule(kernel, report).template != "gemm"
    assert report.refusals[0] == "TransR: rows are not grouped by their matrices: the option inspect is off"


@pytest.mark.parametrize(("precision", "within"), [("tf32x3", 1e-5), ("tf32", 5e-3)])
@pytest.mark.parametrize("text", [TRANSR, RESCAL], ids=["transr", "rescal"])
@pytest.mark.parametrize("sizes", [{"D": 36, "K": 100}, {"D": 20, "K": 16}])
def test_products_on_tensor_cores_give_nearly_the_numbers_of_the_loops(text, sizes, precision, within):
    sizes = {name: size for name, size in sizes.items() if f"{name} =" in text}
    compilation, (kernel,) = loops_of(text, sizes)
    inputs = draw_inputs(compilation, batch=75, entities=7, relations=2)
    want, _ = run_program(kernel, inputs)
    report = Report(Options(precision=precision))
    got, _ = run_program(schedule(kernel, report), inputs)
    np.testing.assert_allclose(got, want, rtol=within, atol=within * np.abs(want).max())
    assert not np.array_equal(got, want)
    assert f"{kernel.name}: multiply in {precision}: rows times P, on tensor cores" in report.done
    assert not report.refusals


@pytest.mark.parametrize(
    ("text", "sizes", "said"),
    [
        (TRANSR, {"D": 32, "K": 33}, "rows times P stay in float32, since 33 columns are not all vectors of 4"),
        (TRANSE, {"D": 32}, "nothing, for no product of rows and matrices is by tiles"),
    ],
    ids=["transr", "transe"],
)
def test_a_precision_without_effect_says_so(text, sizes, said):
    _, (kernel,) = loops_of(text, sizes)
    report = Report(Options(precision="tf32"))
    made = schedule(kernel, report)
    assert f"{kernel.name}: multiply in tf32: {said}" in report.refusals
    assert made == schedule(kernel, Report.silent())


def test_few_columns_are_no_tile():
    _, (kernel,) = loops_of(TRANSR, {"D": 32, "K": 8})
    report = Report.silent()
    schedule(kernel, report)
    assert report.refusals[0] == "TransR: P has fewer than 16 columns, too few for a tile (gemm)"


@pytest.mark.parametrize("sizes", [{"F": 20, "G": 17}, {"F": 70, "G": 16}])
def test_sums_of_pairs_are_rows_of_products(sizes):
    """Long sums are cut: here a node has more edges of one type than a piece takes."""
    path = Path(__file__).resolve().parents[3] / "examples" / "rgnn" / "rgcn.emb"
    compilation = explorer.compile(path.read_text(), sizes=sizes, on_demand=True)
    report = Report.silent()
    schedule(compilation.stages["loops"].program, report)
    assert report.done[0] == "RGCN_0: sums of at most 16 edges, grouped by dst_pair_etype, times W"
    graph = tiny_graph()
    busy = np.arange(40, dtype=np.int32) % 3
    more = {"src": busy, "dst": np.zeros_like(busy), "etype": np.zeros_like(busy)}
    graph |= {name: np.concatenate([graph[name], added]) for name, added in more.items()}
    assert_same(compilation, drawn(compilation, graph))


RGCN = (Path(__file__).resolve().parents[3] / "examples" / "rgnn" / "rgcn.emb").read_text()


@pytest.mark.parametrize(
    ("text", "cleared"),
    [(RGCN, False), (RGCN.replace("@ w0 +", "@ w0 -"), True)],
    ids=["sum", "difference"],
)
def test_pairs_are_added_to_what_the_sum_begins_with(text, cleared):
    """Where the layer adds a product to them that has a kernel of its own, nothing is cleared."""
    compilation = explorer.compile(text)
    names = [kernel.name for kernel in compilation.stages["kernels"].program.programs]
    assert ("RGCN_0_clear" in names) == cleared
    assert_same(compilation, drawn(compilation, tiny_graph()))
