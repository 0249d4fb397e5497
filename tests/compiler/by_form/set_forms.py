"""Layers and ops that use one form of the language each over elements, with what it means: NumPy in float64.

An oracle takes the inputs by name, tensors in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.compiler.by_form.between_forms import BETWEEN_BODIES
from tests.compiler.by_form.graph_forms import GRAPH_BODIES
from tests.compiler.by_form.mapped_forms import MAPPED_BODIES
from tests.compiler.by_form.set_structures import (
    BAG,
    BESIDE,
    BETWEEN,
    BY_COLUMN,
    DIVIDED,
    DIVIDED_MATRIX,
    FOUR,
    LAYER,
    MAPPED,
    MATRIX,
    NODES,
    QUALIFIED,
    QUALIFIED_MAPPED,
    SHAPES,
    STRUCTURES,
    TENSOR,
    TYPED,
    Array,
    Inputs,
    into,
    segments,
    summed,
)
from tests.compiler.by_form.typed_forms import TYPED_BODIES


class SetForm(NamedTuple):
    """Lines of a body under a header, and the rows that they give."""

    header: str
    body: str
    means: Callable[[Inputs], Array]

    @property
    def text(self) -> str:
        return self.header + "".join(f"    {line}\n" for line in self.body.split("\n"))


def logsumexp(x: Array) -> Array:
    return np.log(np.exp(x).sum(0))


def by_column(i: Inputs) -> Array:
    rows = np.concatenate([np.full(len(places), row) for row, places in enumerate(segments(i))])
    weighed, found = i["value"][:, None] * i["X"][rows], np.zeros_like(i["Y"])
    for column in np.unique(i["col"]):
        among = i["col"] == column
        s = weighed[among] - weighed[among].max(0) + i["E"][among]
        found[column] = s.sum(0) * i["Y"][column] + (s**2).mean(0)
    return found


def there_and_back(i: Inputs) -> Array:
    down = np.zeros_like(i["Y"])
    for row, places in enumerate(segments(i)):
        np.add.at(down, i["col"][places], i["X"][row])
    back = i["value"][:, None] * i["E"] * (down * i["Y"])[i["col"]]
    return np.stack([back[places].sum(0) for places in segments(i)]) + i["X"]


def normalised(i: Inputs) -> Array:
    y = i["x"] @ i["W"]
    return (y - y.mean(0)) / np.sqrt(y.var(0) + 0.001)


def propagated(i: Inputs) -> Array:
    h = i["x"]
    for _ in range(3):
        h = 0.9 * into(i, h[i["src"]], lambda part: part.mean(0)) + 0.1 * i["x"] @ i["W"]
    return h


def heads(i: Inputs) -> Array:
    found = []
    for places in segments(i):
        rows = i["T"][i["idx"][places]]
        least = rows[:, 0].max(0) if len(rows) else np.full(3, 3.0)
        found.append((rows.sum(0) + i["c"]).sum(0) + least)
    return np.stack(found)


def attended(i: Inputs) -> Array:
    found = []
    for places in segments(i):
        total = i["T"][i["idx"][places]].sum(0)
        powers = np.exp(total)
        found.append(powers / powers.sum(-1, keepdims=True) * i["c"])
    return np.stack(found)


def rows_of_bags(i: Inputs) -> list[Array]:
    return [i["T"][i["idx"][places]] for places in segments(i)]


def multiplied(i: Inputs) -> Array:
    return np.stack([part.prod(0) * i["c"] + part.sum(0) for part in rows_of_bags(i)])


def chosen(i: Inputs) -> Array:
    y = np.stack([(i["value"][p, None] * i["X"][i["col"][p]]).sum(0) for p in segments(i)])
    return np.where(y > y.max(0) / 2, y, 0)


def centred(i: Inputs) -> Array:
    mean = i["X"][i["col"]].mean(0)
    return np.stack([(i["value"][p, None] * (i["X"][i["col"][p]] - mean)).sum(0) ** 2 for p in segments(i)])


def softmax_of_rows(i: Inputs) -> Array:
    found = []
    for p in segments(i):
        powers = np.exp(i["value"][p, None] * i["X"][i["col"][p]])
        found.append((powers / powers.sum(0) * i["X"][i["col"][p]]).sum(0))
    return np.stack(found)


def reversed_messages(i: Inputs) -> Array:
    """Yang et al. 2019, D-MPNN: what comes into an edge's source, less what came along its reverse."""
    s = into(i, i["m"] @ i["W"], lambda part: part.sum(0))
    return np.maximum(s[i["src"]] - i["m"][i["rev"]] @ i["W"], 0)


def reversed_data(i: Inputs) -> Array:
    m = i["m"] * i["x"][i["src"]] @ i["W"]
    return into(i, m * m[i["rev"]], lambda part: part.sum(0)) + i["k"][i["sort"]]


def timed(i: Inputs) -> Array:
    rows = i["x"][i["src"]] @ i["W"] + i["T"][i["when"]] * i["k"][i["sort"][i["dst"]]]
    return into(i, np.tanh(rows), lambda part: part.mean(0))


def kinds_of_qualifiers(i: Inputs) -> Array:
    rows = i["R"][i["idx"]] * i["K"][i["kind"][i["idx"]]]
    sums = np.stack([rows[part].sum(0) for part in segments(i)])
    return ((i["E"][i["h"]] + i["C"][i["at"]]) * sums).sum(-1)


def star(i: Inputs) -> Array:
    """Galkin et al. 2020, with a label of each fact: a relation is translated by its qualifiers."""
    q = np.stack([i["R"][i["idx"][p]].sum(0) for p in segments(i)])
    s = np.abs(i["E"][i["h"]] + (i["R"][i["r"]] + q) @ i["W"] - i["E"][i["t"]]).sum(-1)
    return np.logaddexp(0, s) - i["y"] * s + i["y"] * np.array([i["R"][i["idx"][p], 0].sum() for p in segments(i)])


def attended_by_user(i: Inputs) -> Array:
    """A user's attention to what it has taken, as in DIN, and a matrix of its time."""
    found = []
    for owner, p in enumerate(segments(i)):
        rows = i["T"][i["idx"][p]]
        s = i["weight"][p] * (rows @ i["U"][i["u"][owner]])
        mean = (np.exp(s) / np.exp(s).sum() @ rows) if len(p) else np.zeros(3)
        found.append(mean @ i["M"][i["w"][owner]] + i["V"][i["w"][owner]])
    return np.stack(found)


def all_modes(i: Inputs) -> Array:
    """The product of a tensor with the tables of two dimensions, in the rows of the third: of each dimension."""
    u, m, t = i["U"][i["row"]], i["I"][i["col"]], i["T"][i["time"]]
    v = i["value"][:, None]
    of_users, of_items = summed(v * m * t, i["row"], 4), summed(v * u * t, i["col"], 3)
    of_times = summed(v * u * m, i["time"], 4)
    y = of_users[i["row"]] * of_items[i["col"]] * of_times[i["time"]]
    return summed(y, i["time"], 4)


def factorised(i: Inputs) -> Array:
    """What a CP decomposition leaves of each nonzero."""
    return i["value"] - (i["U"][i["row"]] * i["I"][i["col"]] * i["T"][i["time"]]).sum(-1)


def of_the_last(i: Inputs) -> Array:
    rows = i["value"][:, None] * i["A"][i["row"]] * i["B"][i["col"]] * i["C"][i["c"]]
    return (summed(rows, i["d"], 3) * i["E"])[i["d"]]


def along_maps(i: Inputs) -> Array:
    h = summed(i["m"] * i["x"][i["src"]] + i["m"], i["dst"], 5) * summed(i["m"] @ i["W"], i["src"], 5)
    c = summed(i["x"][i["src"]] * i["T"][i["when"]], i["when"], 3)
    third = i["sort"][i["third"]]
    d = summed(i["m"] * i["x"][i["dst"]], third, 3)
    s = summed(i["x"] * i["k"][i["sort"]], i["sort"], 3)
    return h[i["src"]] + c[i["when"]] * d[third] - s[i["sort"][i["dst"]]]


def of_times(i: Inputs) -> Array:
    return summed(i["m"] @ i["W"], i["when"], 3) * i["T"]


def by_rows_and_columns(i: Inputs) -> Array:
    x = i["X"][i["col"]]
    m, n = summed(i["value"][:, None] * x, i["row"], 4), summed(i["P"][i["row"] // 2] * x, i["col"], 3)
    y = m[i["row"]] * n[i["col"]] * i["Q"][i["col"] % 2]
    return summed(y * i["value"][:, None], i["col"], 3)


SET_FORMS = {
    "batch norm": SetForm(
        LAYER,
        NODES.format('"y"', "x[n] @ W")
        + 'mu = mean(n["y"] for n in g.nodes())\nvar = mean((n["y"] - mu) ** 2 for n in g.nodes())\n'
        + NODES.format('"h"', '(n["y"] - mu) / (var + 0.001) ** 0.5')
        + 'return n["h"]',
        normalised,
    ),
    "a scalar beside all of them": SetForm(
        LAYER,
        "t = mean(dot(x[n], q) for n in g.nodes())\nm = max(dot(x[n], q) for n in g.nodes())\n"
        + NODES.format('"h"', "x[n] * (dot(x[n], q) - t + m)")
        + 'return n["h"]',
        lambda i: i["x"] * (i["x"] @ i["q"] - (i["x"] @ i["q"]).mean() + (i["x"] @ i["q"]).max())[:, None],
    ),
    "a value beside all of them": SetForm(
        MATRIX,
        'for z in A.nonzeros():\n    z["d"] = z.value * X[z.col][0]\nfor z in A.nonzeros():\n    A["t"] += z["d"]\n'
        'for z in A.nonzeros():\n    z["y"] = z["d"] - 2 * A["t"]\nreturn z["y"]',
        lambda i: i["value"] * i["X"][i["col"], 0] - 2 * (i["value"] * i["X"][i["col"], 0]).sum(),
    ),
    "semantic attention": SetForm(
        LAYER,
        "w = mean(tanh(x[n] @ W) @ q for n in g.nodes())\n" + NODES.format('"h"', "w * x[n]") + 'return n["h"]',
        lambda i: (np.tanh(i["x"] @ i["W"]) @ i["q"]).mean() * i["x"],
    ),
    "a readout": SetForm(
        LAYER,
        NODES.format('"h"', "relu(mean(x[e.src] @ W for e in n.incoming_edges()))")
        + 'return mean(n["h"] for n in g.nodes()) * q + max(b[e.etype] for e in g.edges())',
        lambda i: (
            np.maximum(into(i, i["x"][i["src"]] @ i["W"], lambda part: part.mean(0)), 0).mean(0, keepdims=True) * i["q"]
            + i["b"][i["etype"]].max(0)
        ),
    ),
    "the largest of all": SetForm(
        LAYER,
        "w = max(x[n] @ W for n in g.nodes())\nv = logsumexp(x[n] @ W for n in g.nodes())\n"
        'for e in g.edges():\n    e["h"] = w * x[e.src] + v * b[e.etype]\nreturn e["h"]',
        lambda i: (i["x"] @ i["W"]).max(0) * i["x"][i["src"]] + logsumexp(i["x"] @ i["W"]) * i["b"][i["etype"]],
    ),
    "logsumexp": SetForm(
        LAYER,
        NODES.format('"h"', "logsumexp(x[e.src] @ W for e in n.incoming_edges())") + 'return n["h"]',
        lambda i: into(i, i["x"][i["src"]] @ i["W"], logsumexp),
    ),
    "a default": SetForm(
        LAYER,
        NODES.format(
            '"h"',
            "max((x[e.src] @ W for e in n.incoming_edges()), default=-1.5)"
            " + min((dot(x[e.src], q) for e in n.incoming_edges()), default=100)"
            " + prod((x[e.src] @ W for e in n.incoming_edges()), default=0.25)",
        )
        + 'return n["h"]',
        lambda i: (
            into(i, i["x"][i["src"]] @ i["W"], lambda part: part.max(0), -1.5)
            + into(i, i["x"][i["src"]] @ i["q"], lambda part: part.min(0), 100.0)[:, None]
            + into(i, i["x"][i["src"]] @ i["W"], lambda part: part.prod(0), 0.25)
        ),
    ),
    "APPNP": SetForm(
        LAYER,
        NODES.format('"h"', "x[n]")
        + "for k in 0..3:\n    for n in g.nodes():\n"
        + '        n["m"] = mean(e.src["h"] for e in n.incoming_edges())\n'
        + '    for n in g.nodes():\n        n["h"] = 0.9 * n["m"] + 0.1 * x[n] @ W\nreturn n["h"]',
        propagated,
    ),
    "heads of a bag": SetForm(
        BAG, "return sum(sum(T[i] for i in l) + c, axis=0) + max((T[i][0] for i in l), default=3)", heads
    ),
    "a product of no rows": SetForm(
        BAG,
        "return prod((T[i] for i in l), default=-2) * c",
        lambda i: np.stack([part.prod(0) if len(part) else np.full((2, 3), -2.0) for part in rows_of_bags(i)]) * i["c"],
    ),
    "how many there are": SetForm(
        LAYER,
        "count = sum(x[n][0] == x[n][0] for n in g.nodes())\n"
        + NODES.format('"h"', "x[n] @ W / count")
        + 'return n["h"]',
        lambda i: i["x"] @ i["W"] / i["num_nodes"],
    ),
    "softmax of a bag": SetForm(BAG, "return softmax(sum(T[i] for i in l)) * c", attended),
    "products of rows": SetForm(BAG, "return prod(T[i] for i in l) * c + sum(T[i] for i in l)", multiplied),
    "products of edges": SetForm(
        LAYER,
        "p = prod(1 + 0.1 * x[n] @ W for n in g.nodes())\n"
        + NODES.format('"h"', "prod(relu(x[e.src] @ W) + 0.1 * b[e.etype] for e in n.incoming_edges()) + p")
        + 'return n["h"]',
        lambda i: (
            into(i, np.maximum(i["x"][i["src"]] @ i["W"], 0) + 0.1 * i["b"][i["etype"]], lambda part: part.prod(0), 1.0)
            + (1 + 0.1 * i["x"] @ i["W"]).prod(0)
        ),
    ),
    "a threshold of all rows": SetForm(
        MATRIX,
        'for i in A.rows():\n    i["y"] = sum(a * X[j] for j, a in A.row(i))\nm = max(i["y"] for i in A.rows())\n'
        'for i in A.rows():\n    i["z"] = where(i["y"] > m / 2, i["y"], 0)\nreturn i["z"]',
        chosen,
    ),
    "reversed edges": SetForm(
        MAPPED,
        NODES.format('"s"', "sum(m[e] @ W for e in n.incoming_edges())")
        + 'for e in g.edges():\n    e["o"] = relu(e.src["s"] - m[e.rev] @ W)\nreturn e["o"]',
        reversed_messages,
    ),
    "data of reversed edges": SetForm(
        MAPPED,
        'for e in g.edges():\n    e["y"] = m[e] * x[e.src] @ W\n'
        + NODES.format('"o"', 'sum(e["y"] * e.rev["y"] for e in n.incoming_edges()) + n.sort.k')
        + 'return n["o"]',
        reversed_data,
    ),
    "times of edges": SetForm(
        MAPPED,
        NODES.format('"o"', "mean(tanh(x[e.src] @ W + T[e.when] * k[n.sort]) for e in n.incoming_edges())")
        + 'return n["o"]',
        timed,
    ),
    "a third node": SetForm(
        MAPPED,
        NODES.format('"y"', "x[n] @ W")
        + 'for e in g.edges():\n    map = e.src["y"]\n    e["o"] = map * e.third["y"] + k[e.third.sort]\nreturn e["o"]',
        lambda i: (i["x"] @ i["W"])[i["src"]] * (i["x"] @ i["W"])[i["third"]] + i["k"][i["sort"][i["third"]]],
    ),
    "softmax of rows": SetForm(
        MATRIX,
        'for z in A.nonzeros():\n    z["s"] = z.value * X[z.col]\nedge_softmax(A, "s")\n'
        'for i in A.rows():\n    i["y"] = sum(z["s"] * X[z] for z in A.row(i))\nreturn i["y"]',
        softmax_of_rows,
    ),
    "a sum of the matrix": SetForm(
        MATRIX,
        'for i in A.rows():\n    for j, a in A.row(i):\n        i["y"] += a * X[j]\n        A["t"] += a * a * X[j]\n'
        'for i in A.rows():\n    i["z"] = i["y"] * A["t"]\nreturn i["z"]',
        lambda i: (
            np.stack([(i["value"][p, None] * i["X"][i["col"][p]]).sum(0) for p in segments(i)])
            * (i["value"][:, None] ** 2 * i["X"][i["col"]]).sum(0)
        ),
    ),
    "ids that are divided": SetForm(
        DIVIDED,
        "return sum(w * (Q[i // M] * R[i % M] + T[i]) for i, w in l) + max(Q[i // M] for i in l)",
        lambda i: np.stack(
            [
                (i["weight"][p, None] * (i["Q"][i["idx"][p] // 2] * i["R"][i["idx"][p] % 2] + i["T"][i["idx"][p]])).sum(
                    0
                )
                + (i["Q"][i["idx"][p] // 2].max(0) if len(p) else 0)
                for p in segments(i)
            ]
        ),
    ),
    "rows and columns that are divided": SetForm(
        DIVIDED_MATRIX,
        "for i in A.rows():\n"
        '    i["y"] = P[i // 2] * sum(a * X[j] * Q[j % 2] * P[i % 2] + P[j // 2 % 2] for j, a in A.row(i))\n'
        'return i["y"]',
        lambda i: np.stack(
            [
                i["P"][row // 2]
                * (
                    (
                        i["value"][:, None] * i["X"][i["col"]] * i["Q"][i["col"] % 2] * i["P"][row % 2]
                        + i["P"][i["col"] // 2 % 2]
                    )[row == i["row"]].sum(0)
                )
                for row in range(4)
            ]
        ),
    ),
    "sums by column": SetForm(
        BY_COLUMN,
        "for j in A.cols():\n    top = max(a * X[i] for i, a in A.col(j))\n"
        '    for i, a in A.col(j):\n        i["s"] = a * X[i] - top + E[i]\n        j["t"] += i["s"]\n'
        'for j in A.cols():\n    j["y"] = j["t"] * Y[j] + mean(z["s"] ** 2 for z in A.col(j))\nreturn j["y"]',
        by_column,
    ),
    "rows that read columns": SetForm(
        BY_COLUMN,
        'for j in A.cols():\n    j["h"] = sum(X[i] for i in A.col(j)) * Y[j]\n'
        'for i in A.rows():\n    i["y"] = sum(a * E[j] * j["h"] for j, a in A.row(i)) + X[i]\nreturn i["y"]',
        there_and_back,
    ),
    "a mean of all nonzeros": SetForm(
        MATRIX,
        "m = mean(X[z.col] for z in A.nonzeros())\n"
        'for i in A.rows():\n    i["y"] = sum(a * (X[j] - m) for j, a in A.row(i)) ** 2\nreturn i["y"]',
        centred,
    ),
    "sums along maps": SetForm(
        MAPPED,
        'for e in g.edges():\n    e.dst["h"] += m[e] * x[e.src]\n    e.src["o"] += m[e] @ W\n    e.dst["h"] += m[e]\n'
        '    e.when["c"] += x[e.src] * T[e.when]\n    e.third.sort["d"] += m[e] * x[e.dst]\n'
        'for n in g.nodes():\n    n["h"] = n["h"] * n["o"]\n    n.sort["s"] += x[n] * k[n.sort]\n'
        'for e in g.edges():\n    e["y"] = e.src["h"] + e.when["c"] * e.third.sort["d"] - e.dst.sort["s"]\n'
        'return e["y"]',
        along_maps,
    ),
    "data of times": SetForm(
        MAPPED, 'for e in g.edges():\n    e.when["c"] += m[e] @ W * T[e.when]\nreturn time["c"]', of_times
    ),
    "sums by rows and columns of coordinates": SetForm(
        DIVIDED_MATRIX,
        'for z in A.nonzeros():\n    z.row["m"] += z.value * X[z.col]\n    z.col["n"] += P[z.row // 2] * X[z.col]\n'
        'for z in A.nonzeros():\n    z["y"] = z.row["m"] * z.col["n"] * Q[z.col % 2]\n'
        '    z.col["t"] += z["y"] * z.value\nreturn col["t"]',
        by_rows_and_columns,
    ),
    "a tensor of three dimensions": SetForm(
        TENSOR,
        "for z in X.nonzeros():\n"
        '    z.user["m"] += z.value * I[z.item] * T[z.time]\n    z.item["m"] += z.value * U[z.user] * T[z.time]\n'
        '    z.time["m"] += z.value * U[z.user] * I[z.item]\n'
        'for z in X.nonzeros():\n    z.time["y"] += z.user["m"] * z.item["m"] * z.time["m"]\n'
        'return time["y"]',
        all_modes,
    ),
    "facts with a bag each": SetForm(
        QUALIFIED,
        "x = R[r] + sum(R[k] for k in q)\ns = norm(E[h] + x @ W - E[t], 1)\n"
        "return softplus(s) - y * s + sum(y * R[k][0] for k in q)",
        star,
    ),
    "what comes with a fact, by the fact's bag": SetForm(
        QUALIFIED,
        "x = R[r] + sum(R[k] for k in q)\ns = norm(E[h] + x @ W - E[t], 1)\n"
        "return softplus(s) - y[q] * s + sum(y[q] * R[k][0] for k in q)",
        star,
    ),
    "maps of a fact with a bag": SetForm(
        QUALIFIED_MAPPED,
        "return dot(E[h] + C[q.at], sum(R[k] * K[k.kind] for k in q))",
        kinds_of_qualifiers,
    ),
    "ids beside a bag": SetForm(
        BESIDE,
        "top = max(v * dot(T[i], U[u]) for i, v in l)\n"
        "z = sum(exp(v * dot(T[i], U[u]) - top) for i, v in l)\n"
        "p = sum(exp(v * dot(T[i], U[u]) - top) / z * T[i] for i, v in l)\n"
        "return p @ M[w] + V[l.w]",
        attended_by_user,
    ),
    "what a decomposition leaves": SetForm(
        TENSOR,
        'for z in X.nonzeros():\n    z["e"] = z.value - sum(U[z.row] * I[z.item] * T[z.time])\nreturn z["e"]',
        factorised,
    ),
    "a tensor of four dimensions": SetForm(
        FOUR,
        'for z in X.nonzeros():\n    z.d["m"] += z.value * A[z.a] * B[z.b] * C[z.c]\n'
        'for z in X.nonzeros():\n    z["y"] = z.d["m"] * E[z.d]\nreturn z["y"]',
        of_the_last,
    ),
    **{name: SetForm(TYPED, body, means) for name, (body, means) in TYPED_BODIES.items()},
    **{name: SetForm(BETWEEN, body, means) for name, (body, means) in BETWEEN_BODIES.items()},
    **{name: SetForm(*form) for name, form in MAPPED_BODIES.items()},
    **{name: SetForm(*form) for name, form in GRAPH_BODIES.items()},
}


def inputs_of(form: SetForm) -> Inputs:
    """The structure, and tensors drawn at random."""
    random = np.random.default_rng(1)
    tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES[form.header].items()}
    return STRUCTURES[form.header]() | tensors
