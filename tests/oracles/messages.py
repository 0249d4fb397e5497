"""DGL's message functions and reductions, edge by edge in float64, with the derivatives of each as one writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rows = dict[str, Array]
"""By letter what sources (u), edges (e) and targets (v) have, [n, D]."""


def messages(name: str, rows: Rows, source: Array, target: Array) -> Array:
    """Of each edge, [edges, D], or [edges] of a dot product."""
    of = {"u": source, "e": np.arange(len(source)), "v": target}
    if name.startswith("copy"):
        return rows[name[-1]][of[name[-1]]].astype(float)
    a, b = (rows[letter][of[letter]].astype(float) for letter in (name[0], name[-1]))
    found = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
    return found[name[2:-2]] if name[2:-2] in found else np.array([x @ y for x, y in zip(a, b, strict=True)])


def reduced(reduce: str, every: Array, target: Array, targets: int) -> Array:
    """Of each target over its in-edges; 0 where there are none."""
    out = np.zeros((targets, *every.shape[1:]))
    for v in range(targets):
        if len(own := every[target == v]):
            out[v] = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[reduce](own, axis=0)
    return out


def reduced_slopes(reduce: str, every: Array, target: Array, upstream: Array) -> Array:
    """Of each edge's message, of the gradient of what `reduced` gives; what is equally extreme shares it."""
    slopes = np.zeros_like(every)
    for v in range(len(upstream)):
        own = every[target == v]
        if reduce in ("max", "min") and len(own):
            taken = own == (own.max(axis=0) if reduce == "max" else own.min(axis=0))
            slopes[target == v] = taken / taken.sum(axis=0) * upstream[v]
        elif len(own):
            slopes[target == v] = upstream[v] / (len(own) if reduce == "mean" else 1)
    return slopes


def message_slopes(name: str, rows: Rows, source: Array, target: Array, slopes: Array) -> Rows:
    """By letter, of the gradient of each edge's message."""
    of = {"u": source, "e": np.arange(len(source)), "v": target}
    if name.startswith("copy"):
        parts = {name[-1]: slopes}
    else:
        a, b = (rows[letter][of[letter]].astype(float) for letter in (name[0], name[-1]))
        slopes = slopes[:, None] if name[2:-2] == "dot" else slopes
        by_a, by_b = {
            "add": (slopes, slopes),
            "sub": (slopes, -slopes),
            "mul": (slopes * b, slopes * a),
            "dot": (slopes * b, slopes * a),
            "div": (slopes / b, -slopes * a / b**2),
        }[name[2:-2]]
        parts = {name[0]: by_a, name[-1]: by_b}
    found = {}
    for letter, part in parts.items():
        found[letter] = np.zeros(rows[letter].shape)
        np.add.at(found[letter], of[letter], part)
    return found
