"""Ids that are computed of ids, `Q[i // M]`: what they lead to, and what is refused, with its place."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.compiler.ir.graph import print_graph
from explorer.compiler.ir.parse.graph import parse_graph
from explorer.compiler.ir.parse.reader import ParseError
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


SCORE = """score f(h: entity, r: relation, t: entity):
    param T[part], Q[other]
    return {}
"""


def test_ids_of_several_are_one_map() -> None:
    graph = check(
        SCORE.format("T[(3 * h + 5 * t + 7) % 11] * Q[h + (t - r) * 2 % 5] + T[(3 * h + 5 * t + 7) % 11]")
    ).graph
    assert graph is not None
    made = {entry.name: (entry.paths, entry.computed) for entry in graph.maps if entry.computed}
    assert made == {
        "h_times_3_plus_t_times_5_plus_7_mod_11": (("h", "t"), (("*", 3), ("+", (("*", 5),)), ("+", 7), ("%", 11))),
        "h_plus_t_minus_r_times_2_mod_5": (("h", "t", "r"), (("+", (("-", ()), ("*", 2), ("%", 5))),)),
    }
    text = "\n".join(line.text for line in print_graph(graph))
    assert "= (h * 3 + t * 5 + 7) % 11" in text
    assert "= h + (t - r) * 2 % 5" in text
    assert {e.name: (e.paths, e.computed) for e in parse_graph(text).maps if e.computed} == made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("7 + h", "what is computed of ids begins with one, not with 7"),
        ("h % t", "an id is divided by a number, not by another"),
        ("7", "m is a number, and no map"),
    ],
)
def test_what_no_map_computes_is_not_read(made: str, message: str) -> None:
    text = f"""score f over batch
  map h: batch -> entity
  map t: batch -> entity
  map m: batch -> part = {made}
  param T[part]
  %1 = gather T[m]  : batch []  {{m}}
  return %1
"""
    with pytest.raises(ParseError, match=message):
        parse_graph(text)


def test_what_is_computed_in_another_order_has_a_map_of_its_own() -> None:
    graph = check(SCORE.format("T[h + t * 2] * Q[(h + t) * 2] + T[t * 2 + h]")).graph
    assert graph is not None
    made = {entry.name: entry.computed for entry in graph.maps if entry.computed}
    assert made == {
        "h_plus_t_times_2": (("+", (("*", 2),)),),
        "h_plus_t_times_2_": (("+", ()), ("*", 2)),
        "t_times_2_plus_h": (("*", 2), ("+", ())),
    }


TARGETS = ("graph", "loops", "kernels", "dlc", "dae", "cpu")


@pytest.mark.parametrize("entities", [1, 2, 5])
def test_a_table_has_a_row_for_each_sum_of_ids(entities: int) -> None:
    """Two sets of n elements have 2 n - 1 sums; of one element each, one."""
    last, rows = entities - 1, 2 * entities - 1
    h, r, t = np.array([last, 0, last]), np.array([1, 0, 0]), np.array([last, 0, 0])
    text = "score f(h: entity, r: relation, t: entity):\n    param E[entity], T[part]\n    return E[t] * T[h + t]\n"
    random = np.random.default_rng(0)
    inputs = {"h": h, "r": r, "t": t, "E": random.normal(size=entities), "T": random.normal(size=rows)}
    inputs |= {name: inputs[name].astype(np.float32) for name in "ET"}
    upstream = np.array([0.5, -1, 2], np.float32)
    of_table = np.zeros(rows)
    np.add.at(of_table, h + t, upstream * inputs["E"][t])
    made = compiled(text, options={"grad": True}, on_demand=True)
    for target in TARGETS:
        got, gradients = made.run(inputs, target, grad=upstream)
        np.testing.assert_allclose(got, inputs["E"][t] * inputs["T"][h + t], rtol=1e-6)
        np.testing.assert_allclose(gradients["T"], of_table, rtol=1e-6)
    short = {**inputs, "T": inputs["T"][:-1]}
    with pytest.raises(ValueError, match=f"h_plus_t leads to {rows} rows, but T has {rows - 1}"):
        made.run(short, "cpu", grad=upstream)


@pytest.mark.parametrize("target", TARGETS)
def test_an_empty_batch_computes_nothing(target: str) -> None:
    none = np.zeros(0, np.int32)
    inputs = {"h": none, "r": none, "t": none, "T": np.ones(11, np.float32), "Q": np.ones(0, np.float32)}
    made = compiled(SCORE.format("T[(3 * h + 5 * t) % 11] * Q[h + t]"), options={"grad": True}, on_demand=True)
    got, gradients = made.run(inputs, target, grad=np.zeros(0, np.float32))
    assert got.shape == (0,)
    np.testing.assert_array_equal(gradients["T"], np.zeros(11))
    assert gradients["Q"].shape == (0,)


def test_several_ids_have_64_bits_on_the_way() -> None:
    """4294967295 * (2**31 - 1) is just below 2**63, and neither product may lose a bit before they meet."""
    h, t = np.array([2**31 - 1, 2**31 - 2, 0, 2**31 - 1], np.int32), np.array([0, 2**31 - 1, 5, 2**31 - 1], np.int32)
    text = (
        "score f(h: entity, t: item):\n    param Q[part]\n    return Q[(2147483648 * h - 2147483646 * t - 5) % 997]\n"
    )
    table = np.arange(997, dtype=np.float32)
    wanted = [(2147483648 * int(one) - 2147483646 * int(other) - 5) % 997 for one, other in zip(h, t, strict=True)]
    for stage in ("graph", "cpu"):
        np.testing.assert_array_equal(compiled(text).run({"h": h, "t": t, "Q": table}, stage), wanted)


@pytest.mark.parametrize("target", ["graph", "cpu"])
def test_rows_that_32_bits_do_not_number_are_refused_at_the_run(target: str) -> None:
    """How many the sets have, only a run knows: here as many as their ids need."""
    text = "score f(h: entity, t: entity):\n    param Q[part]\n    return Q[1000000000 * h + t]\n"
    inputs = {"h": np.array([3, 0]), "t": np.array([0, 1]), "Q": np.ones(4, np.float32)}
    message = r"h_times_1000000000_plus_t may lead to 3,000,000,002 rows, and an id has 32 bits, for 2,147,483,647"
    with pytest.raises(ValueError, match=message):
        compiled(text).run(inputs, target)
    near = {"h": np.array([0, 0]), "t": np.array([0, 1]), "Q": np.arange(2, dtype=np.float32)}
    np.testing.assert_array_equal(compiled(text).run(near, target), [0, 1])


BOUND = """layer f(g: graph):
    param T[bucket]
    for n in g.nodes():
        n["h"] = summed(T, n, n // 2) + T[n % 3]
    return n["h"]

def summed(T, n, half):
    return sum(T[(half + e.src) % 3] for e in n.incoming_edges())
"""


def test_a_helper_is_given_what_is_computed_of_a_node() -> None:
    """Inside the helper's loop it is that of the edges' end."""
    src, dst = np.array([0, 3, 2, 3, 1]), np.array([1, 1, 0, 3, 3])
    table = np.array([0.5, -1, 2], np.float32)
    inputs = {"src": src, "dst": dst, "num_nodes": 4, "T": table}
    want = np.bincount(dst, table[(dst // 2 + src) % 3], minlength=4) + table[[0, 1, 2, 0]]
    for target in ("graph", "loops", "cpu"):
        np.testing.assert_allclose(np.ravel(compiled(BOUND, on_demand=True).run(inputs, target)), want, rtol=1e-6)


@pytest.mark.parametrize("target", ["graph", "loops", "kernels", "cpu"])
def test_a_product_of_sets_has_computed_ids_too(target: str) -> None:
    """`A[(h + t) % 3, r]`: its gradient is summed by rows that lead on from a computed map."""
    text = "score f(h: entity, r: relation, t: entity):\n    param A[part, relation]\n    return A[(h + t) % 3, r]\n"
    h, r, t = np.array([4, 0, 2, 4]), np.array([1, 0, 1, 1]), np.array([1, 0, 3, 1])
    table = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    upstream = np.array([0.5, 1, -2, 4], np.float32)
    want = np.zeros((3, 2))
    np.add.at(want, ((h + t) % 3, r), upstream)
    made = compiled(text, options={"grad": True}, on_demand=True)
    got, gradients = made.run({"h": h, "r": r, "t": t, "A": table}, target, grad=upstream)
    np.testing.assert_allclose(got, table[(h + t) % 3, r])
    np.testing.assert_allclose(gradients["A"], want)


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
        ("sum(Q[i % (i + 1)] for i in b)", "4:22-29",
         "an id is divided by a number that is known before the run, and 'i + 1' is another id"),
        ("sum(Q[i // i] for i in b)", "4:23-24",
         "an id is divided by a number that is known before the run, and 'i' is another id"),
        ("sum(Q[i - i % 2] for i in b)", "4:18-27", "'i - i % 2' may be negative, and rows have numbers from 0 on"),
        ("sum(Q[i * i * i] for i in b)", "4:18-27",
         "of ids up to 2,147,483,647 this may need more than 64 bits: take a remainder before"),
        ("sum(Q[i * 4294967296 + 4294967296 * i] for i in b)", "4:18-49",
         "of ids up to 2,147,483,647 this may need more than 64 bits: take a remainder before"),
        ("sum(Q[2654435761 * i] for i in b)", "4:18-32",
         "'2654435761 * i' is 2,654,435,761 of the ids of two elements already, and ids have 32 bits"),
        ("sum(Q[i % M * 2000000000] for i in b)", "4:18-36",
         "'i % M * 2000000000' is 4,000,000,000 of the ids of two elements already, and ids have 32 bits"),
        ("sum(Q[i + i + i + i + i + i + i + i + i + i] for i in b)", "4:18-55",
         "of an id another is computed with 8 numbers and other ids at most"),
        ("sum(Q[i + i] * T[i + i] for i in b)", "4:29-34",
         "T has a row for each row, and 'i + i' is of a set of its own"),
        ("sum((i + i) * Q[i + i] for i in b)", "4:16-23", "'i + i' is an index of a set of its own, not a value"),
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
