"""Layers whose iterations mix what they have summed over a segment: by a small matrix, a norm, a sum over heads."""

from __future__ import annotations

SEGMENT_MODELS = {
    "sum_through_a_small_matrix": """dim F = 5, G = 3

layer Model(g: graph):
    input x[node, F]
    param V[F, G]
    for n in g.nodes():
        n["h"] = relu(sum(x[e.src] for e in n.incoming_edges()) + x[n]) @ V
    return n["h"]
""",
    "kernels_of_an_edge": """dim F = 6, G = 5, K = 3

layer Model(g: graph):
    input y[node, K, G], u[edge, 2]
    param mu[K, 2]
    for e in g.edges():
        v = repeat(u[e], K) - mu
        e["w"] = exp(-sum(v * v))
    for n in g.nodes():
        n["h"] = sum(mean(e["w"] * y[e.src] for e in n.incoming_edges()).T)
    return n["h"]
""",
    "softmax_of_heads_and_a_gate": """dim H = 3, D = 5

layer Model(g: graph):
    input x[node, H, D], a[edge, H], s[node, 15]
    param w[30]
    for e in g.edges():
        e["w"] = leaky_relu(a[e], 0.2)
    edge_softmax(g, "w")
    for n in g.nodes():
        m = reshape(sum(e["w"] * x[e.src] for e in n.incoming_edges()), 15)
        gate = sigmoid(dot(w, concat(m, s[n])))
        n["h"] = gate * s[n] + (1 - gate) * m
    return n["h"]
""",
    "largest_of_neighbours_and_a_norm": """dim F = 7, G = 4

layer Model(g: graph):
    input x[node, F]
    param W[F, G]
    for n in g.nodes():
        h = max(relu(x[e.src]) for e in n.incoming_edges()) @ W
        n["h"] = h / max(norm(h), 0.001)
    return n["h"]
""",
    "knots_of_an_edge": """dim G = 7, K = 4

layer Model(g: graph):
    input y[node, K, G], u[edge], s[node, G]
    input knots[K]
    for e in g.edges():
        e["b"] = relu(1 - abs(u[e] * (K - 1) - knots))
    for n in g.nodes():
        n["h"] = s[n] + mean(e["b"] @ y[e.src] for e in n.incoming_edges())
    return n["h"]
""",
    "two_sums_one_behind_the_other": """dim F = 6

layer Model(g: graph):
    input x[node, F]
    param V[F, F]
    for n in g.nodes():
        m = tanh(mean(x[e.src] for e in n.incoming_edges()) @ V)
        v = sum((x[e.src] - m) * (x[e.src] - m) for e in n.incoming_edges())
        n["h"] = v / (1 + norm(v))
    return n["h"]
""",
    "sums_that_no_warp_has_room_for_together": """dim F = 160

layer Model(g: graph):
    input x[node, F], u[edge]
    for n in g.nodes():
        a = sum(relu(x[e.src]) for e in n.incoming_edges())
        b = sum(abs(x[e.src]) for e in n.incoming_edges())
        c = sum(u[e] * x[e.src] for e in n.incoming_edges())
        d = sum(x[e.src] * x[e.src] for e in n.incoming_edges())
        o = mean(tanh(x[e.src]) for e in n.incoming_edges())
        n["h"] = (a + 2 * b) / (1 + norm(c)) + sigmoid(d) * o
    return n["h"]
""",
    "heads_of_two_dimensions": """dim A = 2, B = 3, D = 6, S = 4

layer Model(g: graph):
    input y[node, A, S, D], v[edge, A, B, S]
    for n in g.nodes():
        m = max(max(v[e]) for e in n.incoming_edges())
        n["h"] = sum(exp(v[e] - m) @ y[e.src] for e in n.incoming_edges())
    return n["h"]
""",
}
