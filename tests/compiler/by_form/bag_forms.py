"""Ops of several bags, each with its meaning in NumPy: `means` is given the arrays, and of each bag the entries by the
bag, `i["a"][b]`, as places in `a_idx`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Inputs = dict[str, Any]
COUNTS = {"item": 5, "user": 3, "brand": 2, "hour": 4, "shop": 3, "half": 3, "bag": 4, "cross": 7}
LENGTHS = {"a": (2, 0, 3, 1), "b": (0, 0, 4, 2), "c": (1, 1, 0, 0)}
D = 6


@dataclass(frozen=True)
class BagForm:
    """A text, the shapes of its tensors by their sets, the sets that its bags pick of, the maps beside these, and what
    it means."""

    text: str
    tensors: dict[str, tuple[str | int, ...]]
    bags: dict[str, str]
    means: Callable[[Inputs], Any]
    maps: dict[str, tuple[str, str]]

    @property
    def learnt(self) -> list[str]:
        return [name for name in self.tensors if name.isupper()]


def form(
    header: str,
    body: str,
    tensors: dict[str, tuple[str | int, ...]],
    means: Callable[[Inputs], Any],
    maps: dict[str, tuple[str, str]] | None = None,
    helper: str = "",
) -> BagForm:
    """The text of a form; tensors in capitals are learnt."""
    parts = (part.split(":") for part in header.split("(")[1].rstrip(")").split(","))
    bags = {name.strip(): of.split()[2] for name, of in parts if " of " in of}
    declared = [
        f"    {'param' if name.isupper() else 'input'} {name}[{', '.join('D' if e == D else str(e) for e in shape)}]\n"
        for name, shape in tensors.items()
    ]
    text = f"dim D = {D}\n\n{helper}{header}:\n{''.join(declared)}"
    return BagForm(text + "".join(f"    {line}\n" for line in body.split("\n")), tensors, bags, means, maps or {})


def inputs_of(given: BagForm) -> Inputs:
    """The bags with different lengths, some empty, and tensors drawn at random."""
    random = np.random.default_rng(7)
    inputs: Inputs = {}
    counts = dict(COUNTS)
    for name, picked in given.bags.items():
        ends = np.concatenate([[0], np.cumsum(LENGTHS[name])])
        counts[f"{name}_entry"] = int(ends[-1])
        inputs |= {f"{name}_ptr": ends, f"{name}_idx": random.integers(0, COUNTS[picked], ends[-1])}
        if f"w in {name}" in given.text:
            inputs[f"{name}_weight"] = random.normal(size=ends[-1]).astype(np.float32)
    for name, shape in given.tensors.items():
        sizes = [extent if isinstance(extent, int) else counts[extent] for extent in shape]
        inputs[name] = random.normal(size=sizes).astype(np.float32)
    for name, (domain, codomain) in given.maps.items():
        inputs[name] = random.integers(0, counts[codomain], counts[domain]).astype(np.int32)
    return inputs


def exact(given: BagForm, inputs: Inputs) -> Inputs:
    """The inputs in float64, with the entries of each bag by its name."""
    found = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in inputs.items()}
    for name in given.bags:
        ends = inputs[f"{name}_ptr"]
        found[name] = [np.arange(start, stop) for start, stop in pairwise(ends)]
    return found


def rows(i: Inputs, bag: str, table: str, number: int) -> Any:
    """What a bag picks of a table."""
    return i[table][i[f"{bag}_idx"][i[bag][number]]]


def each(of: Callable[[Inputs, int], Any]) -> Callable[[Inputs], Any]:
    """A row for each bag."""
    return lambda i: np.stack([np.asarray(of(i, number)) for number in range(COUNTS["bag"])])


def most(values: Any) -> Any:
    return values.max(0) if len(values) else np.zeros(values.shape[1:])


def attended(i: Inputs, number: int) -> Any:
    query = rows(i, "b", "U", number).sum(0)
    keys = rows(i, "a", "T", number)
    powers = np.exp(keys @ query)
    return (powers / powers.sum()) @ keys if len(keys) else np.zeros(D)


def of_entries(i: Inputs) -> Any:
    found = np.zeros(len(i["a_idx"]))
    for number, places in enumerate(i["a"]):
        found[places] = rows(i, "a", "T", number) @ rows(i, "b", "U", number).sum(0)
    return found


TABLES: dict[str, tuple[str | int, ...]] = {"T": ("item", D), "U": ("user", D)}
TWO = "op f(a: bag of item, b: bag of user)"
BAG_FORMS = {
    "two towers": form(
        TWO,
        "return dot(relu(sum(T[i] for i in a) @ W), sum(U[j] for j in b) @ V)",
        {**TABLES, "W": (D, 4), "V": (D, 4)},
        each(lambda i, k: np.maximum(rows(i, "a", "T", k).sum(0) @ i["W"], 0) @ (rows(i, "b", "U", k).sum(0) @ i["V"])),
    ),
    "two bags of one set": form(
        "op f(a: bag of item, b: bag of item)",
        "return sum(T[i] for i in a) * sum(T[j] for j in b)",
        {"T": ("item", D)},
        each(lambda i, k: rows(i, "a", "T", k).sum(0) * rows(i, "b", "T", k).sum(0)),
    ),
    "three bags": form(
        "op f(a: bag of item, b: bag of user, c: bag of shop)",
        "x = sum(T[i] for i in a)\ny = mean(U[j] for j in b)\nz = max(S[k] for k in c)\n"
        "return concat(x, y * dot(x, z), z)",
        {**TABLES, "S": ("shop", D)},
        each(
            lambda i, k: (lambda x, y, z: np.concatenate([x, y * (x @ z), z]))(
                rows(i, "a", "T", k).sum(0),
                rows(i, "b", "U", k).sum(0) / max(1, len(i["b"][k])),
                most(rows(i, "c", "S", k)),
            )
        ),
    ),
    "weights of several bags": form(
        TWO,
        "return sum(w * T[i] for i, w in a) - sum(w * U[j] for j, w in b)",
        TABLES,
        each(
            lambda i, k: (
                i["a_weight"][i["a"][k]] @ rows(i, "a", "T", k) - i["b_weight"][i["b"][k]] @ rows(i, "b", "U", k)
            )
        ),
    ),
    "a bag attends with another": form(
        TWO,
        'q = sum(U[j] for j in b)\nfor i in a:\n    i["s"] = exp(dot(T[i], q))\nz = sum(i["s"] for i in a)\n'
        'return sum(i["s"] / z * T[i] for i in a)',
        TABLES,
        each(attended),
    ),
    "data of entries beside another bag": form(
        TWO,
        'q = sum(U[j] for j in b)\nfor i in a:\n    i["s"] = dot(T[i], q)\nreturn i["s"]',
        TABLES,
        of_entries,
    ),
    "data of two bags' entries": form(
        TWO,
        'for i in a:\n    i["s"] = exp(sum(T[i]))\nfor j in b:\n    j["s"] = sum(U[j]) + p[j]\n'
        'return sum(i["s"] * T[i] for i in a) + sum(j["s"] * U[j] for j in b)',
        {**TABLES, "p": ("b_entry",)},
        each(
            lambda i, k: (
                np.exp(rows(i, "a", "T", k).sum(-1)) @ rows(i, "a", "T", k)
                + (rows(i, "b", "U", k).sum(-1) + i["p"][i["b"][k]]) @ rows(i, "b", "U", k)
            )
        ),
    ),
    "sums in loops over several bags": form(
        TWO,
        'a["x"] = B[a]\nfor i in a:\n    a["x"] += T[i]\nfor j in b:\n    a["x"] += U[j]\nreturn b["x"]',
        {**TABLES, "B": ("bag", D)},
        each(lambda i, k: i["B"][k] + rows(i, "a", "T", k).sum(0) + rows(i, "b", "U", k).sum(0)),
    ),
    "maps beside several bags": form(
        "op f(h: shop, a: bag of item, b: bag of user)",
        "map when: b_entry -> hour\nmap brand: item -> brand\n"
        "return H[h] + sum(T[i] * G[i.brand] for i in a) + sum(U[j] * W[j.when] for j in b)",
        {**TABLES, "H": ("shop", D), "G": ("brand", D), "W": ("hour", D)},
        each(
            lambda i, k: (
                i["H"][i["h"][k]]
                + (rows(i, "a", "T", k) * i["G"][i["brand"][i["a_idx"][i["a"][k]]]]).sum(0)
                + (rows(i, "b", "U", k) * i["W"][i["when"][i["b"][k]]]).sum(0)
            )
        ),
        {"h": ("bag", "shop"), "when": ("b_entry", "hour"), "brand": ("item", "brand")},
    ),
    "computed ids of several bags": form(
        TWO,
        "return sum(Q[i // 2] for i in a) + sum(U[j] for j in b)",
        {"U": ("user", D), "Q": ("half", D)},
        each(lambda i, k: i["Q"][i["a_idx"][i["a"][k]] // 2].sum(0) + rows(i, "b", "U", k).sum(0)),
    ),
    "computed ids of a fact and of its bags' entries": form(
        "op f(h: shop, a: bag of item, b: bag of user)",
        "return sum(C[(3 * h + i) % 7] * T[i] for i in a) + sum(C[(j - 2 * h) % 7] for j in b)",
        {"T": ("item", D), "C": ("cross", D)},
        each(
            lambda i, k: (
                (i["C"][(3 * i["h"][k] + i["a_idx"][i["a"][k]]) % 7] * rows(i, "a", "T", k)).sum(0)
                + i["C"][(i["b_idx"][i["b"][k]] - 2 * i["h"][k]) % 7].sum(0)
            )
        ),
        {"h": ("bag", "shop")},
    ),
    "a score of facts with two bags": form(
        "score f(h: shop, a: bag of item, b: bag of user)",
        "return y * dot(H[h] + sum(T[i] for i in a), sum(U[j] for j in b))",
        {**TABLES, "H": ("shop", D), "y": ("bag",)},
        each(
            lambda i, k: i["y"][k] * ((i["H"][i["h"][k]] + rows(i, "a", "T", k).sum(0)) @ rows(i, "b", "U", k).sum(0))
        ),
        {"h": ("bag", "shop")},
    ),
    "a helper of a bag": form(
        TWO,
        "return sum(T[i] for i in a) + counted(b)",
        {"T": ("item", D)},
        each(lambda i, k: rows(i, "a", "T", k).sum(0) + len(i["b"][k])),
        helper="def counted(l):\n    return sum(1 for i in l)\n\n",
    ),
}
