"""Segments that several threads share: what is stored of a row beside its sum is stored by one of them."""

from __future__ import annotations

import pytest

from benchmarks.cases.checked import Case, cases_of
from benchmarks.gpu_check import Setting, check_model

TWINS = """dim F = 4
layer Twins(g: graph):
    param m[edge, F], x[node, F], T[time, F]
    map rev: edge -> edge
    map when: edge -> time
    for e in g.edges():
        e["s"] = m[e] * x[e.src]
    for e in g.edges():
        e["y"] = {}
    return e["y"]
"""
ABOVE = """dim F = 4
layer Above(g: graph):
    param x[node, F], T[node, F]
    map up: node -> node
    for n in g.nodes():
        n["s"] = T[n] * x[n]
    for n in g.nodes():
        n["y"] = n["s"] * tanh(n.up["s"]) + x[n]
    return n["y"]
"""
TEXTS = {
    "needed behind it": TWINS.format('e["s"] * e.rev["s"] + T[e.when]'),
    "needed in it": TWINS.format('e["s"] * tanh(e.rev["s"])'),
    "of nodes": ABOVE,
}


def gradients(text: str) -> Case:
    return next(case for case in cases_of(text) if case.options["grad"] == "true")


@pytest.mark.parametrize("name", TEXTS)
def test_no_two_threads_store_the_same_row(emulated: Setting, name: str) -> None:
    outcome = check_model(emulated, gradients(TEXTS[name]))
    assert outcome["agrees"], outcome
