"""Ids that are computed of ids, `Q[i // M]`: what they lead to, and what is refused, with its place."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.ir.graph import print_graph
from explorer.compiler.ir.parse.graph import parse_graph
from tests.compiler.language.helpers import check, found
from tests.compiler.models import compiled

BAGS = """dim D = 4, M = 3
op f(b: bag of row):
    param T[row, D], Q[quotient, D], R[remainder, D]
    return {}
"""


def test_each_map_is_made_once() -> None:
    graph = check(BAGS.format("sum(Q[i // M] * R[i % M] + Q[i // M] + R[i // 2 % M] * T[i] for i in b)")).graph
    assert graph is not None
    made = [(entry.name, entry.codomain, entry.computed) for entry in graph.maps if entry.computed]
    assert made == [
        ("idx_div_3", "quotient", (("//", 3),)),
        ("idx_mod_3", "remainder", (("%", 3),)),
        ("idx_div_2_mod_3", "remainder", (("//", 2), ("%", 3))),
    ]


def test_the_printed_graph_reads_back() -> None:
    graph = check(BAGS.format("sum(Q[(i // M)] * R[i // 2 % M] for i in b)")).graph
    assert graph is not None
    text = "\n".join(line.text for line in print_graph(graph))
    assert [entry.computed for entry in parse_graph(text).maps] == [entry.computed for entry in graph.maps]


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ("sum(Q[i // M] * T[i // M] * R[i % M] for i in b)", "4:30-36",
         "T has a row for each row, and 'i // M' is of a set of its own"),
        ("sum(Q[i // M] * (i // M).x * R[i % M] for i in b)", "4:28-38",
         "'i // M' is an index of a set of its own, which has no data"),
        ("sum(Q[i // M] * R[i % 0] for i in b)", "4:34-35", "an id is divided by a number from 1, not by 0"),
        ("sum(Q[i // M] * R[i % T[i]] for i in b)", "4:34-38",
         "what an id is divided by is a whole number, known before the run"),
        ("sum(R[i % M] * (i // M) * Q[i // M] for i in b)", "4:27-35",
         "'i // M' is an index of a set of its own, not a value"),
        ("sum(Q[i] * Q[i // M] * R[i % M] for i in b)", "4:16-20", "Q is indexed by quotient, but i is a row"),
        ("sum(T[i] // M + Q[i // M] * R[i % M] for i in b)", "4:21-23",
         "'//' divides sizes and indices, and values divide by '/'"),
        ("sum(T[i] % M + Q[i // M] * R[i % M] for i in b)", "4:21-22",
         "'%' divides sizes and indices, and values divide by '/'"),
    ],
)  # fmt: skip
def test_what_is_no_divided_id_is_refused(value: str, where: str, message: str) -> None:
    assert (where, message) in found(check(BAGS.format(value)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op f(A: csr[row, col]):\n    param Q[part, 4]\n    for z in A.nonzeros():\n        z[\"y\"] = Q[z // 2]\n"
         "    return z[\"y\"]\n",
         "nothing is computed of 'z': nonzeros are sorted before a run, and have no number of their own"),
        ("layer f(g: graph):\n    param Q[part, 4]\n    for e in g.edges():\n        e[\"y\"] = Q[e // 2]\n"
         "    return e[\"y\"]\n",
         "nothing is computed of 'e': edges are sorted before a run, and have no number of their own"),
        ("layer f(g: graph):\n    param x[node, 4]\n    for n in g.nodes():\n        n[\"y\"] = x[n // 2]\n"
         "    return n[\"y\"]\n", "x has a row for each node, and 'n // 2' is of a set of its own"),
        ("score f(h: entity, w: hour):\n    param E[entity]\n    return E[h] * E[w // 24]\n",
         "E has a row for each entity, and 'w // 24' is of a set of its own"),
        ("layer f(g: graph):\n    param x[node, 4]\n    for n in g.nodes():\n        n[\"y\"] = (n + 1)[\"y\"] + x[n]\n"
         "    return n[\"y\"]\n", "'(n + 1)' is no node and no edge: it has no data"),
    ],
)  # fmt: skip
def test_other_ids_are_not_divided(text: str, message: str) -> None:
    assert message in [each for _, each in found(check(text))]


def test_a_size_may_be_a_remainder() -> None:
    graph = check(
        "dim A = 7, B = A % 4\nop f(b: bag of row):\n    param T[row, B]\n    return sum(T[i] for i in b)\n"
    ).graph
    assert graph is not None
    assert dict(graph.sizes)["B"] == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("h // 2147483648", "an id is divided by a number from 1 to 2,147,483,647, not by 2147483648"),
        ("h % 99999999999999999999", "an id is divided by a number from 1 to 2,147,483,647, not by"
         " 99999999999999999999"),
        ("h" + " // 1" * 9, "of an id another is computed with 8 numbers at most"),
        ("h" + " // 1" * 9000, "of an id another is computed with 8 numbers at most"),
    ],
    ids=lambda each: each[:30],
)  # fmt: skip
def test_what_no_ids_of_32_bits_need_is_refused(value: str, message: str) -> None:
    text = f"score f(h: entity):\n    param Q[part]\n    return Q[{value}]\n"
    assert message in [each for _, each in found(check(text))]


def test_hashes_are_named_by_their_numbers_and_read_back() -> None:
    graph = check(BAGS.format("sum(Q[(3 * i + 7) % 5] * R[i * 2 // 3 - 0] * T[i] for i in b)")).graph
    assert graph is not None
    made = {entry.name: entry.computed for entry in graph.maps if entry.computed}
    assert made == {
        "idx_times_3_plus_7_mod_5": (("*", 3), ("+", 7), ("%", 5)),
        "idx_times_2_div_3_minus_0": (("*", 2), ("//", 3), ("-", 0)),
    }
    text = "\n".join(line.text for line in print_graph(graph))
    assert "= (idx * 3 + 7) % 5" in text
    assert {entry.name: entry.computed for entry in parse_graph(text).maps if entry.computed} == made


def test_a_negative_number_is_no_part_of_a_name() -> None:
    graph = check(BAGS.format("sum(Q[(i + -7) % 5] * R[i - -2] * T[i] for i in b)")).graph
    assert graph is not None
    made = {entry.name: entry.computed for entry in graph.maps if entry.computed}
    assert made == {"idx_minus_7_mod_5": (("-", 7), ("%", 5)), "idx_plus_2": (("+", 2),)}


def test_a_path_and_a_map_of_one_name_have_computed_ids_of_their_own() -> None:
    text = """layer f(g: graph):
    param T[bucket], K[kind], S[sort]
    map kind: node -> kind
    map src_kind: edge -> sort
    for e in g.edges():
        e["y"] = T[e.src.kind % 3] * T[e.src_kind % 3] * K[e.src.kind] * S[e.src_kind]
    return e["y"]
"""
    graph = check(text).graph
    assert graph is not None
    assert {entry.paths for entry in graph.maps if entry.computed} == {("src.kind",), ("src_kind",)}


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ("sum(Q[i - 1] for i in b)", "4:18-23", "'i - 1' may be negative, and rows have numbers from 0 on"),
        ("sum(Q[7 % i] for i in b)", "4:22-23", "'i' is an index of a row, not a value"),
        ("sum(Q[i % M + i % 2] for i in b)", "4:18-23", "'i % M' is an index of a set of its own, not a value"),
        ("sum(Q[i * 0] for i in b)", "4:22-23", "an id is multiplied by a number from 1, not by 0"),
        ("sum(Q[i * 2.5] for i in b)", "4:18-19", "'i' is an index of a row, not a value"),
        ("sum(Q[i * 4294967296 * 2] for i in b)", "4:35-36",
         "of ids up to 2,147,483,647 this may need more than 64 bits: take a remainder before"),
        ("sum(T[i + 1] * Q[i] for i in b)", "4:18-23", "T has a row for each row, and 'i + 1' is of a set of its own"),
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused(value: str, where: str, message: str) -> None:
    assert (where, message) in found(check(BAGS.format(value)))


def test_on_the_way_ids_have_64_bits() -> None:
    h = np.array([2**31 - 1, 2**31 - 2, 0], np.int32)
    text = "score f(h: entity):\n    param Q[part]\n    return Q[(h * 4294967295 + 5) % 1000]\n"
    table = np.arange(1000, dtype=np.float32)
    wanted = [(int(each) * 4294967295 + 5) % 1000 for each in h]
    for stage in ("graph", "cpu"):
        np.testing.assert_array_equal(compiled(text).run({"h": h, "Q": table}, stage), wanted)


@pytest.mark.parametrize("number", [2**31 - 1, 1])
def test_the_largest_divisor_divides(number: int) -> None:
    h = np.array([2**31 - 1, 2**31 - 2, 0], np.int32)
    text = f"score f(h: entity):\n    param Q[part]\n    return Q[h // {number} % 3]\n"
    got = compiled(text).run({"h": h, "Q": np.arange(3, dtype=np.float32)}, "graph")
    np.testing.assert_array_equal(got, h // number % 3)


LAYER = """layer f(g: graph):
    param x[node], Q[{tensor}]
    map {map}: edge -> {set}
    for e in g.edges():
        e.{map}["c"] += x[e.src] * Q[e.src // 2]
    for e in g.edges():
        e["y"] = e.{map}["c"] * Q[e.{map} // 2]
    return {returned}
"""


@pytest.mark.parametrize(("name", "sets"), [("src_div_2", "time"), ("when", "when_div_2"), ("when", "src_div_2")])
def test_the_name_of_a_computed_map_is_its_own(name: str, sets: str) -> None:
    """It is not that of a map, or of a set, which the text has."""
    for returned in ('e["y"]', f'{sets}["c"]'):
        text = LAYER.format(map=name, set=sets, tensor="half", returned=returned)
        random = np.random.default_rng(0)
        src, when = np.array([0, 3, 2, 3]), np.array([2, 0, 2, 1])
        given = {"src": src, "dst": np.array([1, 1, 0, 0]), name: when}
        given |= {"x": random.normal(size=4).astype(np.float32), "Q": random.normal(size=2).astype(np.float32)}
        sums = np.bincount(when, given["x"][src] * given["Q"][src // 2], minlength=4)  # as Q has the halves of
        want = sums if returned.startswith(sets) else sums[when] * given["Q"][when // 2]
        made = compiled(text, options={"grad": True}, on_demand=True)
        got, gradients = made.run(given, "loops", grad=np.ones(len(want)))
        np.testing.assert_allclose(np.ravel(got), want, rtol=1e-5)
        assert set(gradients) == {"x", "Q"}


@pytest.mark.parametrize("name", ["negative", "batch", "h"])
def test_a_set_of_divided_ids_has_a_name_of_its_own(name: str) -> None:
    text = f"score f(h: entity, n: negatives of entity):\n    param Q[{name}]\n    return sum(Q[k // 2] for k in n)\n"
    assert check(text).graph is None


@pytest.mark.parametrize(("value", "rows"), [("3 * i + 7", 0), ("(3 * i + 7) % 5", 5), ("i % 5 + 2", 7)])
def test_of_no_ids_a_table_needs_no_rows(value: str, rows: int) -> None:
    text = f"op f(b: bag of row):\n    param Q[part]\n    return sum(Q[{value}] for i in b)\n"
    inputs = {"ptr": np.zeros(3, np.int32), "idx": np.zeros(0, np.int32), "Q": np.ones(rows, np.float32)}
    for stage in ("graph", "cpu"):
        np.testing.assert_array_equal(compiled(text).run(inputs, stage), [0, 0])
