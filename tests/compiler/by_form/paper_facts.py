"""Scores of papers whose texts take rows of rows, windows, products and choices, with what they mean, as in `facts`."""

from __future__ import annotations

import numpy as np

from tests.compiler.by_form.facts import Array, Fact, Inputs


def box_distance(point: Array, centre: Array, wide: Array) -> Array:
    """Abboud et al. 2020, BoxE, equation 2, of each dimension: slower inside of a box than outside."""
    width = np.abs(wide) + 0.5
    inside = np.abs(point - centre) <= width / 2
    outer = np.abs(point - centre) * (width + 1) - 0.5 * width * (width + 1 - 1 / (width + 1))
    return np.where(inside, np.abs(point - centre) / (width + 1), outer)


def boxe(i: Inputs) -> Array:
    head, tail = (i["E"][i[one]] + i["B"][i[other]] for one, other in ("ht", "th"))
    box = i["C"][i["r"]], i["W"][i["r"]]
    near = box_distance(head, box[0][..., 0, :], box[1][..., 0, :])
    return np.sqrt((near**2).sum(-1)) + box_distance(tail, box[0][..., 1, :], box[1][..., 1, :]).sum(-1)


def hamilton(a: Array, b: Array) -> Array:
    """The product of quaternions, of which each has its four numbers in the last dimension but one."""
    (p, q, r, s), (t, u, v, w) = (np.moveaxis(each, -2, 0) for each in (a, b))
    parts = p * t - q * u - r * v - s * w, p * u + q * t + r * w - s * v
    return np.stack((*parts, p * v - q * w + r * t + s * u, p * w + q * v - r * u + s * t), -2)


def quaternions(i: Inputs) -> Array:
    relation = i["R"][i["r"]]
    unit = relation / np.sqrt((relation**2).sum(-2, keepdims=True) + 0.1)
    return (hamilton(i["E"][i["h"]], unit) * i["E"][i["t"]]).sum((-1, -2))


def circular_windows(i: Inputs) -> Array:
    """Vashishth et al. 2020, InteractE: a convolution that goes around."""
    head, relation = np.broadcast_arrays(i["E"][i["h"]], i["R"][i["r"]])
    row = np.concatenate([head, relation], -1)
    runs = row[..., (np.arange(10)[:, None] + np.arange(3)) % 10]
    found = np.maximum(np.swapaxes(runs @ i["K"], -1, -2), 0)
    return (np.maximum(found.reshape(*found.shape[:-2], 20) @ i["W"], 0) * i["E"][i["t"]]).sum(-1)


def reflections(i: Inputs) -> Array:
    """Chami et al. 2020, in flat space: Householder reflections, one after another."""
    x = np.broadcast_to(i["E"][i["h"]], np.broadcast_shapes(i["E"][i["h"]].shape, i["U"][i["r"]][..., 0, :].shape))
    for u in np.moveaxis(i["U"][i["r"]], -2, 0):
        x = x - 2 * (x * u).sum(-1, keepdims=True) * u / ((u**2).sum(-1, keepdims=True) + 0.1)
    return -((x - i["E"][i["t"]]) ** 2).sum(-1)


IDS = "h: entity, r: relation, t: entity"
QUATERNION = (
    "q = R[r] / sqrt(sum(R[r] * R[r], axis=0) + 0.1)",
    "a = E[h]",
    "x = a[0] * q[0] - a[1] * q[1] - a[2] * q[2] - a[3] * q[3]",
    "i = a[0] * q[1] + a[1] * q[0] + a[2] * q[3] - a[3] * q[2]",
    "j = a[0] * q[2] - a[1] * q[3] + a[2] * q[0] + a[3] * q[1]",
    "k = a[0] * q[3] + a[1] * q[2] - a[2] * q[1] + a[3] * q[0]",
    "return sum(sum(stack([x, i, j, k], axis=0) * E[t]))",
)

PAPER_FACTS = {
    "boxes": Fact(
        IDS,
        {"E": ("entity", 3), "B": ("entity", 3), "C": ("relation", 2, 3), "W": ("relation", 2, 3)},
        "w = abs(W[r]) + 0.5\n"
        "d = abs(stack([E[h] + B[t], E[t] + B[h]], axis=0) - C[r])\n"
        "d = where(d <= w / 2, d / (w + 1), d * (w + 1) - 0.5 * w * (w + 1 - 1 / (w + 1)))\n"
        "return norm(d[0], 2) + sum(d[1])",
        boxe,
        ("h", "t"),
    ),
    "quaternions": Fact(
        IDS,
        {"E": ("entity", 4, 3), "R": ("relation", 4, 3)},
        "\n".join(QUATERNION),
        quaternions,
        ("h", "t"),
    ),
    "circular windows": Fact(
        IDS,
        {"E": ("entity", 5), "R": ("relation", 5), "K": (3, 2), "W": (20, 5)},
        "x = concat([E[h], R[r]])\n"
        "z = relu(windows(concat([x, x[:2]]), 3) @ K)\n"
        "return dot(relu(reshape(z.T, 20) @ W), E[t])",
        circular_windows,
        ("h", "t"),
    ),
    "reflections": Fact(
        IDS,
        {"E": ("entity", 5), "U": ("relation", 3, 5)},
        "x = E[h]\n"
        "for k in 0..3:\n"
        "    u = U[r][k]\n"
        "    x = x - 2 * dot(x, u) / (dot(u, u) + 0.1) * u\n"
        "return -sum((x - E[t]) ** 2)",
        reflections,
        ("h", "t"),
    ),
}
