"""Layers whose edges lead from one set to another: what is read, and mistakes, with their places and what to write."""

from __future__ import annotations

import pytest

import explorer
from explorer.compiler.counts import ASSUMED
from explorer.compiler.ir.graph import Graph, print_graph
from explorer.compiler.ir.parse.graph import parse_graph

from .helpers import check, found

HEADER = "dim F = 4\nlayer f(g: {}):\n    input x[user, F], y[item, F]\n"
FIRST_LINE = 4
RIGHT = 'for n in g.dst_nodes():\n    n["h"] = y[n] + sum(x[e.src] for e in n.incoming_edges())\nreturn n["h"]'


def text(body: str = RIGHT, over: str = "graph[user, item]") -> str:
    return HEADER.format(over) + "".join(f"    {line}\n" for line in body.split("\n"))


def items(line: str) -> str:
    return f'for n in g.dst_nodes():\n    {line}\nreturn n["h"]'


def users(line: str) -> str:
    return f'for n in g.src_nodes():\n    {line}\nreturn n["h"]'


def test_the_graph_names_both_sets_and_is_read_back() -> None:
    graph = check(text()).graph
    assert isinstance(graph, Graph)
    assert graph.ends == ("user", "item")
    assert {entry.name: (entry.domain, entry.codomain) for entry in graph.maps} == {
        "src": ("edge", "user"),
        "dst": ("edge", "item"),
    }
    lines = [line.text for line in print_graph(graph)]
    assert lines[0] == "layer f over graph[user, item]"
    again = parse_graph("\n".join(lines) + "\n")
    assert again.ends == graph.ends
    assert [line.text for line in print_graph(again)] == lines


def test_a_graph_of_one_set_stays_as_it_was() -> None:
    body = RIGHT.replace("y[n]", "x[n]")
    graph = check(text(body, "graph").replace("x[user, F], y[item, F]", "x[node, F]")).graph
    assert isinstance(graph, Graph)
    assert graph.ends == ("node", "node")
    assert print_graph(graph)[0].text == "layer f over graph"


@pytest.mark.parametrize(
    ("body", "where", "message", "fixes"),
    [
        (
            'for n in g.nodes():\n    n["h"] = y[n]\nreturn n["h"]',
            "1:14-23",
            "'g' leads from users to items: it has no one set of nodes",
            ["g.src_nodes()", "g.dst_nodes()"],
        ),
        (
            'for r in g.ntypes():\n    r["h"] = 1\nreturn r["h"]',
            "1:14-24",
            "'g' leads from users to items: nodes of two sets have no types",
            ["g.etypes()"],
        ),
        (
            items('n["h"] = sum(y[e.dst] for e in n.outgoing_edges())'),
            "2:40-58",
            "edges lead to items: 'n' has no outgoing edges",
            ["n.incoming_edges()"],
        ),
        (
            users('n["h"] = sum(x[e.src] for e in n.incoming_edges())'),
            "2:40-58",
            "edges lead away from users: 'n' has no incoming edges",
            ["n.outgoing_edges()"],
        ),
        (
            items('for r in n.outgoing_etypes():\n        n["h"] += y[n]'),
            "2:18-37",
            "edges lead to items: 'n' has no outgoing edges",
            ["n.incoming_etypes()"],
        ),
        (
            'for e in g.edges():\n    e["o"] = sum(x[k.src] for k in e.src.incoming_edges(e.etype))\nreturn e["o"]',
            "2:40-69",
            "edges lead away from users: 'e.src' has no incoming edges",
            ["e.src.outgoing_edges(e.etype)"],
        ),
        (
            'for e in g.edges():\n    e["o"] = x[e.dst]\nreturn e["o"]',
            "2:18-26",
            "x is indexed by user, but e.dst is an item",
            ["e.src"],
        ),
        (items('n["h"] = n.ntype'), "2:20-25", "'n' is an item, and items have no 'ntype'", []),
        (users('n["h"] = n.in_degree * x[n]'), "2:20-29", "'n' is a user, and users have no 'in_degree'", []),
        (
            'for n in g.dst_nodes():\n    n["h"] = y[n]\nfor u in g.src_nodes():\n    u["k"] = u["h"]\nreturn u["k"]',
            "4:20-23",
            "'h' is data of an item, but u is a user",
            [],
        ),
        (
            "input z[node, F]\n" + items('n["h"] = z[n]'),
            "1:13-17",
            "unknown size or index set 'node'",
            [],
        ),
        (
            "map m: node -> user\n" + items('n["h"] = y[n]'),
            "1:12-16",
            "a map of a layer leads from edges or users or items, not from 'node'",
            ["edge", "user", "item"],
        ),
        ("input users[F]\n" + RIGHT, "1:11-16", "'users' is a part of the graph: choose another name", []),
        ("input num_items[F]\n" + RIGHT, "1:11-20", "'num_items' is a part of the graph: choose another name", []),
        ("map ntype: item -> user\n" + RIGHT, "1:9-14", "'ntype' is a part of the graph: choose another name", []),
    ],
)
def test_what_one_of_two_sets_has_not(body: str, where: str, message: str, fixes: list[str]) -> None:
    (diagnostic,) = check(text(body)).diagnostics
    assert diagnostic.span is not None
    place = diagnostic.span
    assert f"{place.line - FIRST_LINE + 1}:{place.column}-{place.end_column}" == where
    assert diagnostic.message == message
    assert [fix.replacement for fix in diagnostic.fixes] == fixes


def test_what_to_write_instead_is_said() -> None:
    (types,) = check(text(items('n["h"] = n.ntype'))).diagnostics
    assert types.detail == "A type of each is a map: map kind: item -> kind, read as n.kind."
    (degrees,) = check(text(users('n["h"] = n.in_degree * x[n]'))).diagnostics
    assert degrees.detail == "How many edges lead away is a sum of them: sum(1 for e in u.outgoing_edges())."


@pytest.mark.parametrize(
    ("over", "where", "message"),
    [
        ("graph[user, user]", "2:12-29", "edges from 'user' to 'user' are a graph of one set: g: graph"),
        (
            "graph[user]",
            "2:12-23",
            "a graph between two sets names both, those that edges lead from first: graph[user, item]",
        ),
        (
            "graph of user",
            "2:12-25",
            "a graph between two sets names both, those that edges lead from first: graph[user, item]",
        ),
        ("graph[node, item]", "2:18-22", "'node' is an index set of graphs already: choose another name"),
        ("graph[batch, item]", "2:18-23", "'batch' is an index set of others: choose another name"),
        ("graph[a_entry, item]", "2:18-25", "'a_entry' is what the entries of a bag are called: choose another name"),
        ("graph[F, item]", "2:18-19", "'F' is a size: choose another name"),
        ("graph[user, dst]", "2:24-27", "'dst' is a part of every graph: choose another name"),
        ("graph[sum, item]", "2:18-21", "'sum' is a built-in function: choose another name"),
        ("graph[g, item]", "2:18-19", "'g' is what the layer is over: choose another name"),
        (
            "graph[user, item], h: graph",
            "2:34-39",
            "'h' is over the users and items of 'g', and says which its edges lead from and to: h: graph[user, user]"
            " or h: graph[user, item]",
        ),
    ],
)
def test_headers_that_are_wrong(over: str, where: str, message: str) -> None:
    assert found(check(text(over=over)))[:1] == [(where, message)]


def test_a_helper_is_of_any_graph() -> None:
    helper = "def into(g: graph[user, item], name):\n    for n in g.dst_nodes():\n        n[name] = 1\n"
    assert found(check(helper + text())) == [("1:13-30", "a helper is of any graph, whatever its sets: g: graph")]
    body = 'into(g, "one")\n' + RIGHT.replace("y[n] +", 'n["one"] * y[n] +')
    assert check(helper.replace("[user, item]", "") + text(body)).graph is not None


def test_costs_are_counted_on_both_sets() -> None:
    counts = {"users": 30, "items": 70, "edges": 900, "etypes": 2}
    rows = explorer.compile(text(), counts=counts).rows
    assert (rows["user"], rows["item"], rows.of("users"), rows.of("items")) == (30, 70, 30, 70)
    assert rows.about.startswith("the given graph (30 users, 70 items, 900 edges, 2 edge types, 60 and 140 pairs")
    assumed = explorer.compile(text()).rows
    assert assumed.assumed
    assert assumed["user"] == assumed["item"] == ASSUMED["node"]
    assert explorer.compile(text()).with_counts(counts).rows == rows


def test_sets_may_be_called_as_those_of_a_matrix() -> None:
    made = text().replace("user", "row").replace("item", "col")
    rows = explorer.compile(made, counts={"rows": 3, "cols": 7, "edges": 9}).rows
    assert (rows["row"], rows["col"], rows.of("rows"), rows.of("cols")) == (3, 7, 3, 7)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"users": 3, "edges": 9}, "the counts lack items"),
        ({"nodes": 3, "edges": 9}, "the counts lack users and items"),
        ({"users": 3, "items": 7, "edges": 9, "owls": 1}, "there is nothing called 'owls' to count"),
    ],
)
def test_counts_of_other_sets_are_refused(counts: dict[str, int], message: str) -> None:
    (diagnostic,) = explorer.compile(text(), counts=counts).diagnostics
    assert diagnostic.message.startswith(message)
