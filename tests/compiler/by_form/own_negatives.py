"""Scores with a set of negatives of their own, with what they mean: NumPy in float64, written from the mathematics."""

from __future__ import annotations

import numpy as np

from tests.compiler.by_form.facts import Array, Fact, Inputs, norm1

TRIPLE = "h: entity, r: relation, t: entity, n: negatives of entity"
DISTANCE = "norm(E[h] + R[r] - E[{}], 1)"
TABLES = {"E": ("entity", 5), "R": ("relation", 5)}


def distances(i: Inputs) -> tuple[Array, Array]:
    """Of each fact, [facts], and of each of its negatives, [facts, negatives]."""
    x = i["E"][i["h"]] + i["R"][i["r"]]
    return norm1(x - i["E"][i["t"]]), norm1(x[:, None] - i["E"][i["n"]])


def products(i: Inputs) -> tuple[Array, Array]:
    """The same of DistMult."""
    x = i["E"][i["h"]] * i["R"][i["r"]]
    return (x * i["E"][i["t"]]).sum(-1), (x[:, None] * i["E"][i["n"]]).sum(-1)


def logsumexp(x: Array) -> Array:
    return np.log(np.exp(x).sum(1))


def weighted(i: Inputs) -> Array:
    """RotatE's loss (Sun et al. 2019, equation 5) with the weights as they are differentiated."""
    near, far = distances(i)
    p = np.exp(-far) / np.exp(-far).sum(1, keepdims=True)
    return np.logaddexp(0, near - 2) + (p * np.logaddexp(0, 2 - far)).sum(1)


def cross_entropy(i: Inputs) -> Array:
    near, far = products(i)
    return np.logaddexp(near, logsumexp(far)) - near


def of_matrices(i: Inputs) -> Array:
    far = np.einsum("ba,bac,bnc->bn", i["E"][i["h"]], i["M"][i["r"]], i["E"][i["n"]])
    near = np.einsum("ba,bac,bc->b", i["E"][i["h"]], i["M"][i["r"]], i["E"][i["t"]])
    return np.maximum(1 + far - near[:, None], 0).mean(1)


def centred(i: Inputs) -> Array:
    rows = i["E"][i["n"]]
    return np.linalg.norm(i["E"][i["h"]] - rows.mean(1), axis=-1) + (rows.max(1) * rows.min(1)).sum(-1)


def of_labels(i: Inputs) -> Array:
    return (i["y"][:, None] * i["b"][i["n"]] + i["y"][:, None] ** 2).sum(1) + i["c"]


def typed(i: Inputs) -> Array:
    """A margin to negatives, with a row of each entity's type."""
    head, far = i["K"][i["kind"][i["h"]]], i["K"][i["kind"][i["n"]]]
    near = norm1(i["E"][i["h"]] + head + i["R"][i["r"]] - i["E"][i["t"]])
    return np.maximum(0, 1 + near[:, None] - norm1((i["E"][i["h"]] + i["R"][i["r"]])[:, None] + far)).sum(1)


def crossed(i: Inputs) -> Array:
    h, r, t, n = i["h"], i["r"], i["t"], i["n"]
    near = (i["E"][h] * i["C"][(3 * h + 2 * t - r) % 7]).sum(-1)
    h, r = h[:, None], r[:, None]
    far = i["E"][n] * i["R"][r] * (i["C"][(3 * h + 2 * n - r) % 7] + i["S"][n + h])
    return np.maximum(1 + near[:, None] - far.sum(-1), 0).sum(1)


def two_sets(i: Inputs) -> Array:
    far = norm1((i["E"][i["h"]] + i["R"][i["r"]])[:, None] - i["E"][i["n"]])
    other = norm1((i["E"][i["h"]] - i["E"][i["t"]])[:, None] + i["R"][i["m"]])
    return far.min(1) + other.max(1)


OWN_NEGATIVES = {
    "logsumexp of negatives": Fact(
        TRIPLE,
        TABLES,
        f"return logsumexp(-{DISTANCE.format('k')} for k in n)",
        lambda i: logsumexp(-distances(i)[1]),
        ("h", "t"),
    ),
    "a margin of each": Fact(
        TRIPLE,
        TABLES,
        f"s = {DISTANCE.format('t')}\nreturn sum(relu(1 + s - {DISTANCE.format('k')}) for k in n)",
        lambda i: np.maximum(1 + distances(i)[0][:, None] - distances(i)[1], 0).sum(1),
        ("h", "t"),
    ),
    "weighted by a softmax": Fact(
        TRIPLE,
        TABLES,
        f"z = logsumexp(-{DISTANCE.format('k')} for k in n)\n"
        f"far = sum(exp(-{DISTANCE.format('k')} - z) * softplus(2 - {DISTANCE.format('k')}) for k in n)\n"
        f"return softplus({DISTANCE.format('t')} - 2) + far",
        weighted,
        ("h", "t"),
    ),
    "cross-entropy": Fact(
        TRIPLE,
        TABLES,
        "near = dot(E[h] * R[r], E[t])\nz = logsumexp(dot(E[h] * R[r], E[k]) for k in n)\nreturn softplus(z - near)",
        cross_entropy,
        ("h", "t"),
    ),
    "the hardest": Fact(
        TRIPLE,
        TABLES,
        "return max(dot(E[h] * R[r], E[k]) for k in n) - dot(E[h] * R[r], E[t])",
        lambda i: products(i)[1].max(1) - products(i)[0],
        ("h", "t"),
    ),
    "matrices": Fact(
        TRIPLE,
        {"E": ("entity", 5), "M": ("relation", 5, 5)},
        "near = dot(E[h] @ M[r], E[t])\nreturn mean(relu(1 + dot(E[h] @ M[r], E[k]) - near) for k in n)",
        of_matrices,
        ("h", "t"),
    ),
    "matrices of negatives": Fact(
        TRIPLE,
        {"E": ("entity", 5), "M": ("relation", 5, 5)},
        "near = dot(E[h] @ M[r], E[t])\nreturn mean(relu(1 + dot(E[h], M[r] @ E[k]) - near) for k in n)",
        of_matrices,
        ("h", "t"),
    ),
    "types of negatives": Fact(
        TRIPLE,
        {**TABLES, "K": ("type", 5)},
        "near = norm(E[h] + K[h.kind] + R[r] - E[t], 1)\n"
        "return sum(relu(1 + near - norm(E[h] + R[r] + K[k.kind], 1)) for k in n)",
        typed,
        ("h", "t"),
        {"kind": ("entity", "type")},
    ),
    "crossed ids of negatives": Fact(
        TRIPLE,
        {**TABLES, "C": ("cross", 5), "S": ("either", 5)},
        "near = dot(E[h], C[(3 * h + 2 * t - r) % 7])\n"
        "return sum(relu(1 + near - dot(E[k] * R[r], C[(3 * h + 2 * k - r) % 7] + S[k + h])) for k in n)",
        crossed,
        ("h", "t"),
    ),
    "vectors": Fact(
        "h: entity, n: negatives of entity",
        {"E": ("entity", 5)},
        "return norm(E[h] - mean(E[k] for k in n)) + dot(max(E[k] for k in n), min(E[k] for k in n))",
        centred,
        ("h", "h"),
    ),
    "products of negatives": Fact(
        "h: entity, n: negatives of entity",
        {"E": ("entity", 5)},
        "return sum(prod(E[k] for k in n) * E[h])",
        lambda i: (i["E"][i["n"]].prod(1) * i["E"][i["h"]]).sum(-1),
        ("h", "h"),
    ),
    "labels, and what no negative tells": Fact(
        "h: entity, n: negatives of entity",
        {"b": ("entity",), "c": ("batch",), "y": ("batch",)},
        "return sum(y * b[k] for k in n) + sum(y * y for k in n) + c",
        of_labels,
        ("h", "h"),
    ),
    "two sets": Fact(
        "h: entity, n: negatives of entity, r: relation, t: entity, m: negatives of relation",
        TABLES,
        "return min(norm(E[h] + R[r] - E[k], 1) for k in n) + max(norm(E[h] - E[t] + R[k], 1) for k in m)",
        two_sets,
        ("h", "t"),
    ),
    "how many": Fact(
        "h: entity, n: negatives of entity",
        {"b": ("entity",)},
        "return b[h] * sum(1 for k in n) + b[h] * sum(b[h] for k in n)",
        lambda i: i["b"][i["h"]] * i["n"].shape[1] * (1 + i["b"][i["h"]]),
        ("h", "h"),
    ),
}
