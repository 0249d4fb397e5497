"""Layers over several graphs: what they compile to, and what is said of texts that are wrong."""

from __future__ import annotations

import pytest

from .helpers import check

HEAD = "dim F = 4\nlayer f({}):\n    input x[node, F], w[edge], v[q_edge]\n    param R[etype, F, F]\n"
OVER = "g: graph, q: graph"
HEARD = 'for n in g.nodes():\n    n["h"] = {}\nreturn n["h"]'


def text(body: str, over: str = OVER) -> str:
    return HEAD.format(over) + "".join(f"    {line}\n" for line in body.split("\n"))


def found(body: str, over: str = OVER) -> list[tuple[str, str]]:
    """The first diagnostic and its detail, as a list of none or one."""
    return [(each.message, each.detail) for each in check(text(body, over)).diagnostics[:1]]


def values(source: str) -> list[str]:
    """The values of a text's graph, without their numbers' spaces."""
    graph = check(source).graph
    assert graph is not None
    return [f"{value.index_set} {' '.join(value.depends)}" for value in graph.values]


def test_a_further_graph_is_sets_and_maps() -> None:
    graph = check(text(HEARD.format("sum(v[e] * x[e.src] for e in q.incoming_edges(n))"))).graph
    assert graph is not None
    assert [(each.name, each.domain, each.codomain) for each in graph.maps] == [
        ("q_src", "q_edge", "node"),
        ("q_dst", "q_edge", "node"),
        ("q_etype", "q_edge", "q_etype"),
    ]


def test_the_first_graph_may_be_named_too() -> None:
    bare, named = (
        check(text(HEARD.format(f"sum(w[e] * x[e.src] @ R[e.etype] for e in {edges}) * {degree}"))).graph
        for edges, degree in (("n.incoming_edges()", "n.in_degree"), ("g.incoming_edges(n)", "g.in_degree(n)"))
    )
    assert bare is not None
    assert named is not None
    assert [str(value.operator)[:20] for value in bare.values] == [str(value.operator)[:20] for value in named.values]
    types = 'for n in g.nodes():\n    for r in {}:\n        n["h"] += sum(x[e.src] for e in {}) @ R[r]\nreturn n["h"]'
    of_node = text(types.format("n.incoming_etypes()", "n.incoming_edges(r)"), "g: graph").replace(", v[q_edge]", "")
    of_graph = text(types.format("g.incoming_etypes(n)", "g.incoming_edges(n, r)"), "g: graph")
    assert values(of_node) == values(of_graph.replace(", v[q_edge]", ""))


def test_a_helper_is_of_any_of_them() -> None:
    helper = "def heard(g, n, x):\n    return sum(x[e.src] for e in g.incoming_edges(n)) / g.in_degree(n)\n\n"
    assert values(helper + text(HEARD.format("heard(q, n, x) - heard(g, n, x)")))
    softmax = 'for e in q.edges():\n    e["s"] = v[e]\nedge_softmax(q, "s")\nreturn e["s"]'
    assert "q_edge" in values(text(softmax))[-1]


def test_each_has_data_of_its_own() -> None:
    body = 'for e in {}.edges():\n    q["s"] += {}[e]\nreturn {}["s"]'
    assert not found(body.format("q", "v", "q"))
    assert not found(body.format("g", "w", "q"))
    assert found(body.format("q", "v", "g"))[0][0] == "unknown data 's' of the graph 'g'"


def test_three_graphs_are_as_good_as_two() -> None:
    source = text(HEARD.format("sum(x[e.src] for e in p.incoming_edges(n)) + x[n]"), f"{OVER}, p: graph")
    graph = check(source).graph
    assert graph is not None
    assert [each.name for each in graph.maps][-3:] == ["p_src", "p_dst", "p_etype"]


@pytest.mark.parametrize(
    ("body", "message", "detail"),
    [
        (
            HEARD.format("sum(w[e] * x[e.src] for e in q.incoming_edges(n))"),
            "w is indexed by edge, but e is an edge of 'q'",
            "w is declared in line 3, with a row for each that is an edge of 'g'.",
        ),
        (
            HEARD.format("sum(x[e.src] @ R[e.etype] for e in q.incoming_edges(n))"),
            "R is indexed by etype, but e.etype is a type of the edges of 'q'",
            "R is declared in line 4, with a row for each that is a type of the edges of 'g'.",
        ),
        (
            'for e in q.edges():\n    e["m"] = v[e]\n' + HEARD.format('sum(e["m"] for e in n.incoming_edges())'),
            "'m' is data of an edge of 'q', but e is an edge of 'g'",
            "",
        ),
        (
            HEARD.format("sum(x[e.src] for e in q.incoming_edges())"),
            "q.incoming_edges() lacks its node: q.incoming_edges(n) goes over edges of 'q' at n",
            "There n is a node.",
        ),
        (
            HEARD.format("sum(x[e.src] for e in q.incoming_edges(x))"),
            "q.incoming_edges(x) goes over the edges of 'q' at a node, and 'x' is none",
            "",
        ),
        (
            HEARD.format("sum(x[e.src] for e in q.incoming_edges(n, n))"),
            "by their type, the edges of 'g' alone are gone over at a node, not those of 'q'",
            "The graph for that stands first in the header; of an edge e of 'q', e.etype is its type.",
        ),
        (
            HEARD.format("sum(x[e.src] * e.norm for e in q.incoming_edges(n))"),
            "unknown data 'norm' of an edge of 'q': q_edges have v",
            "The first graph alone has it; where all have one type it is 1 / q.in_degree(e.dst).",
        ),
        (
            HEARD.format("x[n] * q.in_degree(x)"),
            "q.in_degree(x) counts the edges that lead to a node, and 'x' is none",
            "",
        ),
        (HEARD.format("x[n] * x.in_degree(n)"), "'x' is no graph, whose edges x.in_degree(n) would count", ""),
        (
            'for n in g.nodes():\n    for e in q.edges():\n        n["h"] += x[e.src]\nreturn n["h"]',
            "a loop over the graph stands in no other loop",
            "In a loop over nodes stand loops over q.incoming_edges(n).",
        ),
        (
            "for n in g.nodes():\n    for r in g.incoming_etypes(n):\n"
            '        n["h"] += sum(x[e.src] for e in g.incoming_edges(n)) @ R[r]\nreturn n["h"]',
            "in a loop over the types of n's edges, those of one type are gone over",
            "Write g.incoming_edges(n, r).",
        ),
    ],
)
def test_what_is_wrong_is_said_with_the_graph(body: str, message: str, detail: str) -> None:
    assert found(body) == [(message, detail)]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("g: graph, g: graph", "the parameter 'g' is there twice"),
        ("g: graph, q", "a layer is of a graph: f(g: graph)"),
        ("g: graph, q: graph[node, node]", "'q' is over the nodes of 'g', which names no sets: q: graph"),
        ("g: graph, node: graph", "'node' is an index set: choose another name"),
        ("g: graph, all: graph", "'all' would bring 'all_edges', which is there already: choose another name"),
        ("g: graph, num: graph", "'num' would bring 'num_etypes', which is there already: choose another name"),
        (
            "g: graph, dst_pair: graph",
            "'dst_pair' would bring 'dst_pair_etype', which is there already: choose another name",
        ),
        (
            "g: graph, q: graph, num_q: graph",
            "'num_q' would bring 'num_q_edges', which is there already: choose another name",
        ),
        (
            "g: graph[user, item], q: graph",
            "'q' is over the users and items of 'g', and says which its edges lead from and to: q: graph[user, user]"
            " or q: graph[user, item]",
        ),
        (
            "g: graph[user, item], q: graph[user, tag]",
            "'q' is over the users and items of 'g', and says which its edges lead from and to: q: graph[user, user]"
            " or q: graph[user, item]",
        ),
    ],
)
def test_headers_that_are_wrong(over: str, message: str) -> None:
    assert found("return x[n]", over)[0][0] == message


@pytest.mark.parametrize("name", ["q_src", "q_dst_ptr", "q_etypes", "num_q_etypes", "all_q_edges"])
def test_what_a_run_gives_a_graph_as_is_no_name_of_a_tensor(name: str) -> None:
    source = text("return x[n]").replace("param R", f"input {name}[node]\n    param R")
    assert check(source).diagnostics[0].message == f"'{name}' is a part of the graph: choose another name"


def test_ways_between_two_sets_are_those_of_the_graph_that_is_named() -> None:
    over = "g: graph[user, item], q: graph[item, user]"
    head = f"dim F = 4\nlayer f({over}):\n    input x[user, F], y[item, F]\n"
    body = '    for u in g.src_nodes():\n        u["h"] = sum(y[e.src] for e in q.{}_edges(u))\n    return u["h"]\n'
    assert check(head + body.format("incoming")).graph is not None
    (wrong,) = check(head + body.format("outgoing")).diagnostics
    assert wrong.message == "edges lead to users: 'u' has no outgoing edges"
    assert [fix.replacement for fix in wrong.fixes] == ["q.incoming_edges(u)"]
