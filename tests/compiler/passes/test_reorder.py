"""Weights are multiplied by weights where the counted work falls (Hector §3.2.3)."""

from explorer.compiler.ir.graph import Contract
from tests.compiler.layers import FEW_PAIRS, layer, report, values_on
from tests.compiler.models import compiled

HEAD = """dim F = 8, G = 8
layer Model(g: graph):
    input x[node, F]
    param W[etype, F, G], w[etype, G]
    for e in g.edges():
        e["a"] = {}
    for n in g.nodes():
        n["h"] = sum(e["a"] for e in n.incoming_edges())
    return n["h"]
"""


def test_two_products_of_edges_become_products_with_folded_weights():
    compilation = layer("rgat", FEW_PAIRS, compact=False)
    said = report(compilation, "reorder")
    assert said.summary.count("multiplies W and") == 2
    folds = [value for value in values_on(compilation, "etype") if isinstance(value.operator, Contract)]
    assert len(folds) == 2
    products = [v for v in values_on(compilation, "edge") if isinstance(v.operator, Contract) and v.shape == ("G",)]
    assert len(products) == 2  # the message and its weighted sum: the destination's product is gone


def test_a_function_between_the_products_blocks_it():
    compilation = compiled(HEAD.format("dot(leaky_relu(x[e.src] @ W[e.etype], 0.2), w[e.etype])"))
    said = report(compilation, "reorder")
    assert not said.changed
    assert not any(v.index_set == "etype" for v in compilation.stages["graph"].program.values if v.shape == ("F",))


def test_it_refuses_where_the_work_would_rise():
    said = report(layer("hgt"), "reorder")
    assert not said.changed
    assert len(said.refusals) == 2
    assert all("would take" in refusal for refusal in said.refusals)


def test_the_option_switches_it_off():
    said = report(layer("rgat", reorder=False), "reorder")
    assert not said.changed
    assert said.refusals == ("no product is reordered: the option reorder is off",)


def test_a_product_that_is_needed_anyway_is_not_folded():
    said = report(layer("rgat", aggregate=False), "reorder")
    assert said.summary.count("multiplies W and") == 1  # the destination's, which is a logit and nothing else
    assert "W and w_t first" in said.summary
    assert len(said.refusals) == 1
    assert "W and w_s multiplied first would take" in said.refusals[0]


def test_a_product_of_weights_of_unlike_types_depends_on_what_they_do():
    compilation = compiled("""layer Model(g: graph):
    param b[etype, 2]
    input mu[etype, ntype, 4]
    input structure[ntype, 4]
    param v[ntype, 2, 4]
    for e in g.edges():
        e["att"] = dot(mu[e.etype, e.src.ntype], structure[e.src.ntype])
    for n in g.nodes():
        most = max(structure[e.src.ntype] for e in n.incoming_edges())
        for e in n.incoming_edges():
            n["msg"] += dot(most, v[e.dst.ntype]) @ b[e.etype]
    for e in g.edges():
        e["result"] = 1.0 + e.src["msg"]
    return e["result"]
""")
    assert "multiplies v and b first" in report(compilation, "reorder").summary
    said = report(compilation, "compact").summary  # so the product can move to the pairs
    assert "from edge to dst_pair" in said
