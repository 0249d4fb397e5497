"""Relational layers and their gradients written by hand in float64 NumPy, apart from any text of them.

Sources: Schlichtkrull et al. 2018 (RGCN), Busbridge et al. 2019 (RGAT, attention across relations), Hu et al. 2020
(HGT), Kipf and Welling 2017 (GCN), with the conventions that the project's page on semantics fixes. Rows are `x @ W`.
A graph is (src, dst, etype [edges], ntype [nodes]). Each layer returns its result and a function from the gradient of
the result to those of the parameters, by name. Sums over edges go edge by edge, so that nothing is shared by mistake.
"""

import numpy as np


def scatter(rows, places, count):
    """Sums the rows that go to each of `count` places: [count, ...]."""
    result = np.zeros((count, *rows.shape[1:]))
    for row, place in zip(rows, places, strict=True):
        result[place] += row
    return result


def relation_norm(dst, etype):
    """1 over the number of in-edges of the same destination and type, parallel edges counted: [edges]."""
    pairs = list(zip(dst.tolist(), etype.tolist(), strict=True))
    return np.array([1 / pairs.count(pair) for pair in pairs])


def softmax_over_in_edges(logits, dst):
    """softmax over all in-edges of each edge's destination, whatever their type: [edges, ...]."""
    result = np.zeros_like(logits)
    for node in set(dst.tolist()):
        edges = dst == node
        shifted = np.exp(logits[edges] - logits[edges].max(axis=0))
        result[edges] = shifted / shifted.sum(axis=0)
    return result


def softmax_gradient(attention, upstream, dst):
    """That of the logits: a (da - sum of a da over the in-edges of the destination)."""
    total = scatter(attention * upstream, dst, int(dst.max(initial=0)) + 1)
    return attention * (upstream - total[dst])


def rgcn(graph, x, W, W0, b):
    """relu(x_v W0 + sum over in-edges of x_src W_type / c(v, type) + b): x [N, F], W [R, F, G], W0 [F, G], b [G]."""
    src, dst, etype, _ = graph
    norm = relation_norm(dst, etype)[:, None]
    messages = norm * np.einsum("ef,efg->eg", x[src], W[etype])
    before = x @ W0 + scatter(messages, dst, len(x)) + b

    def backward(upstream):
        d = upstream * (before > 0)
        de = norm * d[dst]
        return {
            "x": d @ W0.T + scatter(np.einsum("eg,efg->ef", de, W[etype]), src, len(x)),
            "W": scatter(np.einsum("ef,eg->efg", x[src], de), etype, len(W)),
            "W0": np.einsum("nf,ng->fg", x, d),
            "b": d.sum(axis=0),
        }

    return np.maximum(before, 0), backward


def rgat(graph, x, W, w_s, w_t):
    """Heads of sum a_e z_e with logits leaky_relu(<z_src, w_s> + <z_dst, w_t>, 0.2): x [N, F], W [R, H, F, D],
    w_s, w_t [R, H, D]; the result is [N, H, D]."""
    src, dst, etype, _ = graph
    zs = np.einsum("ef,ehfd->ehd", x[src], W[etype])
    zt = np.einsum("ef,ehfd->ehd", x[dst], W[etype])
    before = np.einsum("ehd,ehd->eh", zs, w_s[etype]) + np.einsum("ehd,ehd->eh", zt, w_t[etype])
    a = softmax_over_in_edges(np.where(before > 0, before, 0.2 * before), dst)
    result = scatter(a[..., None] * zs, dst, len(x))

    def backward(upstream):
        da = np.einsum("ehd,ehd->eh", upstream[dst], zs)
        dl = softmax_gradient(a, da, dst) * np.where(before > 0, 1, 0.2)
        dzs = a[..., None] * upstream[dst] + dl[..., None] * w_s[etype]
        dzt = dl[..., None] * w_t[etype]
        return {
            "x": scatter(np.einsum("ehd,ehfd->ef", dzs, W[etype]), src, len(x))
            + scatter(np.einsum("ehd,ehfd->ef", dzt, W[etype]), dst, len(x)),
            "W": scatter(
                np.einsum("ef,ehd->ehfd", x[src], dzs) + np.einsum("ef,ehd->ehfd", x[dst], dzt), etype, len(W)
            ),
            "w_s": scatter(dl[..., None] * zs, etype, len(W)),
            "w_t": scatter(dl[..., None] * zt, etype, len(W)),
        }

    return result, backward


def hgt(graph, x, K, Q, V, A, M, mu):
    """Heads of sum a_e (v_src M_type) with logits <k_src A_type, q_dst> mu_type / sqrt(D), k, q, v by type of node:
    x [N, F]; K, Q, V [T, H, F, D]; A, M [R, H, D, D]; mu [R, H]; the result is [N, H, D]."""
    src, dst, etype, ntype = graph
    scale = 1 / np.sqrt(A.shape[-1])
    k, q, v = (np.einsum("nf,nhfd->nhd", x, P[ntype]) for P in (K, Q, V))
    ka = np.einsum("ehd,ehdc->ehc", k[src], A[etype])
    fit = np.einsum("ehc,ehc->eh", ka, q[dst]) * scale
    a = softmax_over_in_edges(fit * mu[etype], dst)
    messages = np.einsum("ehd,ehdc->ehc", v[src], M[etype])
    result = scatter(a[..., None] * messages, dst, len(x))

    def backward(upstream):
        dm = a[..., None] * upstream[dst]
        dl = softmax_gradient(a, np.einsum("ehc,ehc->eh", upstream[dst], messages), dst)
        df = (dl * mu[etype] * scale)[..., None]
        dka = df * q[dst]
        dk = scatter(np.einsum("ehc,ehdc->ehd", dka, A[etype]), src, len(x))
        dq = scatter(df * ka, dst, len(x))
        dv = scatter(np.einsum("ehc,ehdc->ehd", dm, M[etype]), src, len(x))
        projections = {"K": (K, dk), "Q": (Q, dq), "V": (V, dv)}
        return {
            "x": sum(np.einsum("nhd,nhfd->nf", d, P[ntype]) for P, d in projections.values()),
            **{name: scatter(np.einsum("nf,nhd->nhfd", x, d), ntype, len(P)) for name, (P, d) in projections.items()},
            "A": scatter(np.einsum("ehd,ehc->ehdc", k[src], dka), etype, len(A)),
            "M": scatter(np.einsum("ehd,ehc->ehdc", v[src], dm), etype, len(M)),
            "mu": scatter(dl * fit, etype, len(mu)),
        }

    return result, backward


def gcn(graph, x, W, b):
    """Symmetrically normalised with self loops: sum over in-edges and the node itself of x W / sqrt(d_src d_dst) + b
    with d = in-degree + 1: x [N, F], W [F, G], b [G]."""
    src, dst, _, _ = graph
    degree = 1 + np.array([np.sum(dst == node) for node in range(len(x))])
    adjacency = np.diag(1 / degree)
    for u, v in zip(src, dst, strict=True):
        adjacency[v, u] += 1 / np.sqrt(degree[u] * degree[v])

    def backward(upstream):
        d = adjacency.T @ upstream
        return {"x": d @ W.T, "W": x.T @ d, "b": upstream.sum(axis=0)}

    return adjacency @ x @ W + b, backward
