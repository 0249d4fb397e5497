"""Scores by chunks of edges: cuKE's inspection to the element, what is read from memory, and the numbers."""

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret.kernels import UNWRITTEN, run_scheduled, shared_tiles
from explorer.compiler.ir.kernels import AtomicAccumulate, Loop, Where
from explorer.compiler.ir.loops import Buffer, Load
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse import parse_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.schedule.chunks.strategy import shared_bytes
from explorer.compiler.target import TARGETS
from explorer.runtime.reference.evaluate import score
from tests.compiler.models import EXAMPLES, draw_inputs
from tests.compiler.schedule.test_grouping import without_barrier

KGE = {path.stem: path.read_text() for path in EXAMPLES}
SLS = """dim D = 8
op SLS(b: bag of row):
    param T[row, D]
    return sum(T[i] for i in b)
"""
PASTED = """dim D = 20, K = 34
score Pasted(h: entity, r: relation, t: entity):
    "a matrix an edge, rows of two tables by its relation, and two sums of their product"
    param E[entity, D]
    param R[relation, K]
    param S[relation, K]
    param P[relation, D, K]
    param bias[entity]
    u = tanh(E[h] * E[t]) @ P[r]
    return max(u + R[r]) - dot(u, S[r]) + bias[t]
"""
FIGURE = {
    "idx": [1, 3, 1, 3, 4, 2],
    "sorted": [1, 1, 2, 3, 3, 4],
    "ord": [0, 3, 1, 4, 5, 2],
    "is_uniq": [1, 0, 1, 1, 0, 1],
    "position": [0, 0, 1, 2, 2, 3],
    "pcount": [0, 2, 3, 5],
    "count": [2, 1, 2, 1],
    "cache": [1, 2, 3, 4],
    "sorted_cache": [1, 3, 2, 4],
    "cache_ord": [0, 2, 1, 3],
    "buf_idx": [0, 1, 0, 1, 10, 8],
}
"""cuKE's Figure 7 with chunks of 6 edges and 2 cached matrices, as far as something is stored."""


def by_chunks(text, edges=6, cached=2, block=32, group=1, sizes=None):
    """The compilation, and its one kernel."""
    options = {"inspect_edges": edges, "inspect_cached": cached, "inspect_block": block, "inspect_group": group}
    compilation = explorer.compile(text, sizes=sizes, options={"inspect": "chunks", **options}, on_demand=True)
    kernel = compilation.stages["kernels"].program
    assert kernel.template == "chunks"
    return compilation, kernel


def refusals(text, **options):
    """What the scheduling of a text refuses."""
    compilation = explorer.compile(text, options=options)
    return [said for report in compilation.stages["kernels"].passes for said in report.refusals]


def test_figure_7_to_the_element():
    compilation, kernel = by_chunks(KGE["rescal"], sizes={"D": 8})
    inputs = draw_inputs(compilation, batch=6, entities=50, relations=5)
    inputs["r"] = np.array(FIGURE["idx"], np.int32)
    tiles = shared_tiles(kernel, inputs)
    for name, want in FIGURE.items():
        assert list(tiles[name][0])[: len(want)] == want, name
        assert set(tiles[name][0][len(want) :]) <= {UNWRITTEN}, name
    assert tiles["unique"][0, 0] == 4


def test_rows_are_cached_where_edges_repeat_them():
    compilation, kernel = by_chunks(KGE["distmult"], sizes={"D": 8})
    inputs = draw_inputs(compilation, batch=6, entities=9, relations=9)
    inputs["t"] = np.array(FIGURE["idx"], np.int32)
    inputs["r"] = np.array([4, 4, 4, 4, 4, 7], np.int32)
    inputs["h"] = np.arange(6, dtype=np.int32)
    tiles = shared_tiles(kernel, inputs)
    by_array = {tuple(row): place for place, row in enumerate(tiles["idx"])}
    buffers = {name: list(tiles["buf_idx"][by_array[tuple(inputs[name])]]) for name in "hrt"}
    assert buffers == {"h": [6, 7, 8, 9, 10, 11], "r": [0, 0, 0, 0, 0, 13], "t": [0, 1, 0, 1, 10, 8]}


def counting(kernel, table):
    """A kernel that also counts the vectors that it loads from each row or matrix of a table."""

    def of(statement):
        if isinstance(statement, Loop | Where):
            return (replace(statement, body=tuple(s for child in statement.body for s in of(child))),)
        if not isinstance(statement, Load) or statement.buffer != table:
            return (statement,)
        count = AtomicAccumulate(
            target="loads",
            indices=statement.indices[:1],
            reduction="sum",
            function="copy",
            operands=(1,),
            origin=statement.origin,
        )
        return statement, count

    extents = next(buffer.extents for buffer in kernel.buffers if buffer.name == table)
    loads = Buffer(name="loads", kind="index", extents=extents[:1], origin=kernel.origin)
    return replace(kernel, buffers=(*kernel.buffers, loads), body=of(kernel.body[0]))


def matrices_loaded(chosen, group=1, **options):
    """How often each matrix is loaded whole from global memory, by edges that choose these."""
    compilation, kernel = by_chunks(KGE["rescal"], edges=8, sizes={"D": 9}, group=group, **options)
    inputs = draw_inputs(compilation, batch=len(chosen), entities=50, relations=20)
    inputs["r"] = np.array(chosen, np.int32)
    loads = run_scheduled((counting(kernel, "P"),), inputs)["loads"] - UNWRITTEN
    assert not (loads % 81).any()
    return {matrix: int(count) // 81 for matrix, count in enumerate(loads) if count}


def test_each_matrix_is_loaded_as_often_as_the_cache_says():
    assert matrices_loaded([7] * 8) == {7: 1}
    assert matrices_loaded(range(8)) == dict.fromkeys(range(8), 1)
    assert matrices_loaded([5, 5, 9, 3, 9, 5, 3, 9]) == {5: 1, 9: 1, 3: 2}  # one more than are cached
    assert matrices_loaded([5, 5, 9, 3, 9, 5, 3, 9], cached=3) == {5: 1, 9: 1, 3: 1}


def test_the_last_chunk_is_one_of_fewer_edges():
    assert matrices_loaded([7] * 17) == {7: 3}
    assert matrices_loaded([2] * 8 + [7, 4, 4]) == {2: 1, 4: 1, 7: 1}


def test_sorted_edges_load_fewer_matrices():
    mixed = [0, 1, 2, 3] * 7 + [3, 2]
    apart, together = (sum(matrices_loaded(mixed, group=group).values()) for group in (1, 4))
    assert (apart, together) == (3 * (2 + 2 + 2) + 4, 7)


@pytest.mark.parametrize("text", [*KGE.values(), PASTED], ids=[*KGE, "pasted"])
@pytest.mark.parametrize("batch", [1, 23])
def test_scores_are_the_references_in_every_grouping(text, batch):
    results = []
    for group in (1, 2, 4):
        sizes = {name: 9 + at for at, name in enumerate(explorer.compile(text, on_demand=True).sizes)}
        compilation, kernel = by_chunks(text, edges=6, group=group, sizes=sizes)
        inputs = draw_inputs(compilation, batch=batch, entities=6, relations=4)
        results.append(run_scheduled((kernel,), inputs)["out"])
        want = score(text, inputs, compilation.sizes)
        assert np.allclose(results[-1], want, rtol=1e-4, atol=1e-4)
    assert all(np.array_equal(results[0], other) for other in results)  # nothing is permuted, in sums either


@pytest.mark.parametrize(
    ("name", "sizes", "waits"),
    [("transr", (40, 72), 14), ("transr", (32, 32), 13), ("transh", (40,), 14), ("transh", (32,), 13)],
)
def test_the_block_waits_wherever_it_must_and_nowhere_else(name, sizes, waits):
    _, kernel = by_chunks(KGE[name], edges=16, group=4, sizes=dict(zip("DK", sizes, strict=False)))
    assert without_barrier(kernel.body, -1)[1] == waits
    for place in range(waits):
        with pytest.raises(VerificationError, match=r"no barrier (block|warp) between"):
            verify_scheduled(replace(kernel, body=without_barrier(kernel.body, place)[0]))


@pytest.mark.parametrize("text", [*KGE.values(), PASTED], ids=[*KGE, "pasted"])
def test_the_kernel_parses_back(text):
    compilation, kernel = by_chunks(text, edges=24, group=2)
    assert parse_scheduled(compilation.stages["kernels"].text) == kernel


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({"edges": 16, "group": 128, "block": 128, "cached": 8}, {"block": 64}),
        ({"edges": 64, "group": 128, "block": 128, "cached": 1}, {"edges": 48}),
    ],
)
def test_sizes_whose_tiles_do_not_fit_are_lowered(asked, taken):
    options = {f"inspect_{name}": value for name, value in asked.items()}
    compilation, kernel = by_chunks(KGE["rescal"], **asked)
    assert shared_bytes(kernel) <= TARGETS["sm_90"].shared_most
    said = refusals(KGE["rescal"], inspect="chunks", **options)
    assert [each.split(", for ")[0] for each in said] == [
        f"RESCAL: inspect_{name}={asked[name]}: {value}" for name, value in taken.items()
    ]
    assert compilation.stages["cuda"].available


@pytest.mark.parametrize("text", [SLS, SLS.replace("T[row", "T[entity").replace("of row", "of entity")])
@pytest.mark.parametrize("grad", [False, True])
def test_sums_over_bags_are_the_reason_that_is_given(text, grad):
    said = [s for s in refusals(text, inspect="chunks", grad=grad) if "chunks" in s]
    assert said[-1] == "SLS: inspect=chunks: nothing, for no chunks are made of it, which are of a batch of triples"


def templates(text, **options):
    """The templates of a text's kernels, but for those that clear sums."""
    program = explorer.compile(text, options={"inspect": "chunks", **options}, on_demand=True).stages["kernels"].program
    steps = program.programs if isinstance(program, Module) else (program,)
    return {step.name: step.template for step in steps if not step.name.endswith("_clear")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KGE)
def test_every_kernel_of_candidates_and_of_gradients_is_by_chunks(name):
    """But for sums over a triple's candidates, of which the report says so."""
    for options in ({"negatives": "tail:3"}, {"negatives": "head:2"}, {"grad": True}):
        assert set(templates(KGE[name], **options).values()) == {"chunks"}, options
    found = templates(KGE[name], grad=True, negatives="tail:3")
    others = {each for each, template in found.items() if template != "chunks"}
    said = [s.split(" is not")[0] for s in refusals(KGE[name], inspect="chunks", grad=True, negatives="tail:3")]
    assert {said for said in said if said} == others


def test_candidates_share_what_their_triple_chose():
    """A chunk of 8 candidates, of two triples with one relation: its matrix is loaded once, repeated rows too."""
    options = {"inspect": "chunks", "inspect_edges": 8, "inspect_group": 1, "negatives": "tail:4"}
    text = KGE["transr"]
    compilation = explorer.compile(text, sizes={"D": 9, "K": 9}, options=options, on_demand=True)
    kernel = compilation.stages["kernels"].program
    inputs = draw_inputs(compilation, batch=2, entities=50, relations=5)
    inputs["r"], inputs["h"] = np.array([3, 3], np.int32), np.array([7, 8], np.int32)
    inputs["t"] = np.arange(10, 18, dtype=np.int32)
    loads = {table: run_scheduled((counting(kernel, table),), flat(inputs))["loads"] - UNWRITTEN for table in "EP"}
    assert {row: int(count) // 9 for row, count in enumerate(loads["E"]) if count} == dict.fromkeys(
        (7, 8, *range(10, 18)), 1
    )
    assert {row: int(count) // 81 for row, count in enumerate(loads["P"]) if count} == {3: 1}


def flat(inputs):
    """The inputs with candidates in one dimension, as kernels over all of them have them."""
    return {name: a.reshape(-1) if a.dtype == np.int32 else a for name, a in inputs.items()}


def added(chosen):
    """How often the gradient of each matrix is added to, by edges that choose these, in whole matrices."""
    options = {"inspect": "chunks", "inspect_edges": 8, "inspect_group": 1, "grad": True}
    module = explorer.compile(KGE["rescal"], sizes={"D": 9}, options=options, on_demand=True).stages["kernels"].program
    kernel = next(step for step in module.programs if "sum what edges add to grad_P by r" in step.schedule)
    random = np.random.default_rng(0)
    rows = {name: random.standard_normal((50, 9)).astype(np.float32) for name in ("E", "v4")}
    rows |= {b.name: random.standard_normal((len(chosen), 9)) for b in kernel.buffers if b.kind == "temporary"}
    inputs = {"r": np.array(chosen, np.int32), "h": np.arange(len(chosen), dtype=np.int32), **rows}
    inputs["upstream"] = np.ones(len(chosen), np.float32)
    inputs["grad_P"] = np.zeros((20, 9, 9), np.float32)  # as another kernel has cleared it
    counted = run_scheduled((counting_sums(kernel, "grad_P"),), inputs | {"t": inputs["h"]})
    counted = counted["adds"] - UNWRITTEN
    assert not (counted % 81).any()
    return {matrix: int(count) // 81 for matrix, count in enumerate(counted) if count}


def counting_sums(kernel, table):
    """A kernel that also counts how often it adds to each row or matrix of a table."""

    def of(statement):
        if isinstance(statement, Loop | Where):
            return (replace(statement, body=tuple(s for child in statement.body for s in of(child))),)
        if not isinstance(statement, AtomicAccumulate) or statement.target != table:
            return (statement,)
        one = {"target": "adds", "indices": statement.indices[:1], "function": "copy", "operands": (1,)}
        return statement, replace(statement, **one)

    extents = next(buffer.extents for buffer in kernel.buffers if buffer.name == table)
    adds = Buffer(name="adds", kind="index", extents=extents[:1], origin=kernel.origin)
    return replace(kernel, buffers=(*kernel.buffers, adds), body=of(kernel.body[0]))


def test_a_matrix_that_several_edges_chose_is_added_to_once_a_chunk():
    assert added([7] * 8) == {7: 1}
    assert added(range(8)) == dict.fromkeys(range(8), 1)
    assert added([5, 5, 9, 3, 9, 5, 3, 9]) == {5: 1, 9: 1, 3: 1}
    assert added([5, 5, 9, 3, 9, 5, 3, 9, 5, 2, 5]) == {5: 2, 9: 1, 3: 1, 2: 1}


def test_options_that_nothing_reads_are_named():
    said = "RESCAL: inspect_edges, inspect_group: nothing, for inspect is not chunks"
    assert said in refusals(KGE["rescal"], inspect_edges=8, inspect_group=1)
    said = "DistMult: inspect_cached=3: nothing, for edges choose no matrices"
    assert said in refusals(KGE["distmult"], inspect="chunks", inspect_cached=3)
    assert not any("inspect" in said for said in refusals(KGE["rescal"], inspect="chunks", inspect_edges=8))
