"""Scores with negatives: what is the triple's own is computed once, what is a candidate's as rows of tiles."""

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import run_program
from explorer.compiler.ir.kernels import AtomicAccumulate
from explorer.compiler.ir.module import print_module
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse.module import parse_module
from explorer.compiler.report import Report
from explorer.compiler.schedule import program as passes_schedule
from explorer.compiler.schedule.program import schedule
from explorer.compiler.unsupported import Unsupported
from tests.compiler.models import draw_inputs

HEAD = """
dim D = 16, K = 20
score S(h: entity, r: relation, t: entity):
    "a score"
    param E[entity, D]
    param R[relation, K]
    param P[relation, D, K]
"""
SCORES = {
    "difference": HEAD + "    return norm((E[h] - E[t]) @ P[r] + R[r], 2)\n",
    "other norm": HEAD + "    return norm((E[h] - E[t]) @ P[r] + R[r], 1)\n",
    "two matrices": HEAD + "    param Q[relation, D, K]\n" + "    return norm(E[h] @ P[r] + R[r] - E[t] @ Q[r], 1)\n",
    "product of both": HEAD + "    param V[entity, K]\n    return dot(tanh(E[h] * E[t]) @ P[r], V[t])\n",
    "own product": HEAD + "    param V[entity, K]\n    return dot(E[h] @ P[r], V[t])\n",
    "one matrix": HEAD.replace("P[relation, D, K]", "P[D, K]") + "    return norm(sin(E[h] - E[t]) @ P + R[r], 2)\n",
    "two sets": HEAD.replace("R[relation, K]", "R[relation, entity, D], W[entity, entity], b[relation]")
    + "    return dot(E[h], R[r, t]) + W[t, h] * b[r] + dot(E[t], R[r, h])\n",
    "no matrix": HEAD.replace("R[relation, K]", "R[relation, D]") + "    return norm(E[h] + R[r] - E[t], 2)\n",
}
ENDS = ("tail:3", "head:2", "tail:1")
BATCH = 7

by_end = pytest.mark.parametrize("end", ENDS)
by_score = pytest.mark.parametrize("text", SCORES.values(), ids=SCORES)


def compiled(text, end, grad):
    return explorer.compile(text, options={"negatives": end, "grad": grad}, on_demand=True)


def both(text, end, grad):
    """The loops, their schedule, and inputs with the inverses that the loops need."""
    compilation = compiled(text, end, grad)
    inputs = draw_inputs(compiled(text, end, False), batch=BATCH, entities=6, relations=3)
    loops = compilation.stages["loops"].program
    if grad:
        upstream = np.random.default_rng(1).normal(size=(BATCH, int(end[-1]))).astype(np.float32)
        inputs, _ = compilation.encode(compilation, inputs, upstream)
    return loops, schedule(loops, Report(compilation.options)), inputs


@pytest.mark.sampled(2)
@by_score
@by_end
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_the_numbers_are_those_of_the_loops(text, end, grad):
    loops, scheduled, inputs = both(text, end, grad)
    (want, slopes), (got, found) = (run_program(program, inputs) for program in (loops, scheduled))
    np.testing.assert_allclose(np.reshape(got, np.shape(want)), want, rtol=1e-4, atol=1e-5)
    assert set(found) == set(slopes)
    for name, slope in slopes.items():
        np.testing.assert_allclose(found[name], slope, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.sampled(3)
@by_score
@by_end
def test_a_batch_is_not_put_in_an_order_to_sum_its_gradients(text, end):
    loops, scheduled, _ = both(text, end, True)
    orders = {order for _, order in loops.inverses}
    assert orders
    assert orders <= {buffer.name for kernel in loops.programs for buffer in kernel.buffers}
    kernels = scheduled.programs
    assert not orders & {buffer.name for kernel in kernels for buffer in kernel.buffers}
    assert not {"traversal", "nonzeros"} & {kernel.template for kernel in kernels}
    sums = {node.target for kernel in kernels for node in walk(kernel) if isinstance(node, AtomicAccumulate)}
    gradients = dict(loops.gradients)
    shared = {name for tensor, name in gradients.items() if not (tensor == "P" and "P[D, K]" in text)}
    assert shared <= sums


@pytest.mark.parametrize("end", ENDS[:2])
@pytest.mark.parametrize("name", ["difference", "other norm", "two matrices"])
def test_candidates_are_multiplied_as_tiles_grouped_by_the_matrix_of_their_triple(name, end):
    _, scheduled, _ = both(SCORES[name], end, True)
    tiles = [kernel for kernel in scheduled.programs if kernel.template in ("gemm", "outer_products")]
    tiles = [kernel for kernel in tiles if any("group" in line for line in kernel.schedule)]
    assert len(tiles) >= 3  # forward, the candidates' gradient, the matrices'
    assert {kernel.template for kernel in tiles} == {"gemm", "outer_products"}
    orders = {b.name: b.extents for kernel in tiles for b in kernel.buffers if b.name.startswith("order")}
    assert ("BN",) in orders.values()
    ranks = [b for k in scheduled.programs for b in k.buffers if b.name.startswith("rank")]
    assert {rank.extents for rank in ranks} == {("B",)}  # triples are counted, not their candidates


@pytest.mark.parametrize("end", ["tail:3", "head:2"])
def test_a_product_that_is_the_triples_own_is_done_once(end):
    score = SCORES["own product"]
    score = score if end[0] == "t" else score.replace("dot(E[h] @ P[r], V[t])", "dot(E[t] @ P[r], V[h])")
    _, scheduled, _ = both(score, end, False)
    product, *_ = [kernel for kernel in scheduled.programs if kernel.name.endswith("product")]
    assert "BN" not in {extent for buffer in product.buffers for extent in buffer.extents}
    assert not any("P" in {buffer.name for buffer in k.buffers} for k in scheduled.programs if k is not product)


def test_one_inspector_serves_all_kernels_that_group_the_same_rows():
    _, scheduled, _ = both(SCORES["difference"], "tail:3", True)
    assert [kernel.name for kernel in scheduled.programs if kernel.template == "inspector"] == [
        "S_0_group_tile",
        "S_0_group_order",
    ]


def test_equal_arrays_are_cleared_once_and_summed_in_by_several():
    _, scheduled, _ = both(SCORES["difference"], "tail:3", True)
    touching = [k.template for k in scheduled.programs if "grad_E" in {buffer.name for buffer in k.buffers}]
    assert touching == ["rows", "adds", "adds"]


def test_the_module_tells_what_its_orders_are_of():
    loops, *_ = both(SCORES["difference"], "tail:3", True)
    text = "".join(f"{line.text}\n" for line in print_module(loops))
    assert "inverse h = h_order, r = r_order, t = t_order" in text.partition("\n")[0]
    assert parse_module(text).inverses == loops.inverses


def test_the_module_tells_which_arrays_stand_for_several():
    loops, *_ = both(SCORES["two sets"], "tail:3", True)
    text = "".join(f"{line.text}\n" for line in print_module(loops))
    assert (
        "product r_h = [r of relation, h of entity], t_h = [t of entity, h of entity], r_t = ["
        in text.partition("\n")[0]
    )
    assert parse_module(text).products == loops.products


def test_rows_that_two_sets_tell_apart_are_added_to_where_a_batch_has_some():
    """Of the many rows a kernel only clears all; none is launched for each to see whether there is something to add."""
    _, scheduled, _ = both(SCORES["two sets"], "tail:3", True)
    touching = {
        name: [k for k in scheduled.programs if name in {b.name for b in k.buffers}] for name in ("grad_W", "grad_b")
    }
    assert [kernel.template for kernel in touching["grad_W"]] == ["rows", "adds"]
    assert [kernel.template for kernel in touching["grad_b"]] == ["rows", "adds"]
    assert {b.extents for b in touching["grad_W"][1].buffers if b.name == "grad_W"} == {("entity", "entity")}


def test_without_the_inspector_nothing_is_grouped():
    compilation = explorer.compile(
        SCORES["difference"], options={"negatives": "tail:3", "grad": True, "inspect": False}
    )
    kernels = compilation.stages["kernels"]
    assert "inspector" not in {kernel.template for kernel in kernels.program.programs}
    assert any("inspect is off" in refusal for each in kernels.passes for refusal in each.refusals)


def test_what_could_not_be_scheduled_is_not_said_to_be_done(monkeypatch):
    """Where the flattened nests have no kernels, those of the nests as they are are made, and only they are told of."""
    made = passes_schedule._each_scheduled
    program = compiled(SCORES["difference"], "tail:3", True).stages["loops"].program

    def refusing(nests, *others):
        if nests != program.programs:
            raise Unsupported("no kernels")
        return made(nests, *others)

    monkeypatch.setattr(passes_schedule, "_each_scheduled", refusing)
    report = Report(compiled(SCORES["difference"], "tail:3", True).options)
    schedule(program, report)
    assert any("neither scattered nor flattened: no kernels" in said for said in report.refusals)
    assert not any("scattered" in said or "flat" in said for said in report.done)


@pytest.mark.parametrize("size", [1, 4])
def test_one_negative_is_a_dimension_of_its_own(size):
    """What kernels see as one dimension of triples and negatives has two again, and nothing else has three."""
    text = (
        "score S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
        "    return norm(E[h] + R[r] - E[t], 2)\n"
    )
    options = {"negatives": "tail:1", "grad": True}
    compilation = explorer.compile(f"dim D = {size}\n{text}", options=options, on_demand=True)
    inputs = draw_inputs(compilation.with_options(grad=False), batch=3)
    upstream = np.ones((3, 1), np.float32)
    want, wanted = compilation.run(inputs, "loops", grad=upstream)
    got, gradients = compilation.run(inputs, "kernels", grad=upstream)
    assert got.shape == (3, 1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    for name, gradient in wanted.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-5, atol=1e-6, err_msg=name)


FLAT = """score Flat(h: entity, r: relation, t: entity):
    param acc[relation, 1, 1], out[entity, entity, 2], float_[3, 2, 3]
    input bias[relation, 3], b[entity, entity, 3, 3], e[entity, entity, 2, 1]
    u = outer(reshape(acc[r], 1), bias[r] @ b[t, h])
    v = dot(dot(reshape(sign(out[t, h]), 2, 1), e[t, h]), mean(float_))
    return v @ mean(b[t, h] * b[t, h]) + norm(norm(u, p=2), p=2)
"""


def test_the_interpreter_gives_scores_as_triples_and_negatives() -> None:
    """Where each kernel sees them as one set."""
    options = {"negatives": "tail:3", "interchange": True}
    compilation = explorer.compile(FLAT, options={**options, "grad": True}, on_demand=True)
    inputs = draw_inputs(explorer.compile(FLAT, options=options, on_demand=True), batch=5)
    for stage in ("loops", "kernels"):
        assert compilation.run(inputs, on=stage, grad=np.ones((5, 3), np.float32))[0].shape == (5, 3)


@pytest.mark.parametrize("dim", ["B", "D"])
def test_the_interpreter_finds_the_triples_of_a_score_of_candidates_alone(dim: str) -> None:
    """All of its arrays have triples and negatives as one dimension; a dimension may have the triples' usual name."""
    head = f"dim {dim} = 4\nscore S(h: entity, r: relation, t: entity):\n"
    text = head + f"    param E[entity, {dim}]\n    return sum(E[t])\n"
    compilation = explorer.compile(text, options={"negatives": "tail:3"}, on_demand=True)
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    t = np.array([[0, 1, 2], [3, 4, 0]], np.int32)
    inputs = {"h": np.zeros(2, np.int32), "r": np.zeros(2, np.int32), "t": t, "E": rows}
    assert np.array_equal(compilation.run(inputs, on="kernels"), rows.sum(1)[t])
