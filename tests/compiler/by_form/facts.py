"""Scores of ids over sets that a text names, with what they mean: NumPy in float64, written from the mathematics.

An oracle takes the inputs by name, tensors in float64; where negatives corrupt ids, which are [batch, count], the
others are [batch, 1]. Where chunks of facts share their negatives, the inputs have a list for each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Array = Any
Inputs = dict[str, Any]
COUNTS = {"entity": 6, "relation": 3, "time": 4, "user": 5, "item": 7, "quotient": 3, "remainder": 2, "half": 2}
COUNTS |= {"type": 3, "group": 2, "pair": 2, "hash": 4, "shifted": 7}
COUNTS |= {"either": 11, "cross": 7, "couple": 18, "multiplied": 11, "sorted": 8, "apart": 5}
BATCH = 4
OWN = 3
"""How many a set of negatives has, where the header has one."""


class Fact(NamedTuple):
    """A score's lines behind its header, and the scores that they give."""

    header: str
    tensors: Mapping[str, tuple[str | int, ...]]  # sets and numbers; those over the batch are given, others learnt
    body: str
    means: Callable[[Inputs], Array]
    ends: tuple[str, str]  # the ids that negatives of the head and of the tail replace
    maps: Mapping[str, tuple[str, str]] = MappingProxyType({})  # that the text declares: from which set to which

    @property
    def learnt(self) -> tuple[str, ...]:
        return tuple(name for name, extents in self.tensors.items() if "batch" not in extents)

    @property
    def ids(self) -> dict[str, str]:
        """The set of each id, in the header's order."""
        return dict(part.split(": ") for part in self.header.split(", "))

    @property
    def text(self) -> str:
        """The whole model."""
        lines = [f"score Fact({self.header}):"]
        for name, extents in self.tensors.items():
            lines.append(f"{'param' if name in self.learnt else 'input'} {name}[{', '.join(map(str, extents))}]")
        lines += [f"map {name}: {domain} -> {codomain}" for name, (domain, codomain) in self.maps.items()]
        return "\n    ".join((*lines, *self.body.split("\n"))) + "\n"


def inputs_of(fact: Fact, negatives: str = "none") -> Inputs:
    """Ids and tensors, the same on every call."""
    random = np.random.default_rng(3)
    inputs: Inputs = {}
    end, _, numbers = negatives.partition(":")
    count, _, sharing = numbers.partition("/")
    lists = -(-BATCH // int(sharing or 1))
    for name, index_set in fact.ids.items():
        corrupted = end in ("head", "tail") and name == fact.ends[("head", "tail").index(end)]
        shape = (lists, int(count)) if corrupted else (BATCH,)
        if index_set.startswith("negatives of "):
            shape = (lists, OWN)
        inputs[name] = random.integers(0, COUNTS[index_set.split()[-1]], shape).astype(np.int32)
    for name, (domain, codomain) in fact.maps.items():
        inputs[name] = random.integers(0, COUNTS[codomain], COUNTS[domain]).astype(np.int32)
    for name, extents in fact.tensors.items():
        shape = tuple({**COUNTS, "batch": BATCH}.get(each, each) for each in extents)
        inputs[name] = random.normal(size=shape).astype(np.float32)
    return inputs


def exact(fact: Fact, inputs: Inputs, negatives: str) -> Inputs:
    """What an oracle takes: of each fact, the ids of its chunk."""
    column = negatives.startswith(("head", "tail"))
    sharing = int(negatives.partition("/")[2] or 1)
    given = {name: np.asarray(array, np.float64) for name, array in inputs.items() if name in fact.tensors}
    ids = {name: inputs[name] for name in fact.ids}
    ids = {name: each.repeat(sharing, axis=0)[:BATCH] if each.ndim == 2 else each for name, each in ids.items()}
    given |= {name: given[name][:, None] for name in given if column and name not in fact.learnt}
    given |= {name: inputs[name] for name in fact.maps}
    return given | {name: each[:, None] if column and each.ndim == 1 else each for name, each in ids.items()}


def norm1(x: Array) -> Array:
    return np.abs(x).sum(-1)


def tcomplex(i: Inputs) -> Array:
    """The real part of a product of complex numbers, Lacroix et al. 2020."""
    h, r, t, w = (i[table][i[name]] for table, name in (("E", "h"), ("R", "r"), ("E", "t"), ("T", "w")))
    h, r, t, w = (x[..., :3] + 1j * x[..., 3:] for x in (h, r, t, w))
    return (h * r * w * np.conj(t)).sum(-1).real


def typed(i: Inputs) -> Array:
    """TransE with a row of each entity's type, and how the types of both ends go together."""
    head, tail = i["kind"][i["h"]], i["kind"][i["t"]]
    moved = i["E"][i["h"]] + i["K"][head] + i["R"][i["r"]] - i["E"][i["t"]] - i["K"][tail]
    return norm1(moved) + (i["K"][head] * i["K"][tail]).sum(-1)


def up(i: Inputs, steps: int = 1) -> Array:
    """The row of what lies so many steps above a head."""
    ids = i["h"]
    for _ in range(steps):
        ids = i["up"][ids]
    return i["E"][ids]


def cross_entropy(i: Inputs) -> Array:
    s = (i["E"][i["h"]] * i["R"][i["r"]] * i["E"][i["t"]]).sum(-1)
    return np.logaddexp(0, s) - i["y"] * s


FACTS = {
    "temporal": Fact(
        "h: entity, r: relation, t: entity, w: time",
        {"E": ("entity", 5), "R": ("relation", 5), "T": ("time", 5)},
        "return norm(E[h] + R[r] + T[w] - E[t], 1)",
        lambda i: norm1(i["E"][i["h"]] + i["R"][i["r"]] + i["T"][i["w"]] - i["E"][i["t"]]),
        ("h", "t"),
    ),
    "temporal complex": Fact(
        "h: entity, r: relation, t: entity, w: time",
        {"E": ("entity", 6), "R": ("relation", 6), "T": ("time", 6)},
        "a = R[r][:3] * T[w][:3] - R[r][3:] * T[w][3:]\n"
        "b = R[r][:3] * T[w][3:] + R[r][3:] * T[w][:3]\n"
        "x = E[h][:3] * a - E[h][3:] * b\n"
        "y = E[h][:3] * b + E[h][3:] * a\n"
        "return dot(x, E[t][:3]) + dot(y, E[t][3:])",
        tcomplex,
        ("h", "t"),
    ),
    "hashed ids": Fact(
        "h: entity, r: relation, t: entity",
        {"Q": ("quotient", 5), "M": ("remainder", 5), "R": ("relation", 5)},
        "x = Q[h // 2] * M[h % 2]\nreturn sum(x * R[r] * Q[t // 2] * M[t % 2])",
        lambda i: (
            i["Q"][i["h"] // 2] * i["M"][i["h"] % 2] * i["R"][i["r"]] * i["Q"][i["t"] // 2] * i["M"][i["t"] % 2]
        ).sum(-1),
        ("h", "t"),
    ),
    "multiplied and added ids": Fact(
        "h: entity, r: relation, t: entity",
        {"Q": ("hash", 5), "R": ("relation", 5), "S": ("shifted", 5)},
        "return sum(Q[(40503 * h + 11) % 4] * R[r] * Q[(40503 * t + 11) % 4] * S[t + 1])",
        lambda i: (
            i["Q"][(40503 * i["h"] + 11) % 4] * i["R"][i["r"]] * i["Q"][(40503 * i["t"] + 11) % 4] * i["S"][i["t"] + 1]
        ).sum(-1),
        ("h", "t"),
    ),
    "crossed ids": Fact(
        "h: entity, r: relation, t: entity",
        {"E": ("entity", 5), "S": ("either", 5), "C": ("cross", 5), "P": ("couple", 5), "M": ("multiplied",)},
        "x = S[h + t] * C[(2654435761 * h + 40503 * t - 31 * r + 5) % 7] + C[(h - t) // 2 % 7] * E[t]\n"
        "return M[h * r] * dot(x, P[h * 3 + r])",
        lambda i: (
            i["M"][i["h"] * i["r"]]
            * (
                (
                    i["S"][i["h"] + i["t"]]
                    * i["C"][(2654435761 * i["h"].astype(np.int64) + 40503 * i["t"] - 31 * i["r"] + 5) % 7]
                    + i["C"][np.floor_divide(i["h"] - i["t"], 2) % 7] * i["E"][i["t"]]
                )
                * i["P"][i["h"] * 3 + i["r"]]
            ).sum(-1)
        ),
        ("h", "t"),
    ),
    "crossed maps": Fact(
        "h: entity, r: relation, t: entity",
        {"S": ("either", 5), "K": ("sorted", 5), "A": ("apart", "relation", 5)},
        "return dot(S[t + h] * K[h.kind + t], A[(t.kind - 2 * (h + 1)) % 5, r])",
        lambda i: (
            i["S"][i["t"] + i["h"]]
            * i["K"][i["kind"][i["h"]] + i["t"]]
            * i["A"][(i["kind"][i["t"]] - 2 * (i["h"] + 1)) % 5, i["r"]]
        ).sum(-1),
        ("h", "t"),
        {"kind": ("entity", "type")},
    ),
    "halves of times": Fact(
        "h: entity, r: relation, t: entity, w: time",
        {"E": ("entity", 5), "R": ("relation", 5), "T": ("half", 5), "M": ("remainder", 5), "Q": ("quotient",)},
        "return norm(E[h] + R[r] * M[w % 2] + T[w // 2] - E[t], 1) + Q[t // 2]",
        lambda i: (
            norm1(i["E"][i["h"]] + i["R"][i["r"]] * i["M"][i["w"] % 2] + i["T"][i["w"] // 2] - i["E"][i["t"]])
            + i["Q"][i["t"] // 2]
        ),
        ("h", "t"),
    ),
    "a row of each fact": Fact(
        "h: entity, r: relation, t: entity",
        {"E": ("entity", 5), "R": ("relation", 5), "b": (5,)},
        "return tanh(E[h] * R[r] + b) - E[t]",
        lambda i: np.tanh(i["E"][i["h"]] * i["R"][i["r"]] + i["b"]) - i["E"][i["t"]],
        ("h", "t"),
    ),
    "a matrix of each fact": Fact(
        "h: entity, r: relation, t: entity",
        {"E": ("entity", 5), "W": ("relation", 5, 3)},
        "return stack([E[h] @ W[r], E[t] @ W[r]], axis=0)",
        lambda i: np.stack(
            np.broadcast_arrays(
                np.einsum("...d,...de->...e", i["E"][i["h"]], i["W"][i["r"]]),
                np.einsum("...d,...de->...e", i["E"][i["t"]], i["W"][i["r"]]),
            ),
            axis=-2,
        ),
        ("h", "t"),
    ),
    "n-ary": Fact(
        "r: relation, a: entity, b: entity, c: entity",
        {"E": ("entity", 5), "R": ("relation", 5)},
        "return sum(R[r] * E[a] * E[b] * E[c])",
        lambda i: (i["R"][i["r"]] * i["E"][i["a"]] * i["E"][i["b"]] * i["E"][i["c"]]).sum(-1),
        ("a", "c"),
    ),
    "a pairwise loss": Fact(
        "u: user, i: item, j: item",
        {"U": ("user", 4), "I": ("item", 4), "b": ("item",)},
        "return softplus(dot(U[u], I[j] - I[i]) + b[j] - b[i])",
        lambda x: np.logaddexp(
            0,
            (x["U"][x["u"]] * (x["I"][x["j"]] - x["I"][x["i"]])).sum(-1) + x["b"][x["j"]] - x["b"][x["i"]],
        ),
        ("u", "j"),
    ),
    "two entities": Fact(
        "h: entity, r: relation, t: entity, n: entity",
        {"E": ("entity", 5), "R": ("relation", 5)},
        "return relu(1 + norm(E[h] + R[r] - E[t], 1) - norm(E[h] + R[r] - E[n], 1))",
        lambda i: np.maximum(
            1
            + norm1(i["E"][i["h"]] + i["R"][i["r"]] - i["E"][i["t"]])
            - norm1(i["E"][i["h"]] + i["R"][i["r"]] - i["E"][i["n"]]),
            0,
        ),
        ("h", "n"),
    ),
    "a matrix of two sets": Fact(
        "r: relation, w: time",
        {"M": ("relation", "time", 3, 4), "v": (3,), "x": ("time", 4)},
        "return dot(v @ M[r, w], x[w])",
        lambda i: np.einsum("...ab,a,...b->...", i["M"][i["r"], i["w"]], i["v"], i["x"][i["w"]]),
        ("r", "w"),
    ),
    "labels": Fact(
        "h: entity, r: relation, t: entity",
        {"E": ("entity", 5), "R": ("relation", 5), "y": ("batch",)},
        "s = sum(E[h] * R[r] * E[t])\nreturn softplus(s) - y * s",
        cross_entropy,
        ("h", "t"),
    ),
    "features of a fact": Fact(
        "u: user, i: item",
        {"U": ("user", 4), "W": (3, 4), "b": ("item",), "x": ("batch", 3)},
        "return dot(U[u], tanh(x @ W)) + b[i]",
        lambda i: (i["U"][i["u"]] * np.tanh(i["x"] @ i["W"])).sum(-1) + i["b"][i["i"]],
        ("u", "i"),
    ),
    "types of entities": Fact(
        "h: entity, r: relation, t: entity",
        {"E": ("entity", 5), "R": ("relation", 5), "K": ("type", 5)},
        "moved = E[h] + K[h.kind] + R[r] - E[t] - K[t.kind]\nreturn norm(moved, 1) + dot(K[h.kind], K[t.kind])",
        typed,
        ("h", "t"),
        {"kind": ("entity", "type")},
    ),
    "maps along maps": Fact(
        "u: user, i: item",
        {"U": ("user", 4), "G": ("group", 4), "M": ("group", "type", 4, 4)},
        "return (U[u] + U[u.friend.friend]) @ M[i.type.group, i.type] @ G[i.type.group]",
        lambda x: np.einsum(
            "...a,...ab,...b->...",
            x["U"][x["u"]] + x["U"][x["friend"][x["friend"][x["u"]]]],
            x["M"][x["group"][x["type"][x["i"]]], x["type"][x["i"]]],
            x["G"][x["group"][x["type"][x["i"]]]],
        ),
        ("u", "i"),
        {"friend": ("user", "user"), "type": ("item", "type"), "group": ("type", "group")},
    ),
    "a tensor and an index that go on": Fact(
        "h: entity, t: entity",
        {"E": ("entity", 5), "b": (5,)},
        "v = b\nx = h\nfor k in 0..2:\n    x = x.up\n    v = tanh(v + E[x])\nreturn dot(v, E[t])",
        lambda i: (np.tanh(np.tanh(i["b"] + up(i)) + up(i, 2)) * i["E"][i["t"]]).sum(-1),
        ("h", "t"),
        {"up": ("entity", "entity")},
    ),
    "a map from what no tensor is over": Fact(
        "u: user, i: item",
        {"K": ("type", 4), "T": ("pair", 4), "y": ("batch",)},
        "return y * dot(K[u.kind], K[i.sort] + T[i.sort // 2])",
        lambda x: (
            x["y"] * (x["K"][x["kind"][x["u"]]] * (x["K"][x["sort"][x["i"]]] + x["T"][x["sort"][x["i"]] // 2])).sum(-1)
        ),
        ("u", "i"),
        {"kind": ("user", "type"), "sort": ("item", "type")},
    ),
    "one id": Fact(
        "u: user",
        {"U": ("user", 4), "y": ("batch", 4)},
        "return norm(U[u] - y)",
        lambda i: np.sqrt(((i["U"][i["u"]] - i["y"]) ** 2).sum(-1)),
        ("u", "u"),
    ),
}
