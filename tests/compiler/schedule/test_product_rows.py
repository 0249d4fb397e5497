"""How products by chunks have their edges' rows: what is asked of memory and of shared memory, and where it applies."""

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.interpret.kernels import run_scheduled
from explorer.compiler.ir.kernels import Tile
from explorer.compiler.ir.node import VerificationError, walk
from explorer.compiler.ir.parse import parse_module, parse_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from explorer.compiler.schedule.chunks.strategy import shared_bytes
from explorer.compiler.to_json import kernels_of
from explorer.runtime.reference.evaluate import score
from tests.compiler.models import draw_inputs
from tests.compiler.schedule.test_chunks import KGE, PASTED, refusals

SIZES = {"D": 40, "K": 96}
EDGES, BLOCK = 8, 32
TWO = """dim D = 40, K = 40
score Two(h: entity, r: relation, t: entity):
    param E[entity, D], P[relation, D, K], Q[relation, D, K]
    return sum(abs((E[h] - E[t]) @ P[r])) + sum(abs(E[h] @ Q[r]))
"""
CHUNKS = {"inspect": "chunks", "inspect_edges": EDGES, "inspect_group": 1, "inspect_block": BLOCK}


def by_chunks(text, sizes=None, schedule=None, **options):
    """The compilation, and its first kernel, which is by chunks."""
    compilation = explorer.compile(
        text, sizes=SIZES if sizes is None else sizes, options=CHUNKS | options, schedule=schedule, on_demand=True
    )
    kernel, *_ = kernels_of(compilation.stages["kernels"].program)
    assert kernel.template == "chunks"
    return compilation, kernel


def distinct(compilation, edges):
    """Inputs of so many edges, no two of which have an entity or a relation in common."""
    inputs = draw_inputs(compilation, batch=edges, entities=2 * edges, relations=edges)
    names = {"h": np.arange(edges), "t": np.arange(edges, 2 * edges), "r": np.arange(edges)}
    return inputs | {name: ids.astype(np.int32) for name, ids in names.items()}


def asked(edges=2 * EDGES, **options):
    """The bytes that TransR's kernel asks memory for, of distinct edges."""
    compilation, kernel = by_chunks(KGE["transr"], **options)
    (found,) = asked_bytes((kernel,), distinct(compilation, edges)).values()
    return found


def test_a_stored_row_is_written_once_and_read_for_each_further_block_of_columns():
    """An edge's row E[h] - E[t] of 40 elements, by 3 blocks of 32 of 96 columns: both entities' rows once, the row
    once, and twice again, in place of both entities' rows thrice."""
    computed, stored = asked(), asked(inspect_reload=True)
    assert computed - stored == 2 * EDGES * 40 * 4 * (3 * 2 - (2 + 1 + 2))


def test_places_without_an_edge_have_rows_of_their_own():
    """The last chunk has one edge, and its other places do what that does, in memory that is theirs."""
    _, kernel = by_chunks(KGE["transr"], inspect_reload=True)
    (rows,) = (buffer for buffer in kernel.buffers if buffer.name == "TransR_rows")
    assert rows.extents == ("TransR_chunks", EDGES, "D")
    assert dict(kernel.counts)["TransR_chunks"].value({"B": EDGES + 1}) == 2


@pytest.mark.parametrize("text", [KGE["transr"], KGE["rescal"], PASTED], ids=["transr", "rescal", "pasted"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_scores_are_the_references(text, stored, shuffled):
    """And each is the same as it usually is, to the last bit: sums are taken in the same order."""
    sizes = dict.fromkeys(explorer.compile(text, on_demand=True).sizes, 40)
    compilation, kernel = by_chunks(text, sizes, inspect_reload=stored, inspect_shuffle=shuffled)
    inputs = draw_inputs(compilation, batch=EDGES + 1, entities=6, relations=4)
    found = run_scheduled((kernel,), inputs)["out"]
    assert np.allclose(found, score(text, inputs, compilation.sizes), rtol=1e-4, atol=1e-4)
    assert np.array_equal(found, run_scheduled((by_chunks(text, sizes)[1],), inputs)["out"])


def test_a_schedule_has_it_too_and_the_kernel_parses_back():
    compilation, _ = by_chunks(KGE["transr"], schedule="TransR: inspect_reload = true")
    assert compilation.schedule["TransR.inspect_reload"] is True
    assert parse_module(compilation.stages["kernels"].text) == compilation.stages["kernels"].program
    assert "schedule store rows that P multiplies once, reload" in compilation.stages["kernels"].text
    again, _ = by_chunks(KGE["transr"], schedule=str(compilation.schedule))
    assert again.stages["kernels"].text == compilation.stages["kernels"].text


def test_usually_rows_are_computed_again():
    usual, said = (by_chunks(KGE["transr"], **way)[0].stages["kernels"].text for way in ({}, {"inspect_reload": False}))
    assert usual == said
    assert "TransR_rows" not in usual


@pytest.mark.parametrize(
    ("name", "sizes", "why"),
    [
        ("transr", {"D": 40, "K": 32}, "all K columns of P are in one block of 32"),
        ("rescal", {"D": 40}, "the rows that P multiplies are in memory as they are"),
        ("transh", {"D": 40}, "edges choose no matrices"),
    ],
)
def test_where_nothing_is_stored_the_reason_is_given(name, sizes, why):
    said = [
        each
        for report in explorer.compile(KGE[name], sizes=sizes, options=CHUNKS | {"inspect_reload": True})
        .stages["kernels"]
        .passes
        for each in report.refusals
    ]
    assert [each.partition(" for ")[2] for each in said if "inspect_reload" in each] == [why]
    usual, asked_for = (by_chunks(KGE[name], sizes, inspect_reload=way)[1] for way in (False, True))
    assert usual == asked_for


def test_of_two_products_that_one_is_stored_whose_rows_are_computed():
    text = by_chunks(TWO, {"D": 40, "K": 40}, inspect_reload=True)[0].stages["kernels"].text
    assert "schedule store rows that P multiplies once, reload" in text
    assert "that Q multiplies" not in text


def test_without_chunks_nothing_reads_the_option():
    said = "RESCAL: inspect_reload: nothing, for inspect is not chunks"
    assert said in refusals(KGE["rescal"], inspect_reload=True)


def test_shuffled_rows_take_no_shared_memory():
    """A chunk of 8 edges has blocks of 32 numbers there, or none; its edges ask for the same of memory."""
    usual, shuffled = (by_chunks(KGE["transr"], inspect_shuffle=way)[1] for way in (False, True))
    assert shared_bytes(usual) - shared_bytes(shuffled) == EDGES * BLOCK * 4
    assert asked() == asked(inspect_shuffle=True)
    assert asked(inspect_reload=True) == asked(inspect_reload=True, inspect_shuffle=True)


def test_a_block_of_shuffled_rows_has_an_element_a_lane():
    """By blocks of 64 columns: 40 numbers of a row in two blocks, the second of which lacks some."""
    _, kernel = by_chunks(KGE["transr"], inspect_block=64, inspect_shuffle=True)
    found = {node.name: node.extents for node in walk(kernel) if isinstance(node, Tile)}
    assert found["vector"] == (EDGES, 1, 32)
    assert "hand rows that P multiplies from lane to lane" in kernel.schedule


def test_shuffles_are_read_back_and_chosen_by_a_schedule():
    compilation, _ = by_chunks(KGE["transr"], schedule="TransR: inspect_reload = true, inspect_shuffle = true")
    text = compilation.stages["kernels"].text
    assert parse_module(text) == compilation.stages["kernels"].program
    assert "inspect_reload = true, inspect_shuffle = true" in text
    assert " shuffled\n" in text
    assert "__shfl_sync(0xffffffffu, vector" in compilation.stages["cuda"].text


def test_without_matrices_nothing_is_shuffled():
    passes = explorer.compile(KGE["transh"], options=CHUNKS | {"inspect_shuffle": True}).stages["kernels"].passes
    said = [each for report in passes for each in report.refusals if "inspect_shuffle" in each]
    assert said == ["TransH: inspect_shuffle=true: false, for edges choose no matrices"]


def test_what_a_switch_does_not_take_is_told_in_the_words_of_a_schedule():
    stage = explorer.compile(KGE["transr"], options=CHUNKS, schedule="TransR: inspect_reload = 7").stages["kernels"]
    said = [each for report in stage.passes for each in report.refusals if "inspect_reload" in each]
    assert said == ["TransR: inspect_reload=7: nothing, for it takes false, true"]


@pytest.mark.parametrize(
    ("before", "after", "broken"),
    [
        ("for q1 in 0..32 unroll 8\n", "for q1 in 0..32 @lane\n", "not all lanes reach it alike"),
        ("vector[w2, q1] shuffled", "s2[w2, q1] shuffled", "no lane holds the one element of its number"),
        ("shuffled", "", "the loop over q1 is not unrolled"),
    ],
)
def test_what_breaks_the_rules_of_shuffles_is_refused(before, after, broken):
    text = SHUFFLING.replace(before, after)
    verify_scheduled(parse_scheduled(SHUFFLING))
    with pytest.raises(VerificationError, match=broken):
        verify_scheduled(parse_scheduled(text))


SHUFFLING = """scheduled Rows  template warps  threads 64
  param X[rows, 32]
  output out[rows]
  for b in 0..rows @block
    register vector[2, 32], s2[2, 1], total[2]
    for w in 0..2 @warp
      for j in 0..32 @lane: vector[w, j] = X[b, j]
      s2[w, 0] = 0.0
    for w2 in 0..2 @warp
      total[w2] = 0.0
      for q1 in 0..32 unroll 8
        u = vector[w2, q1] shuffled
        total[w2] += u
      for l in 0..32 @lane where l == 0
        where w2 == 0
          v = total[w2]
          out[b] = v
"""
