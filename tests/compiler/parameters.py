"""Models whose parameters are used in many ways at once: their gradients are few, and sums of many."""

from __future__ import annotations

BIASES = """dim F = 48, G = 41
layer Biases(g: graph):
    input x[node, F]
    param W[F, G], b1[G], b2[G], b3[F], s[1], U[G, G], b4[G]
    for n in g.nodes():
        y = tanh((x[n] + b3) @ W + b1) * sum(s)
        z = sigmoid(y @ U + b2)
        m = sum(relu(x[e.src] @ W + b4) for e in n.incoming_edges())
        n["h"] = z * y + m
    return n["h"]
"""
"""Several biases, a matrix that is used before and behind a sum, a scalar for all."""
BOTH = """dim F = 16, G = 8
layer Both(g: graph):
    input x[node, F], f[edge, F]
    param W[F, G], b[G], a[G]
    for e in g.edges():
        e["m"] = relu(f[e] @ W + b)
    for n in g.nodes():
        n["h"] = tanh(x[n] @ W + b + sum(dot(e["m"], a) * e["m"] for e in n.incoming_edges()))
    return n["h"]
"""
"""A matrix and a bias that nodes and edges share."""
TYPED = """dim H = 2, F = 8, G = 16
layer Typed(g: graph):
    input x[node, F]
    param W[ntype, etype, H, F, G], b[etype, H, G], c[ntype, H, G], d[etype], s[ntype, H]
    for e in g.edges():
        e["m"] = relu(x[e.src] @ W[e.src.ntype, e.etype] + b[e.etype]) * d[e.etype] * s[e.dst.ntype]
    for n in g.nodes():
        n["h"] = sum(e["m"] for e in n.incoming_edges()) * tanh(c[n.ntype]) * s[n.ntype]
    return n["h"]
"""
"""Parameters by type of a node, of an edge and of both, with heads; a sum over edges for each type of node."""
OF_A_TYPE = """dim F = 41, G = 100
layer Typed2(g: graph):
    input x[node, F]
    param W[etype, F, G], b[etype, G], c[ntype, G], d[etype], k[etype, F]
    for n in g.nodes():
        m = sum((relu((x[e.src] * k[e.etype]) @ W[e.etype] + b[e.etype]) * d[e.etype]) for e in n.incoming_edges())
        n["h"] = relu(m + c[n.ntype])
    return n["h"]
"""
"""What a type adds needs other parameters of the type."""
SCALARS = """dim F = 256
layer Scalars(g: graph):
    input x[node, F]
    param s[1], t[1], v[F], W[F, F], r[F]
    for n in g.nodes():
        a = sum(x[e.src] * v for e in n.incoming_edges())
        n["h"] = sum(s) * (a @ W) + sum(t) * dot(x[n], r) * x[n]
    return n["h"]
"""
"""Scalars of all nodes, and rows of several tiles."""
DEEP = """dim F = 100, G = 8
layer Deep(g: graph):
    input x[node, F]
    param W[F, G], V[G, G], w[G], b[G], c[G]
    for e in g.edges():
        q = tanh(x[e.src] @ W + x[e.dst] @ W + b)
        e["a"] = dot(relu(q @ V + c), w)
    edge_softmax(g, "a")
    for n in g.nodes():
        n["h"] = sum(e["a"] * (x[e.src] @ W) for e in n.incoming_edges())
    return n["h"]
"""
"""Products of sums of products, for each edge."""
LISTS = """dim D = 16, K = 48
op B1(b: bag of word):
    param T[word, D], W1[D, K], b1[K], a[K], s[1], V[D, D]
    q = sum(tanh(T[i] @ V) for i in b)
    return sum(s) * dot(tanh(q @ W1 + b1), a)
"""
"""Lists."""
BATCH = """dim D = 24, K = 8
score SW(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    param W[D, K], b[K], s[1], V[K, K], c[relation]
    y = tanh(concat(E[h] @ W + b, R[r] @ W))
    z = tanh((E[t] @ W) @ V)
    return dot(reshape(y, 2, K) @ z, sum(s) * (reshape(y, 2, K) @ b)) + c[r]
"""
"""A batch, matrices for all of its triples."""
PAIRS = """dim D = 20
score Pairs(h: entity, r: relation, t: entity):
    param E[entity, D], B[relation, entity], C[entity, relation, D], W[entity, entity], b[relation]
    return dot(E[h] * C[t, r], E[t]) + tanh(B[r, t]) * b[r] + W[h, t] * W[t, h]
"""
"""A number, and a row, for each pair of two sets' elements, and a number of each relation."""

PARAMETERS = {
    "biases": BIASES,
    "both": BOTH,
    "typed": TYPED,
    "of_a_type": OF_A_TYPE,
    "scalars": SCALARS,
    "deep": DEEP,
    "lists": LISTS,
    "batch": BATCH,
    "pairs": PAIRS,
}
"""All of them, by name."""
