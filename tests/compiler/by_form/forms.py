"""Scores that use one form of the language each, with what it means: NumPy in float64, written from the mathematics.

An oracle takes the tensors' rows of a batch: `h`, `t` and `r` of E and R, `P` of a relation, the shared w, M and gamma.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as Rows
from typing import Any, NamedTuple

import numpy as np

HEADER = """dim D = 6, K = D // 2, H = 2
score Form(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], P[relation, H, D]
    param w[K, D], M[K, D, D], gamma
"""
Array = Any


class Form(NamedTuple):
    """Lines of a body, and the scores that they give."""

    body: str
    means: Callable[[Rows], Array]

    @property
    def text(self) -> str:
        return HEADER + "".join(f"    {line}\n" for line in self.body.split("\n"))


def rows_of(inputs: dict[str, Array]) -> Rows:
    """The rows of a batch, in float64."""
    tensors = {name: np.asarray(array, np.float64) for name, array in inputs.items() if name not in "hrt"}
    E, R, P = (tensors[name] for name in "ERP")
    h, r, t = (inputs[name] for name in "hrt")
    return Rows(h=E[h], t=E[t], r=R[r], P=P[r], w=tensors["w"], M=tensors["M"], gamma=tensors["gamma"][0])


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def layers(x: Array, matrices: Array) -> Array:
    for matrix in matrices:
        x = np.tanh(x @ matrix)
    return x


def correlation(a: Array, b: Array) -> Array:
    """Element k is the sum of a[i] b[(i + k) mod D]."""
    count = a.shape[-1]
    return np.stack(
        [sum(a[:, i] * b[:, (i + k) % count] for i in range(count)) for k in range(count)],
        axis=-1,
    )


FORMS = {
    "einsum with a stack": Form(
        'x = einsum("d,kde->ke", E[h], M)\nreturn einsum("ke,ke,e->", x, w, E[t]) + gamma',
        lambda i: np.einsum("bd,kde,ke,be->b", i.h, i.M, i.w, i.t) + i.gamma,
    ),
    "Tucker by einsum": Form(
        'return einsum("kab,a,b,k->", M, E[h], E[t], R[r][:K])',
        lambda i: np.einsum("kac,ba,bc,bk->b", i.M, i.h, i.t, i.r[:, :3]),
    ),
    "einsum of one value": Form(
        'x = einsum("hd->dh", P[r])\ny = einsum("kde->edk", tanh(M))\n'
        'return einsum("dh,d->", x, E[h]) + dot(einsum("edk->d", y), E[t]) + einsum("a,b->", E[t], w[0])',
        lambda i: np.einsum("bhd,bd->b", i.P, i.h) + i.t @ np.tanh(i.M).sum((0, 2)) + np.einsum("ba,c->b", i.t, i.w[0]),
    ),
    "heads by einsum": Form(
        'x = einsum("hd,kde->hke", P[r], M)\ny = einsum("d,e -> ed", E[h], E[t])\n'
        'return sum(softmax(einsum("hke,ed->kdh", x, y)) * w[0][0], axis=0)[1, 0]',
        lambda i: softmax(np.einsum("bhd,kde,ba,be->bkah", i.P, i.M, i.h, i.t)).sum(1)[:, 1, 0] * i.w[0, 0],
    ),
    "a stack of layers": Form(
        "x = E[h]\nfor k in 0..K:\n    x = tanh(x @ M[k])\nreturn dot(x, E[t])",
        lambda i: (layers(i.h, i.M) * i.t).sum(-1),
    ),
    "a loop that sums": Form(
        "s = gamma\nfor k in range(1, K):\n    for j in 0..2:\n        s += (k - j) * E[h][k] * w[j, k]\n"
        "return s * sum(E[t])",
        lambda i: (i.gamma + sum((k - j) * i.h[:, k] * i.w[j, k] for k in range(1, 3) for j in range(2))) * i.t.sum(-1),
    ),
    "comprehensions over numbers": Form(
        "return max(E[h][k] * k for k in 0..K) + mean(R[r][k] for k in 0..K) + prod(R[r][k] + 1 for k in 0..K)"
        " + min(E[t][k] for k in range(0, D, 2))",
        lambda i: (
            np.max([i.h[:, k] * k for k in range(3)], 0)
            + i.r[:, :3].mean(-1)
            + (i.r[:, :3] + 1).prod(-1)
            + i.t[:, ::2].min(-1)
        ),
    ),
    "elements": Form(
        "return dot(P[r][1], E[t]) + P[r, 0, 2] * w[-1, 1] + sum(M[1][2] * E[h])",
        lambda i: (i.P[:, 1] * i.t).sum(-1) + i.P[:, 0, 2] * i.w[2, 1] + (i.M[1, 2] * i.h).sum(-1),
    ),
    "comparisons": Form(
        "return sum((E[h] > 0) * R[r] * E[t]) + gamma * sum((E[h] <= R[r]) + (E[t] != R[r]) * (E[t] == E[t]))",
        lambda i: (
            ((i.h > 0) * i.r * i.t).sum(-1) + i.gamma * ((i.h <= i.r) * 1.0 + (i.t != i.r) * (i.t == i.t)).sum(-1)
        ),
    ),
    "a choice": Form(
        "return sum(where(E[h] > 0, R[r], log(E[t] * E[t])))"
        " + where(gamma >= 100, 1 / (floor(gamma) - floor(gamma)), E[h][0])",
        lambda i: np.where(i.h > 0, i.r, np.log(i.t * i.t)).sum(-1) + i.h[:, 0],
    ),
    "powers": Form(
        "return sum((E[h] + R[r] - E[t]) ** 3) + sum((E[h] ** 2 + 0.25) ** 0.5) + sum((abs(R[r]) + 0.5) ** -2)"
        " + sum(pow(abs(E[t]) + 0.5, 1.5)) - sum(-R[r] ** 2) * 2 ** -1",
        lambda i: (
            ((i.h + i.r - i.t) ** 3).sum(-1)
            + np.sqrt(i.h**2 + 0.25).sum(-1)
            + ((np.abs(i.r) + 0.5) ** -2).sum(-1)
            + ((np.abs(i.t) + 0.5) ** 1.5).sum(-1)
            + 0.5 * (i.r**2).sum(-1)
        ),
    ),
    "a polynomial": Form(  # at 0 as well, with its slope
        "x = relu(E[h])\nreturn sum(sum(w[k, 1] * x ** k for k in 0..3)) + sum(pow(R[r], 0) * E[t])",
        lambda i: sum(i.w[k, 1] * np.maximum(i.h, 0) ** k for k in range(3)).sum(-1) + i.t.sum(-1),
    ),
    "TorusE": Form(
        "x = E[h] + R[r] - E[t]\nf = x - floor(x)\nreturn sum(min(f, 1 - f))",
        lambda i: np.abs(i.h + i.r - i.t - np.round(i.h + i.r - i.t)).sum(-1),
    ),
    "axes": Form(
        "return dot(sum(P[r], axis=0), E[t]) + sum(max(P[r], axis=0)) + norm(M[1], 1, axis=0)[2]"
        " + dot(mean(P[r], 0), E[h]) + sum(sum(M, axis=1))[1] + sum(logsumexp(P[r], axis=0) * R[r])",
        lambda i: (
            (i.P.sum(1) * i.t).sum(-1)
            + i.P.max(1).sum(-1)
            + np.abs(i.M[1, :, 2]).sum()
            + (i.P.mean(1) * i.h).sum(-1)
            + i.M[1].sum()
            + (np.log(np.exp(i.P).sum(1)) * i.r).sum(-1)
        ),
    ),
    "a bias on heads": Form(
        "return sum(sum((P[r] + E[t]) * E[h] / (1 + abs(R[r]))))",
        lambda i: ((i.P + i.t[:, None]) * i.h[:, None] / (1 + np.abs(i.r[:, None]))).sum((1, 2)),
    ),
    "softmax": Form(
        "return dot(softmax(E[h]), R[r]) + logsumexp(E[t]) + sum(sum(softmax(P[r], axis=0) * P[r]))",
        lambda i: (softmax(i.h) * i.r).sum(-1) + np.log(np.exp(i.t).sum(-1)) + (softmax(i.P, 1) * i.P).sum((1, 2)),
    ),
    "stack and concat": Form(
        "x = stack([E[h], E[t], R[r]])\ny = concat([P[r], x], axis=0)\nz = stack(E[t][k] for k in 0..H)\n"
        "return sum(x[1] * y[4]) + dot(stack([E[h], R[r]], axis=1) @ z, E[t])",
        lambda i: (i.t * i.r).sum(-1) + ((i.h * i.t[:, :1] + i.r * i.t[:, 1:2]) * i.t).sum(-1),
    ),
    "turned": Form(
        "return sum(roll(E[h], 2) * R[r]) + sum(E[t][::-1] * R[r]) + sum(E[h][::2] * w[0][1:4])"
        " + sum(E[t][4:0:-2] * R[r][:2]) + dot(P[r][::-1] @ E[h], sum(P[r]))",
        lambda i: (
            (np.roll(i.h, 2, -1) * i.r).sum(-1)
            + (i.t[:, ::-1] * i.r).sum(-1)
            + (i.h[:, ::2] * i.w[0, 1:4]).sum(-1)
            + (i.t[:, 4:0:-2] * i.r[:, :2]).sum(-1)
            + ((i.P[:, :, ::-1] * i.h[:, None]).sum(-1) * i.P.sum(-1)).sum(-1)
        ),
    ),
    "long": Form(
        "x = concat([E[h], E[t], R[r], E[h], E[t], R[r]])\ny = x[::-1]\nz = windows(x, 33)\n"
        "return sum(y[:6] * E[h]) + sum(y[6:12] * P[r][0]) + sum(z[2][:6] * R[r]) + z[3, 32] * E[t][0]",
        lambda i: (
            (i.r[:, ::-1] * i.h).sum(-1)
            + (i.t[:, ::-1] * i.P[:, 0]).sum(-1)
            + (i.h[:, 2:] * i.r[:, :4]).sum(-1)
            + (i.t[:, :2] * i.r[:, 4:]).sum(-1)
            + i.r[:, 5] * i.t[:, 0]
        ),
    ),
    "HolE": Form("return dot(R[r], ccorr(E[h], E[t]))", lambda i: (i.r * correlation(i.h, i.t)).sum(-1)),
    "HolE by rolls": Form(
        "return sum(R[r][k] * dot(E[h], roll(E[t], -k)) for k in 0..D)",
        lambda i: (i.r * correlation(i.h, i.t)).sum(-1),
    ),
    "a convolution": Form(
        "return dot(windows(E[h], 3) @ w[0][:3], R[r][:4]) + sum(circulant(E[t])[2] * R[r])",
        lambda i: (
            sum((i.h[:, k : k + 3] * i.w[0, :3]).sum(-1) * i.r[:, k] for k in range(4))
            + (np.roll(i.t, -2, -1) * i.r).sum(-1)
        ),
    ),
    "products": Form(
        "return prod(E[h]) + dot(prod(P[r], axis=0), E[t]) + prod(relu(R[r][:3])) * gamma",
        lambda i: i.h.prod(-1) + (i.P.prod(1) * i.t).sum(-1) + np.maximum(i.r[:, :3], 0).prod(-1) * i.gamma,
    ),
    "a margin": Form(
        "return gamma - norm(E[h] + R[r] - E[t], 1)",
        lambda i: i.gamma - np.abs(i.h + i.r - i.t).sum(-1),
    ),
}
