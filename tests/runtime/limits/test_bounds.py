"""The limits beside the closed forms of the literature, and what they count where those are silent."""

import numpy as np
import pytest

import explorer
from explorer.runtime.limits.bounds import distinct_sectors, limits, touched_sectors

B, N = 40, 6
ENTITIES, RELATIONS = 30, 5
D, K = 16, 24  # whole sectors of 8 floats


def scoring(*body):
    """The text of a score of these statements."""
    header = [f"dim D = {D}, K = {K}", "", "score Model(h: entity, r: relation, t: entity):"]
    return "\n".join([*header, *("    " + line for line in body)])


TRANSE = scoring("param E[entity, D], R[relation, D]", "return norm(E[h] - E[t] + R[r], 2)")
TRANSR = scoring("param E[entity, D], R[relation, K], P[relation, D, K]", "return norm((E[h] - E[t]) @ P[r] + R[r], 2)")
TRANSH = scoring(
    "param E[entity, D], R[relation, D], w[relation, D]",
    "e = E[h] - E[t]",
    "return norm(e + R[r] - dot(w[r], e) * w[r])",
)
RESCAL = scoring("param E[entity, D], P[relation, D, D]", "return dot(E[h] @ P[r], E[t])")


def limits_of(text, negatives="none", seed=0, **shapes):
    """The limits of a text on random ids, the graph, and the ids."""
    compilation = explorer.compile(text, options={"negatives": negatives})
    assert compilation.ok, compilation.diagnostics
    graph = compilation.stages["graph"].program
    random = np.random.default_rng(seed)
    inputs = {
        "h": random.integers(0, ENTITIES, B).astype(np.int32),
        "r": random.integers(0, RELATIONS - 1, B).astype(np.int32),
        "t": random.integers(0, ENTITIES, B).astype(np.int32),
    }
    if negatives != "none":
        inputs[negatives[0]] = random.integers(0, ENTITIES, (B, N)).astype(np.int32)
    counts = {"entity": ENTITIES, "relation": RELATIONS}
    for tensor in graph.tensors:
        shape = [*(counts[name] for name in tensor.sets), *(graph.size(extent) for extent in tensor.dims)]
        inputs[tensor.name] = np.zeros(shape, np.float32)
    return limits(graph, inputs), inputs


def distinct(*ids):
    """How many different ids there are in all of these."""
    return len(set(np.concatenate([array.ravel() for array in ids]).tolist()))


def test_transe():
    found, ids = limits_of(TRANSE)
    entities, relations = distinct(ids["h"], ids["t"]), distinct(ids["r"])
    assert found["compulsory_bytes"] == 4 * D * (entities + relations) + 12 * B + 4 * B
    assert found["stream_bytes"] == 3 * 4 * B * D + 12 * B + 4 * B
    assert found["flop"] == pytest.approx(4 * B * D, rel=0.02)


def test_transh():
    found, ids = limits_of(TRANSH)
    entities, relations = distinct(ids["h"], ids["t"]), distinct(ids["r"])
    assert found["compulsory_bytes"] == 4 * D * (entities + 2 * relations) + 16 * B
    assert found["stream_bytes"] == 4 * 4 * B * D + 16 * B
    assert found["flop"] == pytest.approx(8 * B * D, rel=0.02)


def test_transr():
    found, ids = limits_of(TRANSR)
    entities, relations = distinct(ids["h"], ids["t"]), distinct(ids["r"])
    assert found["compulsory_bytes"] == 4 * (D * entities + K * relations + D * K * relations) + 16 * B
    assert found["stream_bytes"] == 4 * B * (2 * D + K + D * K) + 16 * B
    assert found["flop"] == 2 * B * D * K + B * D + 3 * B * K


def test_rescal():
    found, _ = limits_of(RESCAL)
    assert found["flop"] == B * (2 * D * D + 2 * D)


def test_what_does_not_depend_on_a_negative_is_counted_once_a_triple():
    found, ids = limits_of(RESCAL, f"tail:{N}")
    entities, relations = distinct(ids["h"], ids["t"]), distinct(ids["r"])
    assert found["flop"] == B * 2 * D * D + 2 * B * N * D
    assert found["compulsory_bytes"] == 4 * (D * entities + D * D * relations) + 4 * (2 * B + B * N) + 4 * B * N
    assert found["stream_bytes"] == 4 * (D * B + D * D * B + D * B * N) + 4 * (2 * B + B * N) + 4 * B * N


def test_a_list_that_triples_share_is_read_once():
    alone, ids = limits_of(RESCAL, f"tail:{N}")
    compilation = explorer.compile(RESCAL, options={"negatives": f"tail:{N}/7"})
    shared = limits(compilation.stages["graph"].program, ids)
    for bytes_ in ("compulsory_bytes", "stream_bytes"):
        assert alone[bytes_] - shared[bytes_] == 4 * N * (B - -(-B // 7))


def test_negatives_of_transe_are_three_operations_an_element():
    found, _ = limits_of(scoring("param E[entity, D], R[relation, D]", "return norm(E[h] + R[r] - E[t])"), f"tail:{N}")
    assert found["flop"] == pytest.approx(3 * B * N * D + B * D, rel=0.02)


def test_short_rows_share_sectors_and_long_ones_are_rounded_up():
    text = scoring("param b[entity], c[relation, 9]", "return b[h] + b[t] + sum(c[r])")
    found, ids = limits_of(text)
    touched = set()
    for row in np.unique(np.concatenate([ids["h"], ids["t"]])).tolist():
        touched.add(("b", row * 4 // 32))
    for row in np.unique(ids["r"]).tolist():
        touched.update(("c", byte // 32) for byte in range(row * 36, row * 36 + 36))
    assert found["compulsory_bytes"] == 32 * len(touched) + 16 * B
    streamed = sum((row * 36 + 35) // 32 - row * 36 // 32 + 1 for row in ids["r"].tolist())
    assert found["stream_bytes"] == 32 * (2 * B + streamed) + 16 * B


@pytest.mark.parametrize("row_bytes", [1, 4, 8, 12, 16, 24, 32, 36, 64, 96, 100, 400])
def test_sectors_are_those_of_the_bytes_whatever_a_rows_length(row_bytes):
    rows = np.array([0, 1, 3, 4, 9, 20])
    by_row = [{byte // 32 for byte in range(row * row_bytes, (row + 1) * row_bytes)} for row in rows.tolist()]
    assert touched_sectors(rows, row_bytes) == sum(map(len, by_row))
    assert distinct_sectors(rows, row_bytes) == len(set().union(*by_row))


def test_a_tensor_without_index_sets_is_read_once():
    text = scoring("param E[entity, D], W[D, K]", "return sum(E[h] @ W)")
    found, ids = limits_of(text)
    assert found["compulsory_bytes"] == 4 * D * distinct(ids["h"]) + 4 * D * K + 4 * B + 4 * B


def test_two_index_sets_are_one_row():
    text = scoring("param M[entity, relation, D]", "return sum(M[h, r])")
    found, ids = limits_of(text)
    pairs = {(h, r) for h, r in zip(ids["h"].tolist(), ids["r"].tolist(), strict=True)}
    assert found["compulsory_bytes"] == 4 * D * len(pairs) + 8 * B + 4 * B


def test_the_stream_is_never_below_the_compulsory_bytes():
    for text in (TRANSE, TRANSH, TRANSR, RESCAL):
        for negatives in ("none", f"head:{N}"):
            found, _ = limits_of(text, negatives)
            assert 0 < found["compulsory_bytes"] <= found["stream_bytes"]
