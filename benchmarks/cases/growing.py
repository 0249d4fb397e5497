"""Model texts of any length: what a compilation takes must grow with the text as its output does."""

from __future__ import annotations

from collections.abc import Callable

Growing = Callable[[int], str]
"""A model text with so many of what it is made of."""

LAYER = "layer L(g: graph):\n    input x[node, F]\n"


def chain(count: int) -> str:
    """So many elementwise operations, each of the one before."""
    signs = ("+", "*", "-")
    steps = "".join(f"    v{i + 1} = v{i} {signs[i % 3]} w\n" for i in range(count))
    return (
        "dim D = 64\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
        f"    w = E[t]\n    v0 = E[h]\n{steps}    return dot(v{count}, R[r])\n"
    )


def sum_of_rows(count: int) -> str:
    """A sum of so many terms in one expression."""
    terms = " + ".join(("E[h]", "R[r]", "E[t]", "E[h] * R[r]")[i % 4] for i in range(count))
    return (
        "dim D = 64\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
        f"    return norm({terms}, 2)\n"
    )


def functions(count: int) -> str:
    """So many functions of one row, one around the other, eight to a line."""
    names = ("relu", "tanh", "sigmoid", "abs")
    opened = "dim D = 64\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
    lines, last = [], "E[h] * R[r] + E[t]"
    for first in range(0, count, 8):
        for i in range(first, min(first + 8, count)):
            last = f"{names[i % 4]}({last})"
        lines.append(f"    w{first} = {last}\n")
        last = f"w{first}"
    return f"{opened}{''.join(lines)}    return sum({last})\n"


def products(count: int) -> str:
    """So many products in a row, each with a matrix of its own."""
    params = "".join(f"    param W{i}[F, F]\n" for i in range(count))
    steps = "".join(f"        v{i + 1} = v{i} @ W{i}\n" for i in range(count))
    return (
        f"dim F = 32\n{LAYER}{params}    for n in g.nodes():\n        v0 = n.x\n{steps}"
        f'        n["h"] = v{count}\n    return n["h"]\n'
    )


def score_products(count: int) -> str:
    """So many products in a row in a score, with the matrices of a relation."""
    params = "".join(f"    param W{i}[relation, D, D]\n" for i in range(count))
    steps = "".join(f"    v{i + 1} = v{i} @ W{i}[r]\n" for i in range(count))
    return (
        f"dim D = 32\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D]\n{params}    v0 = E[h]\n"
        f"{steps}    return dot(v{count}, E[t])\n"
    )


def softmaxes(count: int) -> str:
    """HGT's head with so many `edge_softmax` lines."""
    lines = '    edge_softmax(g, "att")\n' * count
    return (
        "dim F = 64, H = 4, D = 16\nlayer HGT(g: graph):\n    input x[node, F]\n"
        "    param K[ntype, H, F, D], Q[ntype, H, F, D], V[ntype, H, F, D]\n"
        "    param A[etype, H, D, D], M[etype, H, D, D], mu[etype, H]\n"
        "    for n in g.nodes():\n"
        '        n["k"] = x[n] @ K[n.ntype]\n        n["q"] = x[n] @ Q[n.ntype]\n        n["v"] = x[n] @ V[n.ntype]\n'
        "    for e in g.edges():\n"
        '        e["att"] = dot(e.src["k"] @ A[e.etype], e.dst["q"]) * mu[e.etype] / sqrt(D)\n'
        f"{lines}    for n in g.dst_nodes():\n"
        '        n["h"] = sum(e["att"] * (e.src["v"] @ M[e.etype]) for e in n.incoming_edges())\n'
        '    return reshape(n["h"], H * D)\n'
    )


def params(count: int) -> str:
    """So many parameters, each read once."""
    declared = "".join(f"    param P{i}[entity, D]\n" for i in range(count))
    terms = "".join(f"    v{i + 1} = v{i} + P{i}[h] * P{i}[t]\n" for i in range(count))
    return (
        f"dim D = 64\nscore S(h: entity, r: relation, t: entity):\n{declared}    param R[relation, D]\n"
        f"    v0 = R[r]\n{terms}    return sum(v{count})\n"
    )


def gates(count: int) -> str:
    """A chain of so many functions, each with a parameter of its own: every gradient needs all behind it."""
    declared = "".join(f"    param P{i}[relation, D]\n" for i in range(count))
    steps = "".join(f"    v{i + 1} = tanh(v{i} * P{i}[r])\n" for i in range(count))
    return (
        f"dim D = 64\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D]\n{declared}"
        f"    v0 = E[h]\n{steps}    return dot(v{count}, E[t])\n"
    )


def stored(count: int) -> str:
    """So many values stored on the edges, each summed on its own."""
    stores = "".join(f'        e["m{i}"] = e.src.x * e.dst.x + e.src.x * {i + 1}.0\n' for i in range(count))
    sums = "".join(f'            n["h"] += e["m{i}"]\n' for i in range(count))
    return (
        f"dim F = 32\n{LAYER}    for e in g.edges():\n{stores}    for n in g.dst_nodes():\n"
        f'        for e in n.incoming_edges():\n{sums}    return n["h"]\n'
    )


def heads(count: int) -> str:
    """So many attention heads, each with parameters of its own, side by side."""
    declared = "".join(f"    param W{i}[F, G], a{i}[G], b{i}[G]\n" for i in range(count))
    nodes = "".join(f'        n["z{i}"] = n.x @ W{i}\n' for i in range(count))
    edges = "".join(
        f'        e["s{i}"] = leaky_relu(dot(e.src["z{i}"], a{i}) + dot(e.dst["z{i}"], b{i}), 0.2)\n'
        for i in range(count)
    )
    softmax = "".join(f'    edge_softmax(g, "s{i}")\n' for i in range(count))
    sums = "".join(
        f'        n["h{i}"] = sum(e["s{i}"] * e.src["z{i}"] for e in n.incoming_edges())\n' for i in range(count)
    )
    total = " + ".join(f'n["h{i}"]' for i in range(count))
    return (
        f"dim F = 32, G = 16\n{LAYER}{declared}    for n in g.nodes():\n{nodes}"
        f"    for e in g.edges():\n{edges}{softmax}"
        f'    for n in g.dst_nodes():\n{sums}        n["h"] = {total}\n    return n["h"]\n'
    )


def layers(count: int) -> str:
    """So many layers of a graph convolution, one after another."""
    declared = "".join(f"    param W{i}[F, F]\n" for i in range(count))
    steps, source = "", "x"
    for i in range(count):
        read = "e.src.x" if i == 0 else f'e.src["h{i - 1}"]'
        steps += (
            "    for n in g.dst_nodes():\n"
            f"        s = sum({read} / n.in_degree for e in n.incoming_edges())\n"
            f'        n["h{i}"] = relu(s @ W{i})\n'
        )
        source = f'n["h{i}"]'
    return f"dim F = 32\n{LAYER}{declared}{steps}    return {source}\n"


def bags(count: int) -> str:
    """So many sums over a bag, of rows of as many tables."""
    declared = "".join(f"    param T{i}[row, D]\n" for i in range(count))
    total = " + ".join(f"sum(T{i}[i] for i in b)" for i in range(count))
    return f"dim D = 32\nop S(b: bag of row):\n{declared}    return {total}\n"


def typed_products(count: int) -> str:
    """So many messages of their own edge types' matrices, summed."""
    declared = "".join(f"    param W{i}[etype, F, F]\n" for i in range(count))
    sums = "".join(f'            n["h"] += e.src.x @ W{i}[e.etype]\n' for i in range(count))
    return (
        f"dim F = 32\n{LAYER}{declared}    for n in g.dst_nodes():\n        for e in n.incoming_edges():\n{sums}"
        '    return n["h"]\n'
    )


def concatenations(count: int) -> str:
    """So many rows side by side, and as many slices of them."""
    parts = ", ".join(("E[h]", "R[r]", "E[t]")[i % 3] + f" * {i + 1}.0" for i in range(count))
    slices = " + ".join(f"c[{i * 4}:{i * 4 + 4}]" for i in range(count))
    return (
        "dim D = 4\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
        f"    c = concat({parts})\n    return sum({slices})\n"
    )


def bags_of_one(count: int) -> str:
    """So many sums over a bag, all of rows of one table."""
    total = " + ".join(f"sum(T[i] * {i + 1}.0 for i in b)" for i in range(count))
    return f"dim D = 32\nop S(b: bag of row):\n    param T[row, D]\n    return {total}\n"


def choices(count: int) -> str:
    """A chain of so many choices between two values, each of the one before."""
    steps = "".join(f"    v{i + 1} = max(v{i} * w, min(v{i}, w + {i + 1}.0))\n" for i in range(count))
    return (
        "dim D = 64\nscore S(h: entity, r: relation, t: entity):\n    param E[entity, D], R[relation, D]\n"
        f"    w = E[t]\n    v0 = E[h]\n{steps}    return dot(v{count}, R[r])\n"
    )


def stored_side_by_side(count: int) -> str:
    """So many values stored on the edges, whose sums are rows side by side."""
    stores = "".join(f'        e["m{i}"] = e.src.x * e.dst.x + {i + 1}.0\n' for i in range(count))
    sums = "".join(f'        s{i} = sum(e["m{i}"] for e in n.incoming_edges())\n' for i in range(count))
    row = ", ".join(f"s{i}" for i in range(count))
    return (
        f"dim F = 8\n{LAYER}    for e in g.edges():\n{stores}    for n in g.dst_nodes():\n{sums}"
        f'        n["h"] = concat({row})\n    return n["h"]\n'
    )


def dependent_sums(count: int) -> str:
    """So many sums over a node's edges, each of what differs from the one before."""
    steps = "".join(
        f"        s{i + 1} = sum(tanh(x[e.src] - s{i}) for e in n.incoming_edges())\n" for i in range(count)
    )
    return (
        f"dim F = 32\n{LAYER}    for n in g.dst_nodes():\n        s0 = n.x\n{steps}"
        f'        n["h"] = s{count}\n    return n["h"]\n'
    )


GROWING: dict[str, tuple[Growing, int]] = {
    "chain": (chain, 240),
    "sum_of_rows": (sum_of_rows, 160),
    "functions": (functions, 240),
    "products": (products, 40),
    "score_products": (score_products, 40),
    "softmaxes": (softmaxes, 30),
    "params": (params, 80),
    "gates": (gates, 40),
    "stored": (stored, 40),
    "heads": (heads, 8),
    "layers": (layers, 12),
    "bags": (bags, 40),
    "typed_products": (typed_products, 10),
    "concatenations": (concatenations, 40),
    "bags_of_one": (bags_of_one, 40),
    "choices": (choices, 80),
    "stored_side_by_side": (stored_side_by_side, 20),
    "dependent_sums": (dependent_sums, 12),
}
"""The texts by name, each with a count at which it takes about a second."""
