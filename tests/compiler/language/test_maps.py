"""Maps that a layer declares: what is refused, with its place."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.runtime.data.graphs import DeclaredMap, load_graph
from explorer.runtime.reference.sampling import Data, needed
from explorer.runtime.runs.layer import closed, part_of, with_drawn_maps
from tests.compiler.by_form.set_structures import MAPPED, mapped
from tests.compiler.language.helpers import check, found
from tests.compiler.models import compiled

LAYER = """dim F = 4
layer f(g: graph):
    input x[node, F]
    param m[edge, F], T[time, F]
    map when: edge -> time
    {}
    for e in g.edges():
        e["o"] = {}
    return e["o"]
"""


@pytest.mark.parametrize(
    ("declared", "value", "where", "message"),
    [
        ("map src: edge -> node", "x[e.src]", "6:9-12", "'src' is given by the graph already: choose another name"),
        ("map norm: edge -> node", "x[e.src]", "6:9-13", "'norm' is given by the graph already: choose another name"),
        ("map F: edge -> node", "x[e.src]", "6:9-10", "'F' is a size: choose another name"),
        ("map sum: edge -> node", "x[e.src]", "6:9-12", "'sum' is a built-in function: choose another name"),
        ("map dst_ptr: edge -> node", "x[e.src]", "6:9-16", "'dst_ptr' is a part of the graph: choose another name"),
        ("map a: etype -> node", "x[e.src]", "6:12-17", "a map of a layer leads from edges or nodes, not from 'etype'"),
        ("map a: edge -> tyme", "x[e.src]", "6:20-24", "unknown index set 'tyme': did you mean 'time'?"),
        ("map a: edge -> F", "x[e.src]", "6:20-21", "'F' is no name for an index set: choose another one"),
        ("map a: edge -> unit", "x[e.src]", "6:20-24", "'unit' is no name for an index set: choose another one"),
        ("map a: edge -> src", "x[e.src]", "6:20-23", "'src' is no name for an index set: choose another one"),
        ("map edge: edge -> time", "x[e.src]", "6:9-13", "'edge' is an index set: choose another name"),
        ("map node: edge -> time", "x[e.src]", "6:9-13", "'node' is an index set: choose another name"),
        ("map a: edge -> time\n    map time: edge -> node", "x[e.src]", "7:9-13",
         "'time' is an index set: choose another name"),
        ("map kind: edge -> node\n    map a: edge -> kind", "x[e.src]", "7:20-24",
         "'kind' is no name for an index set: choose another one"),
        ("map all_times: edge -> time", "x[e.src]", "6:9-18",
         "'all_times' is a part of the graph: choose another name"),
        ("map a_ptr: edge -> time\n    map a: edge -> time", "x[e.src]", "6:9-14",
         "'a_ptr' is a part of the graph: choose another name"),
        ("for n in g.nodes():\n        map a: edge -> time", "x[e.src]", "7:9-28",
         "maps are declared at the beginning of the definition, outside of loops"),
        ("map a: edge -> time\n    map a: edge -> time", "T[e.a]", "7:9-10",
         "'a' is declared already: choose another name"),
        ("map a: edge -> time", "x[e.a]", "8:18-24", "x is indexed by node, but e.a is a time"),
        ("map a: edge -> edge", 'm[e] + e.a["o"]', "8:29-32", "'o' is read before it is written: line 8 writes it"),
        ("map a: node -> time", "T[e.a]", "8:22-23", "unknown data 'a' of an edge: edges have m"),
        ("map a: edge -> time", 'm[e] + e.a["o"]', "8:29-32", "'e.a' is a time and has no 'o': data stands on nodes and"
         " edges"),
    ],
)  # fmt: skip
def test_a_map_is_refused(declared: str, value: str, where: str, message: str) -> None:
    assert (where, message) in found(check(LAYER.format(declared, value)))


def test_data_of_another_edge_is_not_read_where_it_is_written() -> None:
    text = LAYER.format("map a: edge -> edge", 'm[e]\n        e["p"] = e.a["o"]')
    assert [message for _, message in found(check(text))] == [
        "'o' of e.a is written in this same loop: read it in a loop of its own, behind"
    ]


OP = """op f({}):
    param T[row, 4], W[time, 4]
    map when: {} -> time
    {}
"""


@pytest.mark.parametrize(
    ("header", "domain", "body", "where", "message"),
    [
        ("b: bag of row", "bags", "return sum(T[i] for i in b)", "3:15-19",
         "a map of an op leads from entries or bags or rows, not from 'bags'"),
        ("b: bag of row", "entry", "return sum(T[i.when] for i in b)", "4:16-25",
         "T is indexed by row, but i.when is a time"),
        ("b: bag of row", "row", "return sum(T[i] for i in b) * W[b.when]", "4:39-43",
         "unknown data 'when' of a bag: nothing is written on bags"),
        ("A: csr[row, col]", "nonzero", 'for i in A.rows():\n        i["y"] = W[i.when]\n    return i["y"]', "5:22-26",
         "unknown data 'when' of a row: rows have T"),
    ],
)  # fmt: skip
def test_a_map_of_an_op_leads_from_its_own_sets(header: str, domain: str, body: str, where: str, message: str) -> None:
    assert (where, message) in found(check(OP.format(header, domain, body)))


def test_a_map_is_not_called_as_lists_are_given() -> None:
    text = "op f(A: csr[row, col]):\n    param X[col]\n    map ptr: nonzero -> col\n"
    text += '    for i in A.rows():\n        i["y"] = sum(X[j] for j in A.row(i))\n    return i["y"]\n'
    assert found(check(text)) == [("3:9-12", "'ptr' is what an array of the matrix is called: choose another name")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score f(h: entity):\n    param E[entity]\n    map a: batch -> time\n    return E[h]\n",
         "a map of a score leads from entities, not from 'batch'"),
        ("def d(x):\n    map a: entity -> time\n    return x\n",
         "maps are declared in a score, a layer or an op, and this is a def"),
    ],
)  # fmt: skip
def test_maps_belong_to_what_has_ids(text: str, message: str) -> None:
    assert message in [each for _, each in found(check(text))]


SCORE = """dim D = 4
score f(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], K[type, D]
    {}
    return sum({} * R[r] * E[t])
"""


@pytest.mark.parametrize(
    ("declared", "value", "where", "message"),
    [
        ("map h: entity -> type", "E[h]", "4:9-10", "'h' is an id of the header: choose another name"),
        ("map E: entity -> type", "K[t.E]", "3:11-12", "'E' is a map of the score: choose another name"),
        ("map batch: entity -> type", "E[h]", "4:9-14", "'batch' is an index set: choose another name"),
        ("map entity: relation -> type", "E[h]", "4:9-15", "'entity' is an index set: choose another name"),
        ("map kind: time -> type", "E[h]", "4:15-19",
         "a map of a score leads from entities or relations, not from 'time'"),
        ("map kind: entity -> batch", "E[h]", "4:25-30", "'batch' is no name for an index set: choose another one"),
        ("map kind: entity -> tipe", "E[h]", "4:25-29", "unknown index set 'tipe': did you mean 'type'?"),
        ("map kind: entity -> type", "K[h]", "5:16-20", "K is indexed by type, but h is an entity"),
        ("map kind: entity -> type", "K[r.kind]", "5:20-24", "'r' is a relation, and no map 'kind' leads from it"),
        ("map kind: entity -> type", "K[h.kid]", "5:20-23",
         "'h' is an entity, and no map 'kid' leads from it: did you mean 'kind'?"),
    ],
)  # fmt: skip
def test_a_map_of_a_score_leads_from_where_its_ids_do(declared: str, value: str, where: str, message: str) -> None:
    assert (where, message) in found(check(SCORE.format(declared, value)))


def test_a_map_that_is_refused_is_told_once() -> None:
    assert len(found(check(SCORE.format("map h: entity -> type", "K[t.h]").replace("K[type, D]", "K[entity, D]")))) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rev": np.array([0, 1, 2, 3, 4, 5, 7], np.int32)}, "rev[6] is 7, which is not in 0 to 6."),
        ({"when": np.array([0, 1], np.int32)}, "when has 2 entries, but there are 7 edges."),
        ({"when": np.full(7, 3, np.int32)}, "when[0] is 3, which is not in 0 to 2."),
        ({"sort": np.zeros(5, np.float32)}, "sort has the shape [5] and holds float32, not a list of ids."),
    ],
)
def test_ids_that_do_not_fit_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    text = MAPPED + '    for e in g.edges():\n        e["o"] = x[e.third] + m[e.rev] + T[e.when] + k[e.src.sort]\n'
    random = np.random.default_rng(0)
    shapes = {"x": (5, 4), "W": (4, 4), "m": (7, 4), "T": (3, 4), "k": (3, 4)}
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        compiled(text + '    return e["o"]\n').run({**mapped(), **tensors, **change}, "cpu")


@pytest.mark.parametrize(
    ("value", "where", "message", "fixes"),
    [
        ("m[e.src]", "8:18-26", "m is indexed by edge, but e.src is a node", ["e"]),
        ("x[e.rev]", "8:18-26", "x is indexed by node, but e.rev is an edge", ["e.src", "e.dst", "e.third"]),
        ("k[e.rev]", "8:18-26", "k is indexed by kind, but e.rev is an edge",
         ["e.src.sort", "e.dst.sort", "e.third.sort"]),
        ("x[1]", "8:20-21", "x is indexed by node, but '1' is not an index", []),
        ("m", "8:18-19", "'m' has a row for each edge: take one, as in m[e]", ["m[e]"]),
    ],
)  # fmt: skip
def test_what_maps_lead_to_is_told_where_they_lead_on_and_on(
    value: str, where: str, message: str, fixes: list[str]
) -> None:
    """Paths like `e.rev.rev` have no end."""
    text = (
        "layer f(g: graph):\n    input x[node, 4], m[edge, 4], k[kind, 4]\n    map rev: edge -> edge\n"
        "    map third: edge -> node\n    map up: node -> node\n    map sort: node -> kind\n"
        f'    for e in g.edges():\n        e["o"] = {value}\n    return e["o"]\n'
    )
    result = check(text)
    assert found(result) == [(where, message)]
    assert [fix.replacement for fix in result.diagnostics[0].fixes] == fixes


def test_many_maps_are_not_looked_through_for_each_fault() -> None:
    maps = "".join(f"    map a{k}: edge -> node\n    map b{k}: node -> edge\n" for k in range(300))
    body = "layer f(g: graph):\n    input x[node, 4], T[time, 4]\n    map when: edge -> time\n" + maps
    body += "    for e in g.edges():\n" + '        e["o"] = T[e]\n' * 200 + '    return e["o"]\n'
    result = check(body)
    assert result.graph is None
    assert {fix.replacement for each in result.diagnostics for fix in each.fixes} == {"e.when"}


def test_a_part_of_a_graph_has_all_that_its_maps_lead_to() -> None:
    text = MAPPED + '    for e in g.edges():\n        e["o"] = x[e.third] + m[e.rev] + T[e.when]\n    return e["o"]\n'
    graph = compiled(text).stages["graph"].program
    whole = with_drawn_maps(load_graph("aifb"), graph, seed=1)
    ends = {"src": ("edge", "node"), "dst": ("edge", "node"), "etype": ("edge", "etype"), "ntype": ("node", "ntype")}
    ends |= {name: (each.domain, each.codomain) for name, each in whole.declared.items()}
    counts = {"node": whole.num_nodes, "edge": whole.num_edges}
    rows = np.array([5, 70])
    kept = needed(Data(graph, whole.arrays(), ends, counts), rows)
    for chosen in (kept, closed(whole, {"edge": rows, "node": np.zeros(0, np.int64)})):
        part = part_of(whole, chosen)
        for name, each in part.declared.items():
            assert isinstance(each, DeclaredMap)
            limit = {"node": part.num_nodes, "edge": part.num_edges}.get(each.codomain, each.count)
            assert 0 <= each.ids.min() <= each.ids.max() < limit, name
        edges, nodes = chosen["edge"], chosen["node"]
        assert (edges[part.declared["rev"].ids] == whole.declared["rev"].ids[edges]).all()
        assert (nodes[part.declared["third"].ids] == whole.declared["third"].ids[edges]).all()
