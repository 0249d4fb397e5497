"""Models whose products stand where no tile would find them: behind and inside other loops, with other matrices."""

from __future__ import annotations

MODELS = {
    "bilinear": """
dim F = 32
layer Bilinear(g: graph):
    input x[node, F]
    param A[F, F], B[etype, F, F], V[F, F]
    for e in g.edges():
        e["s"] = dot(x[e.src] @ A, x[e.dst]) + dot(x[e.src] @ sigmoid(B[e.etype]), x[e.dst])
    edge_softmax(g, "s")
    for n in g.nodes():
        n["h"] = sum(e["s"] * (x[e.src] @ V) for e in n.incoming_edges())
    return n["h"]
""",
    "cgconv": """
dim F = 32, P = 8
layer CGConv(g: graph):
    input x[node, F], f[edge, P]
    param Wf[2 * F + P, F], bf[F], Ws[2 * F + P, F], bs[F]
    for e in g.edges():
        z = concat(x[e.dst], x[e.src], f[e])
        e["m"] = sigmoid(z @ Wf + bf) * log(1 + exp(z @ Ws + bs))
    for n in g.nodes():
        n["h"] = x[n] + sum(e["m"] for e in n.incoming_edges())
    return n["h"]
""",
    "edge_mlp": """
dim F = 48, M = 41, G = 16
def silu(x):
    return x * sigmoid(x)
layer EdgeMLP(g: graph):
    input x[node, F], f[edge, M]
    param A[2 * F + M, F], a[F], B[F, F], b[F], C[F, G], c[G]
    for e in g.edges():
        e["m"] = silu(silu(silu(concat(x[e.src], x[e.dst], f[e]) @ A + a) @ B + b) @ C + c)
    for n in g.nodes():
        n["h"] = sum(e["m"] for e in n.incoming_edges())
    return n["h"]
""",
    "edgeconv": """
dim F = 32, G = 48
layer EdgeConv(g: graph):
    input x[node, F]
    param W[2 * F, G], b[G], V[G, G]
    for n in g.nodes():
        n["h"] = max(relu(concat(x[n], x[e.src] - x[n]) @ W + b) @ V for e in n.incoming_edges())
    return n["h"]
""",
    "ermlp": """
dim D = 32, M = 64
score ERMLP(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], C[3 * D, M], b[M], w[M]
    return dot(w, tanh(concat(E[h], R[r], E[t]) @ C + b))
""",
    "gcn_mlp": """
dim F = 41, G = 100, C = 16
layer GCNMLP(g: graph):
    input x[node, F]
    param W1[F, G], b1[G], W2[G, G], b2[G], W3[G, C]
    for n in g.nodes():
        n["a"] = relu(sum(x[e.src] * e.norm for e in n.incoming_edges()) @ W1 + b1)
    for n in g.nodes():
        n["h"] = relu(sum(e.src["a"] * e.norm for e in n.incoming_edges()) @ W2 + b2) @ W3
    return n["h"]
""",
    "gru": """
dim F = 32
layer GRU(g: graph):
    input x[node, F]
    param W[F, F], Wz[F, F], Uz[F, F], bz[F], Wr[F, F], Ur[F, F], br[F], Wh[F, F], Uh[F, F], bh[F]
    for n in g.nodes():
        m = sum(x[e.src] @ W for e in n.incoming_edges())
        z = sigmoid(m @ Wz + x[n] @ Uz + bz)
        r = sigmoid(m @ Wr + x[n] @ Ur + br)
        c = tanh(m @ Wh + (r * x[n]) @ Uh + bh)
        n["h"] = (1 - z) * x[n] + z * c
    return n["h"]
""",
    "heads_types": """
dim H = 3, F = 32, G = 16
layer HeadsTypes(g: graph):
    input x[node, F]
    param W[etype, H, F, G], a[H, G]
    for e in g.edges():
        e["m"] = x[e.src] @ W[e.etype]
        e["s"] = leaky_relu(sum(e["m"] * a))
    edge_softmax(g, "s")
    for n in g.nodes():
        n["h"] = sum(e["s"] * e["m"] for e in n.incoming_edges())
    return n["h"]
""",
    "nnconv": """
dim F = 16, G = 24, M = 32, P = 5
layer NNConv(g: graph):
    input x[node, F], u[edge, P]
    param W1[P, M], b1[M], W2[M, F * G], b2[F * G], root[F, G], b[G]
    for e in g.edges():
        e["w"] = reshape(relu(u[e] @ W1 + b1) @ W2 + b2, F, G)
    for n in g.nodes():
        n["h"] = x[n] @ root + b + mean(x[e.src] @ e["w"] for e in n.incoming_edges())
    return n["h"]
""",
    "ntn": """
dim D = 32, K = 4
score NTN(h: entity, r: relation, t: entity):
    param E[entity, D], W[K, D, D], V[2 * D, K], b[K], u[relation, K]
    return dot(u[r], tanh((E[h] @ W) @ E[t] + concat(E[h], E[t]) @ V + b))
""",
    "one_head": """
dim H = 1, F = 48, G = 100
layer OneHead(g: graph):
    input x[node, F]
    param W[H, F, G], V[G, F], b[F]
    for n in g.nodes():
        n["y"] = x[n] @ W
    for n in g.nodes():
        n["h"] = relu(reshape(sum(e.src["y"] for e in n.incoming_edges()), G) @ V + b)
    return n["h"]
""",
    "views": """
dim F = 32, G = 48, H = 4
layer Views(g: graph):
    input x[node, F]
    param W[G, F], V[F * G], U[F, G], M[F, G], b[G]
    for n in g.nodes():
        a = x[n] @ W.T + x[n] @ reshape(V, F, G)
        c = x[n] @ sigmoid(U) + x[n] @ (U * M)
        n["y"] = relu(a) * tanh(c + b)
    for n in g.nodes():
        n["h"] = sum(e.src["y"] for e in n.incoming_edges()) @ reshape(V, G, F)
    return n["h"]
""",
    "slices": """
dim D = 20, K = 6
score Slices(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], W[K, D, D]
    return dot(R[r] @ relu(E[h] @ W), 2 * E[t]) - dot(R[r], R[r])
""",
    "odd_slices": """
dim D = 18, K = 5
score OddSlices(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, K], W[K, D, D]
    return dot(R[r] @ (E[h] @ W), E[t]) / 3
""",
}
