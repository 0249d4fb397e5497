"""Layers: what every form of the language means, as the graph that it becomes."""

from pathlib import Path

import pytest

from explorer.compiler.ir.graph import Graph, print_graph, verify_graph
from explorer.compiler.ir.node import operations_of
from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.result import CheckResult

from .helpers import check
from .layers import FIRST_LINE, LISTING_1, layer, layer_graph

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "rgnn"

RGCN = """
layer RGCN over graph
  dim F = 64, G = 64
  map src: edge -> node
  map dst: edge -> node
  map etype: edge -> etype
  input x[node, F]
  param W[etype, F, G]
  param w0[F, G]
  structure norm[edge]
  %1 = gather_vec x[node]     : node [F]     {node}
  %2 = gather_mat w0          : unit [F, G]  {}
  %3 = bmv %1, %2             : node [G]     {node}
  %4 = gather norm[edge]      : edge []      {edge}
  %5 = gather_vec x[src]      : edge [F]     {src}
  %6 = gather_mat W[etype]    : edge [F, G]  {etype}
  %7 = bmv %5, %6             : edge [G]     {src, etype}
  %8 = bsv %4, %7             : edge [G]     {src, etype, edge}
  %9 = segment_sum %8 by dst  : node [G]     {node}
  %10 = add %3, %9            : node [G]     {node}
  %11 = relu %10              : node [G]     {node}
  return %11
"""

LISTING_1_GRAPH = """
  %1 = gather_vec feature[src]  : edge [F]     {src}
  %2 = gather_mat W[etype]      : edge [F, G]  {etype}
  %3 = bmv %1, %2               : edge [G]     {src, etype}
  %4 = gather_vec w_s[etype]    : edge [G]     {etype}
  %5 = bvv %3, %4               : edge []      {src, etype}
  %6 = gather_vec feature[dst]  : edge [F]     {dst}
  %7 = gather_mat W[etype]      : edge [F, G]  {etype}
  %8 = bmv %6, %7               : edge [G]     {dst, etype}
  %9 = gather_vec w_t[etype]    : edge [G]     {etype}
  %10 = bvv %8, %9              : edge []      {dst, etype}
  %11 = add %5, %10             : edge []      {src, dst, etype}
  %12 = leaky_relu<0.01> %11    : edge []      {src, dst, etype}
  %13 = exp %12                 : edge []      {src, dst, etype}
  %14 = segment_sum %13 by dst  : node []      {node}
  %15 = gather %14[dst]         : edge []      {dst}
  %16 = div %13, %15            : edge []      {src, dst, etype}
  return %16
"""


def values(graph: Graph) -> list[str]:
    """The printed values of a graph, without columns: `%3 = bmv %1, %2 : node [G] {node}`."""
    verify_graph(graph)
    lines = [" ".join(line.text.split()) for line in print_graph(graph)]
    return [line for line in lines if line.startswith("%")]


def body_values(body: str) -> list[str]:
    """The values of a layer's body."""
    return values(layer_graph(body))


def example(name: str) -> CheckResult:
    result = check((EXAMPLES / f"{name}.emb").read_text())
    assert result.graph is not None, result.diagnostics
    return result


def test_rgcn_is_this_graph() -> None:
    graph = example("rgcn").graph
    assert graph is not None
    assert "".join(f"{line.text}\n" for line in print_graph(graph)).strip() == RGCN.strip()


def test_hectors_listing_1_is_this_graph() -> None:
    graph = check(LISTING_1).graph
    assert graph is not None
    text = "".join(f"{line.text}\n" for line in print_graph(graph))
    assert text.endswith(LISTING_1_GRAPH.lstrip("\n"))


@pytest.mark.parametrize(("name", "extents", "shape"), [
    ("rgcn", {}, ("G",)),
    ("gcn", {}, ("G",)),
    ("rgat", {}, ("G",)),
    ("rgat_heads", {"H": 2, "G": 3}, (6,)),
    ("hgt", {"H": 2, "D": 3}, (6,)),
])  # fmt: skip
def test_examples_give_a_row_for_each_node(name: str, extents: dict[str, int], shape: tuple[str | int, ...]) -> None:
    text = (EXAMPLES / f"{name}.emb").read_text()
    graph = check(text, extents).graph
    assert graph is not None
    verify_graph(graph)
    result = graph.value(graph.result)
    assert (graph.family, result.index_set, result.shape) == ("layer", "node", shape)


def test_hectors_three_models_take_less_than_hectors_51_lines() -> None:
    texts = [(EXAMPLES / f"{name}.emb").read_text() for name in ("rgcn", "rgat", "hgt")]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    assert len([line for line in lines if line and line[0] not in '#"']) <= 40


def test_hgt_keeps_keys_queries_and_values_on_nodes() -> None:
    graph = example("hgt").graph
    assert graph is not None
    maps = [entry.name for entry in graph.maps]
    assert maps == ["src", "dst", "etype", "ntype"]
    products = [value for value in graph.values if value.shape == ("H", "D") and value.depends == ("node", "ntype")]
    assert [value.index_set for value in products] == ["node"] * 3
    assert "%10 = gather_mat %3[src] : edge [H, D] {src}" in values(graph)


def test_only_what_is_used_is_declared() -> None:
    graph = layer_graph('for n in g.nodes():\n    n["h"] = x[n] * n.in_degree\nreturn n["h"]')
    assert graph.maps == ()
    assert [(t.name, t.sets, t.kind) for t in graph.tensors if t.kind == "structure"] == [
        ("in_degree", ("node",), "structure")
    ]
    graph = layer_graph('for e in g.edges():\n    e["h"] = e.dst.in_degree * e.norm\nreturn e["h"]')
    assert [entry.name for entry in graph.maps] == ["dst"]
    assert [tensor.name for tensor in graph.tensors if tensor.kind == "structure"] == ["norm", "in_degree"]


@pytest.mark.parametrize(("expression", "value"), [
    ("e.src.x", "gather_vec x[src] : edge [F] {src}"),
    ("e.dst.x", "gather_vec x[dst] : edge [F] {dst}"),
    ("x[e.src]", "gather_vec x[src] : edge [F] {src}"),
    ("x[e.src.id]", "gather_vec x[src] : edge [F] {src}"),
    ("w[e]", "gather w[edge] : edge [] {edge}"),
    ("w[e.id]", "gather w[edge] : edge [] {edge}"),
    ("e.w", "gather w[edge] : edge [] {edge}"),
    ("e.norm", "gather norm[edge] : edge [] {edge}"),
    ("e.src.in_degree", "gather in_degree[src] : edge [] {src}"),
    ("W[e.etype]", "gather_mat W[etype] : edge [F, G] {etype}"),
    ("V[e.src.ntype]", "gather_mat V[src.ntype] : edge [F, G] {src}"),
    ("V[e.dst.ntype]", "gather_mat V[dst.ntype] : edge [F, G] {dst}"),
    ("M[e.etype, e.dst.ntype]", "gather M[etype, dst.ntype] : edge [] {dst, etype}"),
])  # fmt: skip
def test_what_is_read_of_an_edge(expression: str, value: str) -> None:
    assert body_values(f'for e in g.edges():\n    e["y"] = {expression}\nreturn e["y"]') == [f"%1 = {value}"]


@pytest.mark.parametrize(("expression", "value"), [
    ("n.x", "gather_vec x[node] : node [F] {node}"),
    ("x[n]", "gather_vec x[node] : node [F] {node}"),
    ("x[n.id]", "gather_vec x[node] : node [F] {node}"),
    ("V[n.ntype]", "gather_mat V[ntype] : node [F, G] {ntype}"),
    ("n.in_degree", "gather in_degree[node] : node [] {node}"),
])  # fmt: skip
def test_what_is_read_of_a_node(expression: str, value: str) -> None:
    for loop in ("nodes", "src_nodes", "dst_nodes"):
        assert body_values(f'for n in g.{loop}():\n    n["y"] = {expression}\nreturn n["y"]') == [f"%1 = {value}"]


def test_data_of_a_node_is_gathered_on_edges() -> None:
    body = """
for n in g.nodes():
    n["s"] = x[n]
for e in g.edges():
    e["y"] = e.dst["s"] * e.w
return e["y"]"""
    assert body_values(body) == [
        "%1 = gather_vec x[node] : node [F] {node}",
        "%2 = gather_vec %1[dst] : edge [F] {dst}",
        "%3 = gather w[edge] : edge [] {edge}",
        "%4 = bsv %3, %2 : edge [F] {dst, edge}",
    ]


@pytest.mark.parametrize(("direction", "end"), [("incoming", "dst"), ("outgoing", "src")])
def test_a_sum_over_a_nodes_edges(direction: str, end: str) -> None:
    """As a statement and as a comprehension; a 0 before it changes nothing."""
    statements = (
        f'for n in g.nodes():\n    for e in n.{direction}_edges():\n        n["h"] += e.w\nreturn n["h"]',
        f'for n in g.nodes():\n    n["h"] = 0.0\n    for e in n.{direction}_edges():\n        n["h"] += e.w\n'
        'return n["h"]',
        f'for n in g.nodes():\n    n["h"] = sum(e.w for e in n.{direction}_edges())\nreturn n["h"]',
    )
    for body in statements:
        assert body_values(body) == [
            "%1 = gather w[edge] : edge [] {edge}",
            f"%2 = segment_sum %1 by {end} : node [] {{node}}",
        ]


@pytest.mark.parametrize("function", ["sum", "mean", "max", "min"])
def test_comprehensions(function: str) -> None:
    body = f'for n in g.nodes():\n    n["h"] = {function}(x[e.src] for e in n.incoming_edges())\nreturn n["h"]'
    assert body_values(body)[-1] == f"%2 = segment_{function} %1 by dst : node [F] {{node}}"


def test_a_sum_goes_on_top_of_what_was_there() -> None:
    body = """
for n in g.nodes():
    n["h"] = x[n]
    for e in n.incoming_edges():
        n["h"] += x[e.src]
for n in g.nodes():
    for e in n.outgoing_edges():
        n["h"] += x[e.dst]
return n["h"]"""
    assert body_values(body) == [
        "%1 = gather_vec x[node] : node [F] {node}",
        "%2 = gather_vec x[src] : edge [F] {src}",
        "%3 = segment_sum %2 by dst : node [F] {node}",
        "%4 = add %1, %3 : node [F] {node}",
        "%5 = gather_vec x[dst] : edge [F] {dst}",
        "%6 = segment_sum %5 by src : node [F] {node}",
        "%7 = add %4, %6 : node [F] {node}",
    ]


def test_a_number_is_summed_over_edges() -> None:
    body = 'for n in g.nodes():\n    for e in n.incoming_edges():\n        n["h"] += 1\nreturn n["h"]'
    assert body_values(body) == ["%1 = constant 1.0 : unit [] {}", "%2 = segment_sum %1 by dst : node [] {node}"]


def test_names_of_the_node_loop_in_the_edge_loop() -> None:
    """They are the node's at the end where it stands; what no node differs in stays as it is."""
    body = """
scale = w0 * 2
for n in g.nodes():
    q = x[n] @ V[n.ntype]
    v = n.ntype
    for e in n.outgoing_edges():
        n["h"] += e.w * q + x[n] @ scale + x[e.dst] @ V[v] + x[e.src] @ V[n.ntype]
return n["h"]"""
    found = body_values(body)
    assert "%6 = bmv %4, %5 : node [G] {node, ntype}" in found
    assert "%8 = gather_vec %6[src] : edge [G] {src}" in found
    assert "%10 = gather_vec x[src] : edge [F] {src}" in found
    assert "%11 = bmv %10, %3 : edge [G] {src}" in found
    assert found.count("%14 = gather_mat V[src.ntype] : edge [F, G] {src}") == 1


def test_updates_at_the_same_level() -> None:
    body = """
for e in g.edges():
    y = e.w
    y *= 3
    e["a"] = y
    e["a"] += y
    e["a"] -= 1
for e in g.edges():
    e["a"] /= e.dst.in_degree
return e["a"]"""
    assert [line.split(" : ")[0].split(" = ")[1] for line in body_values(body)] == [
        *("gather w[edge]", "constant 3.0", "mul %1, %2", "add %3, %3", "constant 1.0", "sub %4, %5"),
        *("gather in_degree[dst]", "div %6, %7"),
    ]


def test_edges_written_in_a_loop_over_a_nodes_edges() -> None:
    body = """
for n in g.nodes():
    top = max(e.w for e in n.incoming_edges())
    for e in n.incoming_edges():
        e["a"] = exp(e.w - top)
return e["a"]"""
    assert body_values(body)[1:4] == [
        "%2 = segment_max %1 by dst : node [] {node}",
        "%3 = gather w[edge] : edge [] {edge}",
        "%4 = gather %2[dst] : edge [] {dst}",
    ]


@pytest.mark.parametrize(("result", "index_set", "last"), [
    ('n["h"]', "node", "gather_vec x[node]"),
    ('v["h"]', "node", "gather_vec x[node]"),
    ('e["h"]', "edge", "gather w[edge]"),
    ('relu(n["h"]) + 1', "node", "add"),
    ('relu(e["h"])', "edge", "relu"),
    ('e.src["h"]', "edge", "gather_vec %1[src]"),
    ("x[n] @ w0", "node", "bmv"),
    ("sum(x[e.src] for e in n.incoming_edges())", "node", "segment_sum"),
])  # fmt: skip
def test_what_is_returned(result: str, index_set: str, last: str) -> None:
    """The letter is that of a loop over the set; the result may compute."""
    body = f"""
for n in g.nodes():
    n["h"] = x[n]
for e in g.edges():
    e["h"] = w[e]
for v in g.nodes():
    v["k"] = v["h"]
return {result}"""
    graph = layer_graph(body)
    value = next(line for line in values(graph) if line.startswith(f"{graph.result} = "))
    assert value.split(" = ")[1].startswith(last)
    assert graph.value(graph.result).index_set == index_set


def test_a_letter_of_both_sets_returns_the_data_that_there_is() -> None:
    body = 'for i in g.edges():\n    i["a"] = w[i]\nfor i in g.nodes():\n    i["b"] = x[i]\nreturn i["{}"]'
    assert layer_graph(body.format("a")).value("%1").index_set == "edge"
    graph = layer_graph(body.format("b"))
    assert graph.value(graph.result).index_set == "node"


def test_helpers_take_the_graph_elements_and_names_of_data() -> None:
    text = layer("""
for e in g.edges():
    e["s"] = attend(e, e.dst) * e.w
scale(g, "s", factor=3)
return e["s"]""")
    helpers = """
def attend(e: edge, v):
    return dot(e.src.x, v.x)
def scale(g: graph, name, factor=2):
    for edge in g.edges():
        edge[name] *= factor
"""
    graph = check(helpers + text).graph
    assert graph is not None
    assert [line.split(" : ")[0].split(" = ")[1] for line in values(graph)] == [
        *("gather_vec x[src]", "gather_vec x[dst]", "bvv %1, %2", "gather w[edge]", "mul %3, %4"),
        *("constant 3.0", "mul %5, %6"),
    ]


SOFTMAX = 'for e in g.edges():\n    e["att"] = e.w\nedge_softmax(g, "att")\nreturn e["att"]'


def test_the_preludes_softmax_subtracts_the_maximum_and_stands_at_its_call() -> None:
    result = check(layer(SOFTMAX))
    assert result.graph is not None
    assert [line.split(" : ")[0].split(" = ")[1] for line in values(result.graph)] == [
        *("gather w[edge]", "segment_max %1 by dst", "gather %2[dst]", "sub %1, %3", "exp %4"),
        *("segment_sum %5 by dst", "gather %6[dst]", "div %5, %7"),
    ]
    spans = operations_of(*(value.origin for value in result.graph.values[1:]))
    assert [slice_text(layer(SOFTMAX), span) for span in spans] == ["edge_softmax"]
    site = result.operations[-1]
    assert (site.label, slice_text(layer(SOFTMAX), site.extent)) == ("edge_softmax", 'edge_softmax(g, "att")')


def test_the_users_softmax_takes_the_preludes_place() -> None:
    helper = "def edge_softmax(g, name):\n    for e in g.edges():\n        e[name] = exp(e[name])\n"
    graph = check(helper + layer(SOFTMAX)).graph
    assert graph is not None
    assert len(graph.values) == 2
    assert graph.values[1].origin[0].line == 3


def test_operations_stand_at_their_operators() -> None:
    text = layer("""
for n in g.nodes():
    q = x[n]
    for e in n.incoming_edges():
        n["h"] += e.src.x * q
return n["h"]""")
    places = {site.label: site for site in check(text).operations}
    assert list(places) == ["x[n]", "+=", "e.src.x", "*", "q"]
    assert slice_text(text, places["+="].span) == "+="
    assert slice_text(text, places["+="].extent) == 'n["h"] += e.src.x * q'
    assert slice_text(text, places["e.src.x"].span) == "e.src.x"
    assert places["q"].span.line == FIRST_LINE + 3


@pytest.mark.parametrize(("expression", "signature"), [
    ("e.src.x * W[e.etype]", "a,ab->b"),
    ("x[e.src] * W[e.etype]", "a,ab->b"),
    ("(e.src.x + 0) * W[e.etype]", "a,ab->ab"),
    ("p[e.src] * W[e.etype]", "a,ab->ab"),
    ("e.src.x * Z[e.etype]", "a,ab->ab"),
])  # fmt: skip
def test_hectors_star(expression: str, signature: str) -> None:
    """Given features by learnt weights of a type is a matrix product, as in Listing 1; all other stars are not."""
    graph = layer_graph(f'for e in g.edges():\n    e["y"] = {expression}\nreturn e["y"]')
    assert getattr(graph.value(graph.result).operator, "signature", "") == signature


def test_scores_and_layers_in_one_text() -> None:
    score = "score s(h: entity, r: relation, t: entity):\n    param node[entity]\n    return node[h] - node[t]\n"
    text = score + layer('for e in g.edges():\n    e["y"] = w[e]\nreturn e["y"]')
    chosen = check(text).graph
    assert chosen is not None
    assert (chosen.name, chosen.family) == ("f", "layer")
    chosen = check(text, name="s").graph
    assert chosen is not None
    assert chosen.family == "score"
