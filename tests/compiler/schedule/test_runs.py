"""Few triples with many candidates each: their loops in runs, where the batch is known to be small."""

from __future__ import annotations

import json

import numpy as np
import pytest

import explorer
from benchmarks.gpu_check import triples
from explorer.checkout import CHECKOUT
from explorer.compiler.counts import CountError, read_counts
from explorer.compiler.decisions import Value
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.compiler.target import TARGETS
from explorer.runtime.encode.batch import draw

COMPLEX = """dim D = 16
score ComplEx(h: entity, r: relation, t: entity):
    param Er[entity, D], Ei[entity, D], Rr[relation, D], Ri[relation, D]
    return sum((Er[h] * Rr[r] - Ei[h] * Ri[r]) * Er[t] + (Er[h] * Ri[r] + Ei[h] * Rr[r]) * Ei[t])
"""
LOSS = """dim D = 16
score Loss(h: entity, r: relation, t: entity, n: negatives of entity):
    param E[entity, D], R[relation, D]
    return sum(relu(1.0 + norm(E[h] + R[r] - E[t], 2) - norm(E[h] + R[r] - E[x], 2)) for x in n)
"""
TRANSE = (CHECKOUT / "examples/kge/transe_l2.emb").read_text()
TRANSH = (CHECKOUT / "examples/kge/transh.emb").read_text()
SCORES = {path.stem: path.read_text() for path in sorted((CHECKOUT / "examples/kge").glob("*.emb"))}
SCORES |= {"complex": COMPLEX, "loss": LOSS}
BUSY = TARGETS["sm_90"].busy_warps
MANY = 32 * BUSY
"""Triples that are enough however few lanes each has."""


def compiled(
    text: str,
    negatives: str,
    batch: int | None,
    size: int = 0,
    grad: bool = False,
    schedule: dict[str, Value] | None = None,
) -> explorer.Compilation:
    """A score for a batch of that many facts, or of any number, with other dims than its own where there is a size."""
    options = {"negatives": negatives, "grad": grad}
    sizes = {name: size for name in ("D", "K") if f"{name} = " in text} if size else {}
    counts = None if batch is None else {"batch": batch}
    found = explorer.compile(text, options=options, sizes=sizes, counts=counts, schedule=schedule, on_demand=True)
    assert found.ok, found.diagnostics
    return found


def runs(compilation: explorer.Compilation) -> dict[str, Value]:
    """By decision how long the runs of kernels are."""
    return {key: value for key, value in compilation.schedule.items() if key.endswith(".run")}


def kernels_of(compilation: explorer.Compilation) -> list[ScheduledKernel]:
    """The kernels of a program, in order."""
    program = compilation.stages["kernels"].program
    found = program.programs if isinstance(program, Module) else (program,)
    return [kernel for kernel in found if isinstance(kernel, ScheduledKernel)]


def launched(compilation: explorer.Compilation, batch: int) -> list[int]:
    """The iterations that are shared out in each kernel: what its loop over blocks goes by."""
    kernels = kernels_of(compilation)
    return [count.value({"B": batch}) for kernel in kernels for name, count in kernel.counts if name.endswith("_runs")]


@pytest.mark.parametrize(
    ("batch", "negatives", "run"),
    [(64, 64, 1), (64, 256, 2), (16, 16, 1), (1, 4096, 1), (1000, 64, 8), (1000, 1024, 32), (3, 7, 1), (64, 100, 1)],
)
def test_runs_are_as_long_as_keeps_a_gpu_busy(batch: int, negatives: int, run: int) -> None:
    compilation = compiled(TRANSE, f"tail:{negatives}", batch, 512)
    assert runs(compilation) == {"TransE_L2.run": run}
    assert launched(compilation, batch) == [batch * negatives // run]
    assert batch * negatives // run >= 2 * BUSY or run == 1


@pytest.mark.parametrize(("size", "run"), [(512, 8), (64, 4), (32, 2)])
def test_runs_are_shorter_where_lanes_share_a_warp(size: int, run: int) -> None:
    assert runs(compiled(TRANSE, "tail:64", 1024, size)) == {"TransE_L2.run": run}


@pytest.mark.parametrize("text", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_large_batches_have_the_kernels_of_unknown_ones(text: str, grad: bool) -> None:
    negatives = "own:16" if text is LOSS else "tail:16"
    known, unknown = (compiled(text, negatives, batch, grad=grad) for batch in (MANY, None))
    assert known.stages["kernels"].text == unknown.stages["kernels"].text
    assert not runs(known)


@pytest.mark.parametrize(
    ("text", "negatives", "batch"), [(TRANSE, "none", 3), (TRANSE, "tail:1", 3), (LOSS, "own:16", 8000)]
)
def test_what_is_not_worth_runs_stays_as_it_is(text: str, negatives: str, batch: int) -> None:
    """A triple by itself, one candidate, and two kernels where a batch is not that small."""
    few, unknown = (compiled(text, negatives, known).stages["kernels"].text for known in (batch, None))
    assert few == unknown


def test_what_a_loss_sums_up_is_stored_by_runs() -> None:
    """Of a sum by itself each term is stored; of a softmax the scores are, as without runs; and a gradient that goes
    through all candidates again is left to a kernel of its own."""
    of_sums = compiled(LOSS, "own:64", 64)
    assert runs(of_sums) == {"Loss_0.run": 1}
    each, summed = kernels_of(of_sums)
    assert (each.name, summed.name) == ("Loss_0_each", "Loss_0")
    assert launched(of_sums, 64) == [4096]
    assert {buffer.name for buffer in summed.buffers} == {"out", *(b.name for b in each.buffers if b.kind == "output")}
    backward = compiled(TRANSE, "tail:64", 64, grad=True)
    assert runs(backward) == {"TransE_L2_0.run": 1}
    scores, sums, *_ = kernels_of(backward)
    assert [b.name for kernel in (scores, sums) for b in kernel.buffers if b.kind == "output"] == ["out", "v11"]


@pytest.mark.parametrize(("text", "grad"), [(LOSS, False), (LOSS, True), (TRANSE, True), (COMPLEX, True)])
def test_without_runs_a_nest_is_what_it_is_of_an_unknown_batch(text: str, grad: bool) -> None:
    negatives = "own:64" if text is LOSS else "tail:64"
    few, unknown = (compiled(text, negatives, batch, grad=grad) for batch in (64, None))
    off = compiled(text, negatives, 64, grad=grad, schedule=dict.fromkeys(runs(few), 0))
    assert runs(few)
    assert off.stages["cuda"].text == unknown.stages["cuda"].text
    assert few.stages["cuda"].text != unknown.stages["cuda"].text


def test_what_a_triple_multiplies_itself_is_not_computed_for_each_run() -> None:
    text = "\n".join(
        [
            "dim D = 16",
            "score S(h: entity, t: entity):",
            "    param E[entity, D], M[D, D]",
            "    return norm(softmax(E[h] @ M) - E[t], 2)",
        ]
    )
    for kernel in kernels_of(compiled(text, "tail:16", 3)):
        multiplied = "M" in {buffer.name for buffer in kernel.buffers}
        assert not (multiplied and kernel.counts)


def test_a_schedule_turns_runs_off_and_makes_them_longer() -> None:
    unknown = compiled(TRANSE, "tail:64", None).stages["cuda"].text
    off = compiled(TRANSE, "tail:64", 64, schedule={"TransE_L2.run": 0})
    assert off.stages["cuda"].text == unknown
    longer = compiled(TRANSE, "tail:64", 64, schedule={"TransE_L2.run": 8})
    assert (runs(longer), launched(longer, 64)) == ({"TransE_L2.run": 8}, [512])
    odd = compiled(TRANSE, "tail:12", 64, schedule={"TransE_L2.run": 8})
    assert runs(odd) == {"TransE_L2.run": 4}
    assert any("j has 12 iterations" in said for said in odd.stages["kernels"].passes[-1].refusals)


def test_all_runs_are_points_of_the_space() -> None:
    (nest,) = compiled(TRANSE, "tail:8", 5).space().nests.values()
    (dimension,) = [each for each in nest if each.name == "run"]
    assert set(dimension.values) == {0, 1, 2, 4}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize("negatives", [1, 7, 64])
@pytest.mark.parametrize("text", SCORES.values(), ids=SCORES)
def test_the_numbers_are_those_of_the_graph(text: str, negatives: int, batch: int, grad: bool) -> None:
    kind = f"own:{negatives}" if text is LOSS else f"{'head' if negatives == 7 else 'tail'}:{negatives}"
    compilation = compiled(text, kind, batch, 8, grad)
    inputs = draw(compiled(text, kind, None, 8), triples(), batch)
    upstream = np.random.default_rng(1).normal(size=batch if text is LOSS else (batch, negatives)).astype(np.float32)
    got, want = (compilation.run(inputs, on, upstream if grad else None) for on in ("kernels", "graph"))
    (scores, slopes), (wanted, by) = (got, want) if grad else ((got, {}), (want, {}))
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)
    assert slopes.keys() == by.keys()
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, by[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_batch_is_counted_alone_and_of_scores() -> None:
    assert read_counts({"batch": 64}).batch == 64
    for given in ({"batch": 64, "nodes": 3}, {"batch": -1}, {"batch": True}):
        with pytest.raises(CountError):
            read_counts(given)
    layer = explorer.compile((CHECKOUT / "examples/rgnn/gcn.emb").read_text(), counts={"batch": 64})
    assert "scores have one" in layer.diagnostics[0].message


def test_a_dim_that_is_called_as_a_batch_is_none() -> None:
    """The batch then has another name, by which nobody knows its number."""
    text = TRANSE.replace("D", "B")
    few, unknown = (compiled(text, "tail:16", batch).stages["kernels"].text for batch in (3, None))
    assert few == unknown


def test_rows_that_no_block_has_room_for_are_not_kept_for_every_run() -> None:
    """3 triples with 64 candidates would have 64 times the rows in the GPU's memory."""
    wide = compiled(TRANSH, "tail:64", 3, 40_000)
    assert runs(wide) == {"TransH.run": 0}
    made = {buffer.extents[0] for kernel in kernels_of(wide) for buffer in kernel.buffers if buffer.kind == "output"}
    assert made == {"B"}


@pytest.mark.parametrize("batch", [None, 10**6])
def test_a_run_that_is_asked_for_in_vain_says_why(batch: int | None) -> None:
    found = compiled(TRANSE, "tail:64", batch, schedule={"TransE_L2.run": 4})
    assert not runs(found)
    assert "no batch is known that is small" in json.dumps(found.to_json()["stages"])
