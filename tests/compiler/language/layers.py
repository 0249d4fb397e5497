"""What the tests of layers share: a header to write bodies under, and Hector's Listing 1."""

from explorer.compiler.ir.graph import Graph

from .helpers import check

HEADER = """dim F = 8, G = 4, H = 2
layer f(g: graph):
    input x[node, F], w[edge], Z[etype, F, G]
    param W[etype, F, G], V[ntype, F, G], M[etype, ntype], w0[F, G], p[node, F]
"""
FIRST_LINE = 5
"""Where a body under HEADER begins."""

LISTING_1 = """dim F = 64, G = 64

def edge_softmax(g):
    for e in g.edges ():
        e["att"] = exp(e["att"])
    for n in g.dst_nodes ():
        n["att_sum"] = 0.0
        for e in n.incoming_edges ():
            n["att_sum"] += e["att"]
    for e in g.edges ():
        e["att"] /= e.dst["att_sum"]

layer RGAT(g: graph):
    input feature[node, F]
    param W[etype, F, G], w_s[etype, G], w_t[etype, G]
    for e in g.edges ():
        hs = e.src.feature * W[e.etype]
        atts = dot_prd(hs, w_s[e.etype])
        ht = e.dst.feature * W[e.etype]
        attt = dot_prd(ht, w_t[e.etype])
        e["att"] = leakyrelu(atts + attt)
    edge_softmax(g)
    return e["att"]
"""
"""Hector, Listing 1, line by line as printed, with declarations and a result."""


def layer(body: str) -> str:
    """A body (without indentation) under HEADER, as a text."""
    return HEADER + "".join(f"    {line}\n" for line in body.strip().split("\n"))


def layer_graph(body: str) -> Graph:
    """The graph of a body that must be right."""
    result = check(layer(body))
    assert result.graph is not None, [entry.message for entry in result.diagnostics]
    return result.graph
