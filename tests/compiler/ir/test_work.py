"""The arithmetic of operations, counted by hand: how many operations a row of which set."""

from __future__ import annotations

import pytest

import explorer

BAG = "dim D = 8\nop A(b: bag of row):\n    param T[row, D]\n    return {}\n"
LAYER = "dim D = 8, K = 3\nlayer A(g: graph):\n    input x[node, D]\n    param W[D, K]\n{}"
SOFTMAX = """    for e in g.edges():
        e["s"] = dot(x[e.src], x[e.dst])
    edge_softmax(g, "s")
    return e["s"]
"""
ONTO = """    for n in g.nodes():
        n["s"] = 2 * x[n]
    for n in g.nodes():
        for e in n.incoming_edges():
            n["s"] += x[e.src]
    return n["s"]
"""


@pytest.mark.parametrize(
    ("text", "label", "work"),
    [
        (BAG.format("sum(T[i] for i in b)"), "sum", {"entry": 8}),
        (BAG.format("mean(T[i] for i in b)"), "mean", {"entry": 8}),
        (BAG.format("max(w * T[i] for i, w in b)"), "max", {"entry": 8}),
        (BAG.format("max(w * T[i] for i, w in b)"), "*", {"entry": 8}),
        (BAG.format("max(w * T[i] for i, w in b)"), "T[i]", {}),
        (LAYER.format("    for n in g.nodes():\n        n['y'] = x[n] @ W\n    return n['y']\n"), "@", {"node": 48}),
        (LAYER.format(SOFTMAX), "edge_softmax", {"edge": 5}),  # maximum, difference, exponential, sum, quotient
        (LAYER.format(ONTO), "+=", {"edge": 8, "node": 8}),
    ],
)
def test_work_is_counted_on_the_set_that_does_it(text: str, label: str, work: dict[str, int]) -> None:
    compilation = explorer.compile(text.replace("'", '"'), on_demand=True)
    assert compilation.ok, compilation.diagnostics
    (operation,) = [entry for entry in compilation.operations if entry.label == label]
    assert dict(operation.work) == work
