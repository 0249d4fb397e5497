"""Mistakes in layers: each is one diagnostic at its place, and nothing that follows from it is reported."""

import pytest

from .helpers import check, found
from .layers import FIRST_LINE, layer

NODES = 'for n in g.nodes():\n    {}\nreturn n["h"]'
EDGES = 'for e in g.edges():\n    {}\n    e["z"] = w[e]\nreturn e["z"]'
INNER = 'for n in g.nodes():\n    n["k"] = 1\n    for e in n.incoming_edges():\n        {}\nreturn n["h"]'


def errors(body: str) -> list[tuple[str, str]]:
    """The diagnostics of a body; line 1 is its first."""
    result = check(layer(body))
    assert result.graph is None
    places = []
    for entry in result.diagnostics:
        assert entry.span is not None
        columns = f"{entry.span.column - 4}-{entry.span.end_column - 4}"
        places.append((f"{entry.span.line - FIRST_LINE + 1}:{columns}", entry.message))
    return places


def fixes(body: str) -> list[str]:
    """What the first diagnostic's fixes put in."""
    return [fix.replacement for fix in check(layer(body)).diagnostics[0].fixes]


@pytest.mark.parametrize(("statement", "where", "message"), [
    ('e["a"] = W[e.src.ntype]', "2:14-28", "W is indexed by etype, but e.src.ntype is an ntype"),
    ('e["a"] = V[e.etype]', "2:14-24", "V is indexed by ntype, but e.etype is an etype"),
    ('e["a"] = x[e]', "2:14-18", "x is indexed by node, but e is an edge"),
    ('e["a"] = M[e.etype]', "2:15-24", "M is indexed by an etype and an ntype: 2 in all, not 1"),
    ('e["a"] = W', "2:14-15", "'W' has a row for each etype: take one, as in W[e.etype]"),
    ('e["a"] = e', "2:14-15", "'e' is an index of an edge, not a value"),
    ('e["a"] = g', "2:14-15", "'g' is the graph, not a value"),
    ('e["a"] = e.x', "2:16-17", "'x' is indexed by node, but e is an edge"),
    ('e["a"] = e.etype.x', "2:22-23", "'e.etype' is an etype and has no 'x': data stands on nodes and edges"),
    ('e["a"] = e["w"]', "2:14-20", "'w' is declared and is read as e.w"),
    ('e["a"] = e.src["x"]', "2:14-24", "'x' is declared and is read as e.src.x"),
    ('e["a"] = w[e]\n    e["b"] = e.a', "3:14-17", """'a' is data and is read as e["a"]"""),
    ('e["a"] = e["b"]', "2:16-19", "unknown data 'b' of an edge: edges have w"),
    ('e["a"] = e["a"]', "2:16-19", "'a' is read before it is written: line 6 writes it"),
    ('e["a"] = e[b]', "2:16-17", "unknown name 'b'"),
    ('e["a"] = e.src.incoming_edges', "2:14-34",
     "'e.src.incoming_edges' is what a loop goes over: for e in e.src.incoming_edges():"),
    ('e["a"] = n.x', "2:14-15", "unknown name 'n'"),
    ('e["a"] = sum(x[f.src] * w[e] for f in e.dst.incoming_edges())', "2:31-32",
     "'e' is not of the edges of e.dst: this reduction sees 'f' alone"),
    ('e["a"] = sum(x[f.src] for f in e.dst.incoming_edges(e.src))', "2:57-62",
     "e.dst.incoming_edges(e.src) goes over e.dst's edges of a type that some of them have"),
    ('e["a"] = sum(x[f.src] for f in e.src.incoming_edges(e.etype))', "2:57-64",
     "e.src.incoming_edges(e.etype) goes over e.src's edges of a type that some of them have"),
    ('e["a"] = sum(w[f] for f in e.src.incoming_etypes())', "2:32-55",
     "e.src.incoming_etypes() goes over the types of a node's edges, in a loop over nodes"),
    ('e["a"] = w[e]\n    e["b"] = sum(f["a"] for f in e.src.incoming_edges())', "3:18-24",
     "'a' of f is written in this same loop: read it in a loop of its own, behind"),
    ('e["a"] = w[e] @ W[e.etype]', "2:14-31", "'@' multiplies vectors and matrices, but the left is a number"),
    ('e["a"] += 1', "2:5-11", "'a' has no value yet: '+=' changes what is there"),
    ('e.dst["a"] = 1', "2:5-15", "a loop writes data on its own element only, not on 'e.dst'"),
    ('e.dst["a"] -= 1', "2:5-15", "a loop writes data on its own element only, not on 'e.dst'"),
    ('e["norm"] = 1', "2:7-13", "'norm' is given by the graph: choose another name for the data"),
    ('e["w"] = 1', "2:7-10", "'w' is declared in line 3: choose another name for the data"),
    ('e["a b"] = 1', "2:7-12", "the name of data is of ASCII letters, digits and '_', at most 64 of them"),
    ("e[a] = 1", "2:7-8", 'data is named in quotes: ["a"]'),
    ('x["a"] = 1', "2:5-6", "'x' is no node and no edge: data stands on nodes and edges"),
    ("e = w[e]", "2:5-6", "'e' is an index and cannot be assigned: choose another name"),
    ("param K[etype]", "2:11-19", "tensors are declared at the beginning of the definition, outside of loops"),
    ("for n in g.nodes(): y = 1", "2:14-23", "a loop over the graph stands in no other loop"),
    ("for f in e.src.incoming_edges(): y = 1", "2:14-36",
     "a loop over edges has no loop over those of e.src: a sum or another reduction has"),
    ("for e in g.edges(): y = 1", "2:14-23", "a loop over the graph stands in no other loop"),
    ("relu(w[e])", "2:5-15", "the value of 'relu' is used nowhere: give it a name"),
    ('y = max(e.w, "a")', "2:18-21", "'\"a\"' is a name of data, not a value"),
    ("q += 1", "2:5-6", "unknown name 'q'"),
])  # fmt: skip
def test_in_a_loop_over_edges(statement: str, where: str, message: str) -> None:
    assert errors(EDGES.format(statement)) == [(where, message)]


@pytest.mark.parametrize(("statement", "where", "message"), [
    ('n["h"] = n.norm', "2:16-20", "unknown data 'norm' of a node: nodes have x, p"),
    ('n["h"] = W[n.ntype]', "2:14-24", "W is indexed by etype, but n.ntype is an ntype"),
    ('n["h"] = w[n]', "2:14-18", "w is indexed by edge, but n is a node"),
    ('n["h"] = sum(e.w for e in g.edges())', "2:31-40", "a loop over the graph stands in no other loop"),
    ('n["h"] = norm(e.w for e in n.incoming_edges())', "2:14-51",
     "what takes a 'for' is one of sum, mean, max, min, prod, logsumexp, with nothing else"),
    ('n["h"] = sum(e.w for n in n.incoming_edges())', "2:26-27",
     "'n' is the variable of the loop around: choose another name"),
    ('n["h"] = sum(e.w for e in n.in_edges())', "2:33-41",
     "'n' has no 'in_edges': did you mean 'incoming_edges'?"),
    ('n["h"] = sum(e.w for e in W.edges())', "2:31-32", "'W' is no graph and no node: a loop has nothing to go over"),
    ('n["h"] = sum(e.w for e in edges())', "2:31-36", "unknown name 'edges'"),
])  # fmt: skip
def test_in_a_loop_over_nodes(statement: str, where: str, message: str) -> None:
    assert errors(NODES.format(statement)) == [(where, message)]


@pytest.mark.parametrize(("statement", "where", "message"), [
    ('n["h"] = e.w', "4:9-21", """'n["h"]' would be written once for each edge: += sums over the edges"""),
    ('n["h"] *= e.w', "4:16-18", "a loop over the edges of a node sums with '+=': there is no '*='"),
    ('e.src["h"] += e.w', "4:9-19", "a loop writes data on its own element only, not on 'e.src'"),
    ('n["h"] += n["h"]', "4:21-24", "'h' is read before it is written: line 8 writes it"),
    ('n["h"] += 1\n        e["a"] = n["h"]', "5:18-24",
     "'h' is summed in this loop: its value is known behind the loop"),
    ('e["a"] = n["k"]\n        n["k"] += 1', "5:9-15",
     "'k' is read in this loop, which sums it: its value is known behind the loop"),
    ("return e.w", "4:9-19", "'return' stands behind the loops, at the end of the definition"),
])  # fmt: skip
def test_in_a_loop_over_a_nodes_edges(statement: str, where: str, message: str) -> None:
    found_there = errors(INNER.format(statement))
    assert found_there[0] == (where, message)
    assert [entry for _, entry in found_there[1:] if "unknown data" not in entry] == []


@pytest.mark.parametrize(("statement", "where", "message"), [
    ('n["h"] = 1', "4:9-19", """'n["h"]' would be written once for each type: += sums over the types"""),
    ('n["h"] += sum(w[e] for e in n.incoming_edges())', "4:37-55",
     "in a loop over the types of n's edges, those of one type are gone over"),
    ('n["h"] += sum(w[e] for e in n.outgoing_edges(r))', "4:54-55",
     "n.outgoing_edges(r) goes over n's edges of a type that some of them have"),
    ('r["h"] = sum(w[e] for e in n.incoming_edges(r))', "4:9-10",
     "'r' is no node and no edge: data stands on nodes and edges"),
    ('for e in n.incoming_edges(r):\n            n["h"] += w[e]\n        y = n["h"]', "6:13-19",
     "'h' is summed in this loop: its value is known behind the loop"),
    ('y = n["k"]\n        n["k"] += 1', "4:15-18", "'k' is read before it is written: line 9 writes it"),
    ("for e in g.edges(): y = 1", "4:18-27", "a loop over the graph stands in no other loop"),
    ("for s in n.incoming_etypes(): y = 1", "4:18-37",
     "n.incoming_etypes() goes over the types of a node's edges, in a loop over nodes"),
])  # fmt: skip
def test_in_a_loop_over_the_types_of_a_nodes_edges(statement: str, where: str, message: str) -> None:
    """Line 3 of the body is the loop's."""
    body = 'for n in g.nodes():\n    n["u"] = n.x\n    for r in n.incoming_etypes():\n        '
    assert errors(f'{body}{statement}\nreturn n["u"]') == [(where, message)]


@pytest.mark.parametrize(("body", "where", "message"), [
    ('for n in g.nodes():\n    g["h"] = n.x', "2:5-17", "data of the graph is a sum over its elements"),
    ('g["h"] += 1', "1:1-12", "data of the graph is a sum over its elements"),
    ('for n in g.nodes():\n    g["h"] += 1', "2:15-16",
     "this is the same for every node: a sum over all of them is of what they have"),
    ('for n in g.nodes():\n    g["h"] += n.x\n    n["y"] = g["h"]', "3:14-20",
     "'h' is summed in this loop: its value is known behind the loop"),
    ('for n in g.nodes():\n    for e in n.incoming_edges():\n        g["h"] += e.w\n    n["y"] = g["h"]', "4:14-20",
     "'h' is summed in this loop: its value is known behind the loop"),
    ('for n in g.nodes():\n    g["h"] += n.x\n'
     'for n in g.nodes():\n    n["y"] = g["h"] * n.x\n    g["h"] += n["y"]', "5:5-11",
     "'h' is read in this loop, which sums it: its value is known behind the loop"),
    ('for n in g.nodes():\n    n["y"] = g["k"]', "2:16-19", "unknown data 'k' of the graph"),
    ('for n in g.nodes():\n    for r in g.etypes():\n        n["y"] += 1', "2:14-24",
     "a loop over the graph stands in no other loop"),
])  # fmt: skip
def test_data_of_the_graph_and_of_types(body: str, where: str, message: str) -> None:
    assert errors(f'{body}\nfor n in g.nodes():\n    n["z"] = n.x\nreturn n["z"]')[:1] == [(where, message)]


def test_the_types_of_a_nodes_edges_are_offered_for_all_types() -> None:
    body = layer(
        'for n in g.nodes():\n    for r in g.etypes():\n        n["y"] += x[n] * dot(W[r][0], q)\nreturn n["y"]'
    )
    (diagnostic,) = check(body).diagnostics
    assert [fix.replacement for fix in diagnostic.fixes] == ["n.incoming_etypes()"]


@pytest.mark.parametrize(("call", "message"), [
    ('edge_softmax(g, "a", by=node)', "'edge_softmax' is divided by the type of edges: by=etype"),
    ('edge_softmax(g, "a", of=etype)', "'edge_softmax' has no parameter 'of'"),
    ('edge_softmax(g, "b", by=etype)', "unknown data 'b' of an edge: edges have a, w"),
])  # fmt: skip
def test_a_softmax_is_divided_by_types_alone(call: str, message: str) -> None:
    found_there = errors(f'for e in g.edges():\n    e["a"] = w[e]\n{call}\nreturn e["a"]')
    assert message in [each for _, each in found_there]


@pytest.mark.parametrize(("body", "expected"), [
    ('for e in g.edges():\n    y = e.w\nreturn y',
     [("3:8-9", """'y' is local to the loop in line 5: what leaves a loop is data, as in e["y"]""")]),
    ('for e in g.edges():\n    e["a"] = e.w\nz = e.w\nreturn e["a"]',
     [("3:5-6", "'e' is the variable of the loop in line 5, which has ended")]),
    ('for e in g.edges():\n    e["a"] = x[n]\nfor n in g.nodes():\n    n["h"] = x[n]\nreturn n["h"]',
     [("2:16-17", "'n' is the variable of the loop in line 7, and this stands outside of it")]),
    ('for n in g.nodes():\n    y = 1\n    for e in n.incoming_edges():\n        y = e.w\n    n["h"] = y\nreturn n["h"]',
     [("4:9-10", "'y' stands outside of this loop and cannot be assigned in it: choose another name")]),
    ('t = 0\nfor e in g.edges():\n    t += e.w\nreturn t',
     [("3:5-6", "'t' stands outside of this loop and cannot be assigned in it: choose another name")]),
    ('for n in g.nodes():\n    t = 0\n    for e in n.incoming_edges():\n        t += e.w\n    n["h"] = t\n'
     'return n["h"]',
     [("4:9-10", "'t' stands outside of this loop and cannot be assigned in it: choose another name")]),
    ('for e in g.edges():\n    e["a"] = e.w\nfor n in g.nodes():\n    n["h"] = n["a"]\nreturn n["h"]',
     [("4:16-19", "'a' is data of an edge, but n is a node")]),
    ('for n in g.nodes():\n    n["a"] = n.x\nfor e in g.edges():\n    e["b"] = e["a"]\nreturn e["b"]',
     [("4:16-19", "'a' is data of a node, but e is an edge")]),
    ('for e in g.edges():\n    e["att"] = e.w\nreturn e["at"]',
     [("3:10-14", "unknown data 'at' of an edge: did you mean 'att'?")]),
    ('for e in g.edges():\n    e["m"] = x[e.source] @ W[e.type]\nedge_softmax(g, "at")\nreturn e["mm"]',
     [("2:18-24", "unknown data 'source' of an edge: did you mean 'src'?"),
      ("2:32-36", "unknown data 'type' of an edge: did you mean 'etype'?"),
      ("3:1-22", "unknown data 'at' of an edge: edges have m, w"),
      ("4:10-14", "unknown data 'mm' of an edge: did you mean 'm'?")]),
    ('for e in g.edge():\n    e["a"] = e.w\n    y = x[e.src]\nreturn e["a"]',
     [("1:12-16", "'g' has no 'edge': did you mean 'edges'?")]),
    ('for e in h.edges():\n    e["a"] = e.w\nreturn e["a"]', [("1:10-11", "unknown name 'h': did you mean 'H'?")]),
    ('for F in g.edges():\n    y = 1\nreturn x', [
        ("1:5-6", "'F' is a name already: choose another name"),
        ("3:8-9", "'x' has a row for each node")]),
    ('for n in g.nodes():\n    n["s"] = x[n]\n    for e in n.incoming_edges():\n        n["h"] += e.src["s"]\n'
     'return n["h"]',
     [("4:19-29", "'s' of e.src is written in this same loop: read it in a loop of its own, behind")]),
    ('for n in g.nodes():\n    n["h"] = x[n]\nfor n in g.nodes():\n'
     '    n["h"] = sum(e.src["h"] for e in n.incoming_edges())\nreturn n["h"]',
     [("4:5-11", "'h' of other nodes is read in this same loop: the order would count")]),
    ('for n in g.nodes():\n    for e in n.incoming_edges():\n        e["a"] = e.w\n'
     '    n["h"] = sum(e["a"] for e in n.outgoing_edges())\nreturn n["h"]',
     [("4:18-24", "'a' of e is written in this same loop: read it in a loop of its own, behind")]),
    ('edge_softmax(g, "att")\nreturn e["att"]', [
        ("1:1-23", "unknown data 'att' of an edge: edges have w")]),
    ('for e in g.edges():\n    e["a"] = e.w\nedge_softmax("a")\nreturn e["a"]',
     [("3:1-18", "'edge_softmax' takes 2 arguments, not 1: edge_softmax(g, name)")]),
    ('for e in g.edges():\n    e["a"] = e.w\nedge_softmax(x, "a")\nreturn e["a"]',
     [("3:1-21", "'edge_softmax' needs the graph for 'g'")]),
    ('for e in g.edges():\n    e["a"] = e.w\nsoftmax(g, "a")\nreturn e["a"]',
     [("3:1-8", 'a softmax over the edges of a node is edge_softmax(g, "att")')]),
    ("y = sum(w0)\nreturn y",
     [("2:8-9", "the result is the same for every graph: a layer returns data of nodes or edges, or of all of them")]),
    ('for n in g.nodes():\n    n["h"] = x[n]\nfor e in g.edges():\n    e["a"] = e.w\nreturn n["h"] * e["a"]',
     [("5:8-23", "a result is of nodes or of edges, not of both")]),
    ("return 3",
     [("1:8-9", "the result is the same for every graph: a layer returns data of nodes or edges, or of all of them")]),
    ("return x[0]", [("1:10-11", "x is indexed by node, but '0' is not an index")]),
    ('for e in g.edges():\nreturn e["a"]', [("1:1-20", "the loop has no body: its lines stand below it, indented")]),
    ('for e in g.edges():\n    e["a"] = (e.w\n    e["b"] = e["a"]\nreturn e["b"]',
     [("2:14-15", "'(' is never closed")]),
    ('for e in g.edges()\n    e["a"] = e.w\nreturn e["a"]', [("1:18-19", "expected ':' after ')'")]),
])  # fmt: skip
def test_mistakes_over_several_lines(body: str, expected: list[tuple[str, str]]) -> None:
    assert errors(body) == expected


@pytest.mark.parametrize(("body", "replacements"), [
    (EDGES.format('e["a"] = x[e]'), ["e.src", "e.dst"]),
    (EDGES.format('e["a"] = V[e.etype]'), ["e.src.ntype", "e.dst.ntype"]),
    (EDGES.format('e["a"] = W'), ["W[e.etype]"]),
    (EDGES.format('e["a"] = e["ww"]'), ['"w"']),
    (EDGES.format('e["a"] = e.ww'), ["w"]),
    (EDGES.format("e[a] = 1"), ['"a"']),
    (EDGES.format('e["a"] = e.dst["x"]'), ["e.dst.x"]),
    (EDGES.format('e["a"] = w[e]\n    e["b"] = e.a'), ['e["a"]']),
    (INNER.format('n["h"] = e.w'), ["+="]),
    ("for e in g.edgs():\n    e[\"a\"] = e.w\nreturn e[\"a\"]", ["edges"]),
])  # fmt: skip
def test_fixes(body: str, replacements: list[str]) -> None:
    assert fixes(body) == replacements


@pytest.mark.parametrize(("header", "where", "message"), [
    ("layer f():", "1:8-10", "a layer is of a graph: f(g: graph)"),
    ("layer f(g):", "1:8-11", "a layer is of a graph: f(g: graph)"),
    ("layer f(g: graph, e: edge):", "1:8-27", "a layer is of a graph: f(g: graph)"),
    ("layer f(g: grph):", "1:12-16", "unknown index set 'grph': did you mean 'graph'?"),
    ("layer f(g: entity):", "1:12-18",
     "unknown index set 'entity': a layer has node, edge, etype, ntype and graph"),
    ("layer edge(g: graph):", "1:7-11", "'edge' is an index set: choose another name"),
])  # fmt: skip
def test_a_layers_header(header: str, where: str, message: str) -> None:
    text = f"{header}\n    input x[node]\n    for n in g.nodes():\n        n['h'] = x[n]\n".replace("'", '"')
    text += '    return n["h"]\n'
    assert (where, message) in found(check(text))


@pytest.mark.parametrize("name", ["src", "dst_pair_node", "etype_order", "nodes", "in_degree", "num_nodes"])
def test_names_of_the_graph_are_taken(name: str) -> None:
    text = f'layer f(g: graph):\n    input {name}[node]\n    for n in g.nodes():\n        n["h"] = {name}[n]\n'
    text += '    return n["h"]\n'
    assert found(check(text))[0] == (f"2:11-{11 + len(name)}", f"'{name}' is a part of the graph: choose another name")


def test_a_size_may_not_have_a_graphs_name() -> None:
    text = "dim nodes = 4\n" + layer('for e in g.edges():\n    e["a"] = e.w\nreturn e["a"]')
    assert found(check(text)) == [("1:5-10", "'nodes' is a part of the graph: choose another name")]


def test_negatives_belong_to_scores() -> None:
    from explorer.compiler.options import Negatives

    result = check(layer('for e in g.edges():\n    e["a"] = e.w\nreturn e["a"]'), negatives=Negatives("tail", 3))
    assert [entry.message for entry in result.diagnostics] == ["negatives belong to scores, and 'f' is a layer"]


@pytest.mark.parametrize(("lines", "where", "message"), [
    ("for e in h.edges():\n        x = 1", "3:5-23",
     "a score has no loops over elements: it computes the same for every triple"),
    ('h["a"] = 2', "3:5-11", "a score has no data on elements: assign to a name"),
    ('x = h["a"]', "3:9-15", "'h' is no node and no edge of a layer: it has no data"),
    ("x = sum(B[r] for e in h.edges())", "3:27-28",
     "'h' is no set of negatives: a loop has nothing to go over"),
    ('edge_softmax(h, "a")', "3:5-17", "edge_softmax belongs to layers: a score has no edges"),
])  # fmt: skip
def test_what_a_score_has_not(lines: str, where: str, message: str) -> None:
    text = "score f(h: entity, r: relation, t: entity):\n    param B[relation]\n"
    assert found(check(f"{text}    {lines}\n    return B[r]\n")) == [(where, message)]


def test_deep_loops_are_one_diagnostic() -> None:
    depth = 300
    lines = [f"{' ' * level}for e{level} in g.edges():" for level in range(1, depth)]
    text = "layer f(g: graph):\n" + "\n".join(lines) + f"\n{' ' * depth}y = 1\n"
    messages = [message for _, message in found(check(text))]
    assert messages == ["'f' has no 'return'", "a loop over the graph stands in no other loop"]


def test_too_many_operations_through_loops() -> None:
    body = "for e in g.edges():\n" + "".join(f"    y{i} = e.w * 2\n" for i in range(600)) + "return x"
    assert "a definition has at most 1,000 operations" in [message for _, message in errors(body)]


@pytest.mark.parametrize(("lines", "where", "message"), [
    ('for e in g.edges():\n        e.dst["a"] += w[e]\n        e["y"] = e.dst["a"]', "5:18-28",
     "'a' is summed in this loop: its value is known behind the loop"),
    ('for n in g.nodes():\n        n["o"] = 1.0\n    for e in g.edges():\n        e["y"] = e.dst["o"]\n'
     '        e.dst["o"] += w[e]', "7:9-19", "'o' of other nodes is read in this same loop: the order would count"),
    ('for n in g.nodes():\n        for e in n.incoming_edges():\n            e.src["a"] += w[e]', "5:13-23",
     "a loop writes data on its own element only, not on 'e.src'"),
])  # fmt: skip
def test_a_sum_along_a_map(lines: str, where: str, message: str) -> None:
    text = f"layer f(g: graph):\n    param w[edge]\n    {lines}\n    return e['y']\n".replace("'y'", '"y"')
    assert (where, message) in found(check(text)), found(check(text))
