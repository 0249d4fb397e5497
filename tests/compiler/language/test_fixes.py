"""Fixes that are offered, each applied: the text becomes what was meant, or a further message says what is wrong.

A fix that compiles to another model is worse than none: labels declared as a size are shared by all triples.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

import explorer
from explorer.checkout import CHECKOUT
from explorer.compiler.ir.graph import print_graph
from explorer.compiler.language.diagnostics import Diagnostic, Fix
from explorer.compiler.language.names.builtins import BUILTINS, FORMULAS, INSTEAD, LATER, MISSING

from .helpers import check

SCORE = """dim D = 8, K = 4
score f(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D], P[relation, D, K]
"""
LAYER = "dim F = 4\nlayer f(g: graph):\n    input x[node, F]\n    param W[F, F], V[etype, F, F]\n"
BAG = "dim D = 8\nop f(b: bag of row):\n    param T[row, D]\n"
MATRIX = "dim D = 8\nop f(A: csr[row, col]):\n    param X[col, D]\n"
NODES = 'for n in g.nodes():\n    n["h"] = {}\nreturn n["h"]'
DEEPEST = 4
"""Fixes that are applied one after another."""

Meant = set[str | None]
"""The graphs of what is meant; of a text that the language has no form for, none."""


def text_of(head: str, body: str) -> str:
    return head + "".join(f"    {line}\n" for line in body.split("\n"))


def applied(text: str, fix: Fix) -> str:
    """The text with a fix."""
    lines = text.split("\n")
    span = fix.span
    before, after = lines[span.line - 1][: span.column - 1], lines[span.end_line - 1][span.end_column - 1 :]
    lines[span.line - 1 : span.end_line] = [before + fix.replacement + after]
    return "\n".join(lines)


def graph_of(text: str) -> str | None:
    """The graph as it is printed; None for what is no model."""
    graph = check(text).graph
    return None if graph is None else "\n".join(line.text for line in print_graph(graph))


def wrong_ends(text: str, meant: Meant, depth: int = DEEPEST) -> Iterator[str]:
    """The texts that fixes lead to and that are models other than the one meant. Of several fixes of one message the
    reader chooses: one of them must be right, or none a model."""
    for diagnostic in check(text).diagnostics if depth else ():
        assert diagnostic.message
        ends = [list(ends_of(applied(text, fix), meant, depth - 1)) for fix in diagnostic.fixes]
        if not any(graph is not None and graph in meant for each in ends for _, graph in each):
            yield from (found for each in ends for found, graph in each if graph is not None)


def ends_of(text: str, meant: Meant, depth: int) -> Iterator[tuple[str, str | None]]:
    """Where a text leads to: itself where it is a model or has no fixes, else what its fixes make of it."""
    graph, diagnostics = graph_of(text), check(text).diagnostics
    fixes = [fix for diagnostic in diagnostics for fix in diagnostic.fixes]
    if graph is not None or not fixes or not depth:
        yield text, graph
    else:
        for fix in fixes:
            yield from ends_of(applied(text, fix), meant, depth - 1)


WRONG: dict[str, tuple[str, str, str | None]] = {
    "learnt labels": (SCORE, "param y[batch]\ns = sum(E[h] * E[t])\nreturn max(s, 0) - y * s", None),
    "labels of entities": (SCORE, "input y[batch, entity]\nreturn y * sum(E[h] * E[t])", None),
    "labels of B": (SCORE, "input y[B]\nreturn y * sum(E[h] * E[t])", None),
    "negatives": (SCORE, "input y[negatives]\nreturn y * sum(E[h] * E[t])", None),
    "shared labels": ("dim batch = 64\n" + SCORE, "input y[batch]\nreturn y * sum(E[h] * E[t])", None),
    "time": (SCORE, "param T[time, D]\nreturn sum(E[h] * T[tau])", None),
    "time by relation": (SCORE, "param T[time, D]\nreturn sum(E[h] * T[r])", None),
    "quotient": (BAG, "param Q[quotient, D]\nreturn sum(T[i] * Q[i] for i in b)", None),
    "nodes in a score": (SCORE, "param x[node, D]\nreturn sum(E[h] * x[h])", None),
    "a missing size": (SCORE, "param w[M]\nreturn sum(w) + norm(E[h] - E[t])", "dim M = 64"),
    "a number in brackets": (SCORE, "param gamma[]\nreturn gamma - norm(E[h] - E[t])",
                             "param gamma\nreturn gamma - norm(E[h] - E[t])"),
    "a module's function": (SCORE, "return torch.nn.functional.relu(sum(E[h] * E[t]))",
                            "return relu(sum(E[h] * E[t]))"),
    "PyTorch's dim": (SCORE, "return torch.norm(E[h] - E[t], p=1, dim=-1)", "return norm(E[h] - E[t], 1)"),
    "a method": (SCORE, "return (E[h] * E[t]).sum()", "return sum((E[h] * E[t]))"),
    "a method with arguments": (SCORE, "return P[r].sum(0) @ P[r][0]", "return sum(P[r], 0) @ P[r][0]"),
    "a module's table": (SCORE, "return sum(self.E(h) * self.E(t))", "return sum(E[h] * E[t])"),
    "a called table": (SCORE, "return sum(E(h) * E(t))", "return sum(E[h] * E[t])"),
    "two names": (SCORE, "x, y = E[h]\nreturn sum(E[h])", None),
    "all entities": (SCORE, "return sum(E[h] @ E.T)", None),
    "the whole table": (SCORE, "return sum(E[h] * E)", None),
    "a relation": (SCORE, "return sum(E[h] * R * E[t])", "return sum(E[h] * R[r] * E[t])"),
    "an index of a shared matrix": (SCORE, "param W[D]\nreturn sum(E[h] * W[r])",
                                    "param W[relation, D]\nreturn sum(E[h] * W[r])"),
    "dropout": (SCORE, "return sum(dropout(E[h], 0.5) * E[t])", None),
    "arctan": (SCORE, "return sum(arctan(E[h] / E[t]))", None),
    "angle": (SCORE, "return sum(angle(E[h]))", None),
    "tan": (SCORE, "return sum(tan(E[h] - E[t]))", None),
    "elu": (SCORE, "return sum(elu(E[h]) * E[t])", None),
    "sqr": (SCORE, "return sum(sqr(E[h] - E[t]))", None),
    "ceil": (SCORE, "x = ceil(E[h]) - E[h]\nreturn sum(x * E[t])", None),
    "rounding down": (SCORE, "return sum(E[h] * E[t]) // 2", None),
    "mish": (SCORE, "return sum(E[h] * mush(E[t]))", None),
    "a numbered name": (SCORE, "x1 = E[h]\nreturn sum(x2 * E[t])", None),
    "a function of other arguments": (SCORE, "return mix(E[h], E[t])", None),
    "another score": ("score Base(h: entity, r: relation, t: entity):\n    param b[relation]\n    return b[r]\n"
                      + SCORE,
                      "return Base(h, r, t)", None),
    "print": (SCORE, "print E[h]\nreturn sum(E[h] * E[t])", None),
    "a slip in a function": (SCORE, "return nrm(E[h] - E[t])", "return norm(E[h] - E[t])"),
    "camel case": (SCORE, "return sum(leakyReLU(E[h] * E[t]))", "return sum(leaky_relu(E[h] * E[t]))"),
    "a longer table": (SCORE, "return sum(Emb[h] * E[t])", "return sum(E[h] * E[t])"),
    "a matrix transposed": (SCORE, "return norm((E[h] - E[t]) @ P[r].T)", "return norm((E[h] - E[t]) @ P[r])"),
    "softmax in a bag": (BAG,
              'for i in b:\n    i["s"] = sum(T[i])\nedge_softmax(b, "s")\nreturn sum(i["s"] for i in b)', None),
    "counting": (BAG, "return sum(T[i] for i in range(4))", None),
    "a bag and blocks": (BAG.replace("(b: bag of row)", "(b: bag of row, c: blocks of row)"),
                         "return sum(T[i] for i in b)", None),
    "columns": (MATRIX.replace("csr", "csc"),
                'for i in A.rows():\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]', None),
    "three indices": (MATRIX.replace("csr[row, col]", "coo[i, j, k]"), "return 1", None),
    "a matrix without sets": (MATRIX.replace("csr[row, col]", "csr"),
                              'for i in A.rows():\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]',
                              'for i in A.rows():\n    i["y"] = sum(X[j] for j in A.row(i))\nreturn i["y"]'),
    "four, one of nothing": (SCORE.replace("t: entity)", "t: entity, n: time)"), "return norm(E[h] - E[t])", None),
    "a graph and a node": (LAYER.replace("(g: graph)", "(g: graph, q: node)"), NODES.format("x[n]"), None),
    "types of a graph": (LAYER, 'for r in g.etypes():\n    r["h"] = 1\nreturn r["h"]', None),
    "edges of DGL": (LAYER, NODES.format("sum(x[e.src] for e in n.in_edges())"),
                     NODES.format("sum(x[e.src] for e in n.incoming_edges())")),
    "a source": (LAYER, NODES.format("sum(x[e.source] for e in n.incoming_edges())"),
                 NODES.format("sum(x[e.src] for e in n.incoming_edges())")),
    "batch norm": (LAYER, NODES.format("batch_norm(x[n])"), None),
    "a size by a later one": (SCORE.replace("D = 8, K = 4", "K = D // 2, D = 8"), "return norm(E[h] - E[t])", None),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_fixes_lead_to_what_is_meant(name: str) -> None:
    head, body, meant = WRONG[name]
    text = text_of(head, body)
    assert graph_of(text) is None
    wanted = None
    if meant is not None:
        right = text_of(head.replace(": csr)", ": csr[row, col])"), meant)
        wanted = graph_of(text.replace("score f", f"{meant}\nscore f") if meant.startswith("dim") else right)
        assert wanted is not None
        assert any(diagnostic.fixes for diagnostic in check(text).diagnostics)
    assert list(wrong_ends(text, {wanted})) == []


PASTED = {
    "all tables": (
        'score f(h: entity, r: relation, t: entity):\n    "TransE"\n    return norm(E[h] + R[r] - E[t], 1)\n',
        ["Declare both"],
        'dim D = 64\nscore f(h: entity, r: relation, t: entity):\n    "TransE"\n'
        "    param E[entity, D], R[relation, D]\n    return norm(E[h] + R[r] - E[t], 1)\n",
    ),
    "one after another": (
        "dim F = 8\nlayer f(g: graph):\n    for e in g.edges():\n"
        '        e["h"] = x[e.src] * w[e.etype]\n    return e["h"]\n',
        ["Declare param x[node, F]", "Declare param w[etype, F]"],
        "dim F = 8\nlayer f(g: graph):\n    param x[node, F], w[etype, F]\n    for e in g.edges():\n"
        '        e["h"] = x[e.src] * w[e.etype]\n    return e["h"]\n',
    ),
    "a def": (
        "dim D = 8\ndef f(a, b, c):\n    return norm(E[a] * R[b] - E[c] + S[b])\n",
        ["Make it a score", "Declare all three"],
        "dim D = 8\nscore f(a: entity, b: relation, c: entity):\n"
        "    param E[entity, D], R[relation, D], S[relation, D]\n    return norm(E[a] * R[b] - E[c] + S[b])\n",
    ),
    "a helper that reads": (
        "dim D = 4\ndef f(x):\n    return x * W\nscore g(h: entity, r: relation, t: entity):\n"
        "    param E[entity, D], W[D]\n    return sum(f(E[h]) * f(E[t]))\n",
        ["Pass W to f"],
        "dim D = 4\ndef f(x, W):\n    return x * W\nscore g(h: entity, r: relation, t: entity):\n"
        "    param E[entity, D], W[D]\n    return sum(f(E[h], W) * f(E[t], W))\n",
    ),
}


@pytest.mark.parametrize("name", PASTED)
def test_a_pasted_text_is_a_model_in_so_many_clicks(name: str) -> None:
    text, labels, right = PASTED[name]
    for label in labels:
        fixes = [fix for diagnostic in check(text).diagnostics for fix in diagnostic.fixes if fix.label == label]
        assert fixes, check(text).diagnostics
        text = applied(text, fixes[0])
    assert graph_of(text) == graph_of(right) is not None


READS = "score g(h: entity, r: relation, t: entity):\n    param E[entity, 4], W[4]\n    return sum({})\n"
UNTOLD = {
    "a helper of a helper": "def f(x):\n    return x * W\ndef k(x):\n    return f(x)\n" + READS.format("k(E[h])"),
    "a default": "def f(x, y=2):\n    return x * W * y\n" + READS.format("f(E[h])"),
    "a name": "def f(x):\n    return x * W\n" + READS.format("f(x=E[h])"),
    "a comma": "def f(x,):\n    return x * W\n" + READS.format("f(E[h])"),
    "a comma in the call": "def f(x):\n    return x * W\n" + READS.format("f(E[h], )"),
    "several lines": "def f(x):\n    return x * W\n" + READS.format("f(E[h],  # a row\n    )"),
    "another score": "def f(x):\n    return x * W\n"
    + READS.format("f(E[h])").replace("score g", "score other").replace("W[4]", "V[4]")
    + READS.format("f(E[h])"),
    "one of the prelude": "# A line.\n" * 40
    + "def softplus(x):\n    return x * W\n"
    + READS.format("logsigmoid(E[h]) + softplus(E[h])"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_a_fix_that_would_not_be_all_of_it_is_not_offered(name: str) -> None:
    diagnostics = check(UNTOLD[name]).diagnostics
    told = [entry for entry in diagnostics if entry.message.startswith("a helper sees its parameters alone: 'W'")]
    assert told, diagnostics
    assert not any(entry.fixes for entry in told)


def slips(text: str, chosen: random.Random) -> Iterator[tuple[str, str, str]]:
    """The text with a slip in one of its words, a letter twice, left out, exchanged with the next or in another case;
    the word and what it became."""
    words = [
        found
        for found in re.finditer(r"[A-Za-z_]\w*", text)
        if not text[: found.start()].split("\n")[-1].strip().startswith(("#", '"'))
    ]
    for found in chosen.sample(words, min(len(words), 24)):
        word, at = found[0], chosen.randrange(len(found[0]))
        kinds = [
            word[: at + 1] + word[at:],
            word[:at] + word[at + 1 :],
            word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            word.swapcase(),
        ]
        slip = chosen.choice(kinds)
        if slip.isidentifier() and slip != word:
            yield text[: found.start()] + slip + text[found.end() :], word, slip


@pytest.mark.parametrize("path", sorted((CHECKOUT / "examples").glob("*/*.emb")), ids=lambda path: path.stem)
def test_fixes_of_slips_give_the_text_back(path) -> None:
    """A slip in any word of an example: what fixes make of it is the example, in which the word may be another
    throughout, or no model."""
    text = path.read_text()
    meant = graph_of(text)
    for wrong, word, slip in slips(text, random.Random(path.stem)):
        if graph_of(wrong) is None:
            ends = wrong_ends(wrong, {meant}, depth=2)
            assert [end for end in ends if graph_of(re.sub(rf"\b{slip}\b", word, end)) != meant] == [], wrong


def said(call: str) -> Diagnostic:
    return check(text_of(SCORE, f"x = E[h]\ny = E[t]\nreturn sum({call})")).diagnostics[0]


def test_well_known_names_are_told_what_to_use() -> None:
    for name in (*MISSING, *FORMULAS, *INSTEAD):
        found = said(f"{name}(x)")
        assert found.message == f"unknown function '{name}'"
        assert found.detail.startswith(("Write ", "The language "))
        assert not found.fixes
    assert not (MISSING.keys() | FORMULAS.keys()) & (BUILTINS.keys() | INSTEAD.keys() | LATER.keys())


NUMPY = {
    "acos": np.arccos, "arccos": np.arccos, "asin": np.arcsin, "arcsin": np.arcsin, "atan": np.arctan,
    "arctan": np.arctan, "arctan2": np.arctan2,
    "cosh": np.cosh, "elu": lambda x, y: np.where(x > 0, x, np.expm1(x)), "exp2": np.exp2, "expm1": np.expm1,
    "hardtanh": lambda x, y: np.clip(x, -1, 1), "heaviside": lambda x, y: (x > 0) * 1.0, "ln": np.log,
    "log10": np.log10, "log2": np.log2, "logsumexp": lambda x, y: np.log(np.exp(x).sum(-1)), "maximum": np.maximum,
    "minimum": np.minimum, "prelu": lambda x, y: np.where(x > 0, x, y * x), "relu6": lambda x, y: np.clip(x, 0, 6),
    "reciprocal": lambda x, y: 1 / x, "signum": np.sign, "sinh": np.sinh, "sqr": np.square,
    "std": lambda x, y: x.std(-1),
    "swish": lambda x, y: x / (1 + np.exp(-x)), "tan": np.tan, "var": lambda x, y: x.var(-1),
    "inner": lambda x, y: (x * y).sum(-1), "dot_product": lambda x, y: (x * y).sum(-1),
    "cosine_similarity": lambda x, y: (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1),
    "outer_product": lambda x, y: x[:, :, None] * y[:, None, :],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_what_they_are_called(name: str) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.uniform(0.1 if name.startswith(("l", "r")) else -2, 2, (5, 8)) for _ in "xy")
    function = NUMPY[name]
    x = x / 2 if function in (np.arccos, np.arcsin) else x
    want = np.asarray(function(x) if isinstance(function, np.ufunc) and function.nin == 1 else function(x, y))
    text = text_of(
        SCORE, f"x = E[h]\ny = E[t]\nz = {FORMULAS[name]}\nreturn {'sum(reshape(z, -1))' if want.ndim > 1 else 'z'}"
    )
    compilation = explorer.compile(text, on_demand=True)
    assert compilation.ok, [entry.message for entry in compilation.diagnostics]
    ids = np.arange(5, dtype=np.int32)
    inputs = {
        "h": ids,
        "r": ids % 2,
        "t": ids + 5,
        "E": np.concatenate([x, y]).astype(np.float32),
        "R": np.zeros((2, 8), np.float32),
    }
    inputs["P"] = np.zeros((2, 8, 4), np.float32)
    got = compilation.run(inputs, on="graph")
    np.testing.assert_allclose(got, want.reshape(5, -1).sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", ["(E[h] * E[t])", "E[h]", "(E[h])[0:2]"])
def test_a_method_of_what_is_returned_is_a_function_of_it(value: str) -> None:
    """`return` is no part of the value that it stands before."""
    text = f"dim D = 4\nscore f(h: entity, r: relation, t: entity):\n    param E[entity, D]\n    return {value}.sum()\n"
    (fix,) = check(text).diagnostics[0].fixes
    assert check(applied(text, fix)).graph is not None
