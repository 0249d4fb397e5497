"""Maps that a text means and does not declare: the changes that are offered, and where none is."""

from __future__ import annotations

import pytest

from tests.compiler.language.helpers import check, found
from tests.compiler.language.test_fixes import applied

LAYER = """layer f(g: graph):
    input {}
    for e in g.edges():
        e["o"] = {}
    return e["o"]
"""
OP = """op f(b: bag of row):
    param Q[part, 4]
    input {}
    return {}
"""
SCORE = """score f(h: entity, r: relation):
    param E[entity, 4], T[time, 4]
    input {}
    return {}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (LAYER.format("h[edge, 4]", "h[e.rev]"), ["    map rev: edge -> edge"]),
        (LAYER.format("h[edge, 4], x[node, 4]", "h[e] + x[e.src.up]"), ["    map up: node -> node"]),
        (OP.format("q[row]", "sum(Q[q[i]] for i in b)"), ["    map q: row -> part", "return sum(Q[i.q] for i in b)"]),
        (OP.format("a[row], q[entry], c[row]", "sum(a[i] * Q[q[i]] * c[i] for i in b)"),
         ["    map q: entry -> part\n    input a[row], c[row]", "sum(a[i] * Q[i.q] * c[i] for i in b)"]),
        (SCORE.format("w[batch]", "E[h] + T[w]"), ["score f(h: entity, r: relation, w: time):"]),
        (SCORE.format("w[entity]", "E[h] + T[w[h]]"), ["    map w: entity -> time", "return E[h] + T[h.w]"]),
        (SCORE.format("w[batch], y[batch]", "y * sum(E[h] + T[w])"), ["w: time):", "    input y[batch]\n"]),
    ],
)  # fmt: skip
def test_a_map_is_declared_in_one_step(text: str, lines: list[str]) -> None:
    (first, *_) = [fix for each in check(text).diagnostics for fix in each.fixes]
    mended = applied(text, first)
    assert found(check(mended)) == []
    assert all(line in mended for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAYER.format("h[edge, 4], x[node, 4]", "h[e.rev] + x[e.rev]"), "unknown data 'rev' of an edge: edges have h"),
        (LAYER.format("x[node, 4]", "x[e.sc]"), "unknown data 'sc' of an edge: nothing is written on edges"),
        (LAYER.format("h[edge, 4]", "h[e] * e.rev"), "unknown data 'rev' of an edge: edges have h"),
        (OP.format("q[row, 4]", "sum(Q[q[i]] for i in b)"), "unknown size or index set 'part'"),
        (OP.format("q", "sum(Q[q] for i in b)"), "unknown size or index set 'part'"),
        (SCORE.format("w[relation]", "E[h] + T[w]"), "unknown size or index set 'time'"),
    ],
)
def test_what_is_no_map_has_no_such_change(text: str, message: str) -> None:
    diagnostics = check(text).diagnostics
    assert message in [each.message for each in diagnostics]
    labels = [fix.label for each in diagnostics for fix in each.fixes]
    assert not [label for label in labels if label.startswith("Declare map") or label.startswith("Write w")]
