"""Ops that declare maps, and layers that divide ids, with what they mean: NumPy in float64."""

from __future__ import annotations

import numpy as np

from tests.compiler.by_form.set_structures import (
    COORDINATES,
    CROSSED_BAG,
    CROSSED_LAYER,
    CROSSED_MATRIX,
    DIVIDED_BAG,
    DIVIDED_LAYER,
    MAPPED_BAG,
    MAPPED_BLOCKS,
    MAPPED_MATRIX,
    NODES,
    SCATTERED,
    Array,
    Inputs,
    segments,
    summed,
)


def timed_bags(i: Inputs) -> Array:
    rows = i["T"][i["idx"]] * i["W"][i["when"]] + i["K"][i["sort"][i["idx"]]] * i["E"][i["twin"]]
    sums = np.stack([(i["weight"][p, None] * rows[p]).sum(0) for p in segments(i)])
    return sums * i["K"][i["owner"]]


def divided_times(i: Inputs) -> Array:
    part = i["P"][i["when"] // 2] * i["P"][i["sort"][i["idx"]] % 2] + i["T"][i["idx"]]
    found = [part[p].max(0) if len(p) else np.zeros(3) for p in segments(i)]
    return np.stack(found) + i["P"][np.arange(4) % 2]


def hashed_times(i: Inputs) -> Array:
    idx, when = i["idx"].astype(np.int64), i["when"]
    part = i["P"][(2654435761 * idx + 7) % 2] * i["P"][(when + 1) % 2] * i["T"][idx]  # 1 and -3 are the same, modulo 2
    part = part * i["P"][(3 * i["sort"][idx] + 1) % 2]
    return np.stack([part[p].sum(0) for p in segments(i)]) + i["P"][(5 * np.arange(4) + 1) // 3 % 2]


def crossed_times(i: Inputs) -> Array:
    idx, when, sort = i["idx"].astype(np.int64), i["when"], i["sort"]
    bags = np.repeat(np.arange(4), np.diff(i["ptr"]))
    part = i["T"][idx] * i["S"][idx + when] * i["P"][(40503 * idx + 3 * when - 2 * sort[idx]) % 7]
    part = part + i["P"][(2 * bags + idx + 1) % 7]
    return np.stack([part[p].sum(0) for p in segments(i)]) * i["P"][(np.arange(4) + np.arange(4)) % 7]


def crossed_places(i: Inputs) -> Array:
    row, col = i["row"], i["col"]
    terms = i["value"][:, None] * i["X"][col] * i["P"][3 * row + col] + i["Q"][(row - 2 * col) % 5]
    return summed(terms, row, 4)


def paired_nonzeros(i: Inputs) -> Array:
    row, col = i["row"], i["col"]
    return summed(i["value"][:, None] * i["P"][row * 3 + col] * i["X"][col], row, 4)[row] * i["Q"][(col * row) % 5]


def crossed_ends(i: Inputs) -> Array:
    s, d, kind = i["src"], i["dst"], i["etype"]
    rows = i["Q"][s + d] * i["x"][s] * i["R"][(3 * s - d + 7 * kind) % 5]
    h = summed(rows, d, 5) + i["Q"][2 * np.arange(5)]
    return h[d] * i["H"][i["when"] + kind]


def twins(i: Inputs) -> Array:
    return i["T"][i["idx"]] * i["E"] * (i["T"][i["idx"]] * i["E"])[i["twin"]]


def by_blocks(i: Inputs) -> Array:
    rows = i["T"][i["blocks"]] * i["S"][i["slot"]] + i["K"][i["sort"][i["blocks"]]]
    means = [rows[p].mean(0) if len(p) else np.zeros(3) for p in segments(i)]
    return np.stack(means) * i["T"][i["asks"]] + i["K"][i["sort"][i["asks"]]]


def at_times(i: Inputs) -> Array:
    terms = i["value"][:, None] * i["X"][i["col"]] * i["W"][i["when"]] + i["K"][i["sort"][i["col"]]]
    sums = np.stack([(terms * i["E"][i["twin"]])[i["row"] == row].sum(0) for row in range(4)])
    return sums * np.tanh(sums[i["like"]])


def softmax_by_twins(i: Inputs) -> Array:
    s = i["E"] * i["X"][i["col"]]
    return s * s[i["twin"]] + i["W"][i["when"]]


def hashed_nodes(i: Inputs) -> Array:
    n, s, d = np.arange(5), i["src"], i["dst"]
    rows = i["R"][s % 2] * i["Q"][d // 2] * i["x"][s] + i["H"][i["when"] // 2 % 3]
    found = np.zeros((5, 4))
    np.add.at(found, d, rows)
    return i["Q"][n // 2] * found + i["R"][i["etype"] % 2].sum(0)


def hashed_edges(i: Inputs) -> Array:
    y = i["x"] * i["Q"][np.arange(5) // 2]
    return y[i["src"]] * i["R"][i["dst"] % 2] + i["H"][i["when"] // 2 % 3]


def scattered_messages(i: Inputs) -> Array:
    s = i["m"] * i["x"][i["src"]]
    h = i["x"] + summed(s * i["W"][i["etype"]], i["dst"], 5)
    times = summed(s * i["T"][i["when"]], i["when"], 3)
    counts = np.bincount(i["third"], minlength=5)[:, None]
    return np.tanh(h * summed(s, i["src"], 5) + counts)[i["dst"]] * times[i["when"]]


def scattered_types(i: Inputs) -> Array:
    return summed(i["m"] * i["W"][i["etype"]], i["etype"], 2) * i["W"]


def mttkrp(i: Inputs) -> Array:
    a, b, c = (i[table][i[ids]] for table, ids in (("A", "row"), ("B", "col"), ("C", "k")))
    value = i["value"][:, None]
    back = summed(value * a * b, i["k"], 2)
    return summed(value * b * c * back[i["k"]], i["row"], 4)


def last_dimension(i: Inputs) -> Array:
    return summed(i["value"][:, None] * i["A"][i["row"]] * i["B"][i["col"]], i["k"], 2)


MAPPED_BODIES = {
    "times of entries": (
        MAPPED_BAG,
        "return sum(w * (T[i] * W[i.when] + i.sort.K * E[i.twin]) for i, w in l) * K[l.owner]",
        timed_bags,
    ),
    "times that are divided": (
        DIVIDED_BAG,
        "return max(P[i.when // 2] * P[i.sort % 2] + T[i] for i in l) + P[l % 2]",
        divided_times,
    ),
    "times and rows that are hashed": (
        DIVIDED_BAG,
        "x = sum(P[(2654435761 * i + 7) % 2] * P[(i.when - 3) % 2] * T[i] * P[(3 * i.sort + 1) % 2] for i in l)\n"
        "return x + P[(5 * l + 1) // 3 % 2]",
        hashed_times,
    ),
    "times and rows that are crossed": (
        CROSSED_BAG,
        "x = sum(T[i] * S[i + i.when] * P[(40503 * i + 3 * i.when - 2 * i.sort) % 7] + P[(2 * l + i + 1) % 7]"
        " for i in l)\nreturn x * P[(l + l) % 7]",
        crossed_times,
    ),
    "rows and columns that are crossed": (
        CROSSED_MATRIX,
        'for i in A.rows():\n    i["y"] = sum(a * X[j] * P[3 * i + j] + Q[(i - 2 * j) % 5] for j, a in A.row(i))\n'
        'return i["y"]',
        crossed_places,
    ),
    "nonzeros that are crossed": (
        CROSSED_MATRIX,
        'for z in A.nonzeros():\n    z.row["m"] += z.value * P[z.row * 3 + z.col] * X[z.col]\n'
        'for z in A.nonzeros():\n    z["y"] = z.row["m"] * Q[z.col * z.row % 5]\nreturn z["y"]',
        paired_nonzeros,
    ),
    "ends of edges that are crossed": (
        CROSSED_LAYER,
        NODES.format(
            '"h"',
            "sum(Q[e.src + n] * x[e.src] * R[(3 * e.src - n + 7 * e.etype) % 5] for e in n.incoming_edges())"
            " + Q[n + n]",
        )
        + 'for e in g.edges():\n    e["y"] = e.dst["h"] * H[e.when + e.etype]\nreturn e["y"]',
        crossed_ends,
    ),
    "data of other entries": (
        MAPPED_BAG,
        'for i in l:\n    i["y"] = T[i] * E[i]\nfor i in l:\n    i["z"] = i["y"] * i.twin["y"]\nreturn i["z"]',
        twins,
    ),
    "slots of blocks": (
        MAPPED_BLOCKS,
        "x = mean(T[j] * S[j.slot] + K[j.sort] for j in q)\nreturn x * T[q.asks] + q.asks.sort.K",
        by_blocks,
    ),
    "times of nonzeros": (
        MAPPED_MATRIX,
        'for i in A.rows():\n    i["s"] = sum((a * X[j] * W[j.when] + K[j.sort]) * E[j.twin] for j, a in A.row(i))\n'
        'for i in A.rows():\n    i["y"] = i["s"] * tanh(i.like["s"])\nreturn i["y"]',
        at_times,
    ),
    "data of other nonzeros": (
        MAPPED_MATRIX,
        'for z in A.nonzeros():\n    z["s"] = E[z] * X[z.col]\n'
        'for z in A.nonzeros():\n    z["y"] = z["s"] * z.twin["s"] + W[z.when]\nreturn z["y"]',
        softmax_by_twins,
    ),
    "hashed nodes": (
        DIVIDED_LAYER,
        "r = sum(R[e.etype % M] for e in g.edges())\n"
        + NODES.format(
            '"h"',
            "Q[n // M] * sum(R[e.src % M] * Q[n // M] * x[e.src] + H[e.when // 2 % 3] for e in n.incoming_edges()) + r",
        )
        + 'return n["h"]',
        hashed_nodes,
    ),
    "hashed ends of edges": (
        DIVIDED_LAYER,
        NODES.format('"y"', "x[n] * Q[n // M]")
        + 'for e in g.edges():\n    e["o"] = e.src["y"] * R[e.dst % M] + H[e.when // 2 % 3]\nreturn e["o"]',
        hashed_edges,
    ),
    "scattered messages": (
        SCATTERED,
        NODES.format('"h"', "x[n]")
        + 'for e in g.edges():\n    e["s"] = m[e] * x[e.src]\n    e.dst["h"] += e["s"] * W[e.etype]\n'
        '    e.src["k"] += e["s"]\n    e.third["u"] += 1\n    e.when["t"] += e["s"] * T[e.when]\n'
        + NODES.format('"o"', 'tanh(n["h"] * n["k"] + n["u"])')
        + 'for e in g.edges():\n    e["y"] = e.dst["o"] * e.when["t"]\nreturn e["y"]',
        scattered_messages,
    ),
    "sums by type": (
        SCATTERED,
        'for e in g.edges():\n    e.etype["c"] += m[e] * W[e.etype]\n'
        'for r in g.etypes():\n    r["d"] = r["c"] * W[r]\nreturn any["d"]',
        scattered_types,
    ),
    "products of three factors": (
        COORDINATES,
        'for z in X.nonzeros():\n    z.k["c"] += z.value * A[z.i] * B[z.j]\n'
        'for z in X.nonzeros():\n    z.i["m"] += z.value * B[z.j] * C[z.k] * z.k["c"]\nreturn i["m"]',
        mttkrp,
    ),
    "the last of three factors": (
        COORDINATES,
        'for z in X.nonzeros():\n    z.k["c"] += z.value * A[z.row] * B[z.col]\nreturn k["c"]',
        last_dimension,
    ),
}
