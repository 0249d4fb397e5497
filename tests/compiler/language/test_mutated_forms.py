"""Texts with the language's forms, a word or two changed: a diagnostic with a place, or the numbers that are meant.

What a text means is told by the reference, which reads it by itself; where it cannot, the compiler refuses the text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.graph import Graph
from tests.compiler.by_form.forms import FORMS
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.by_form.set_structures import SHAPES
from tests.compiler.models import draw_inputs

from .helpers import check

WORD = re.compile(r'"\w*"|\.\.|\*\*|[<>=!]=|//|\w+|[^\w\s]')
KINDS = (
    ("0", "1", "2", "-1", "3", "0.5", "99", "K", "D", "H"),
    ("E[h]", "E[t]", "R[r]", "P[r]", "P[r][0]", "w", "w[1]", "M[1]", "gamma", "x[n]", "W", "T[i]", "c", "x", "h", "k"),
    ("+", "-", "*", "/", "//", "**", "@", ">", "<", "<=", ">=", "==", "!=", ",", "..", "="),
    ("sum", "max", "min", "mean", "prod", "norm", "softmax", "logsumexp", "floor", "exp", "circulant", "abs", "relu"),
    ("stack", "concat", "roll", "windows", "pow", "where", "dot", "outer", "ccorr", "repeat", "masked", "max", "min"),
    ("axis=0", "axis=-1", "axis=1", "default=0", "p=1"),
    ("(", ")", "[", "]", "for", "in", "range", "return", "param", "if", ":", "::", ".", "[::-1]", "[1:]", ".T", ""),
)
"""Words, those of one line in place of one another."""
FORM_TEXTS = {name: form.text for name, form in (*FORMS.items(), *SET_FORMS.items())}
EACH = 8
"""Mutants of each text."""


def other(word: str, chosen: random.Random) -> str:
    """What stands in a word's place: mostly another of its kind."""
    kinds = [kind for kind in KINDS if word in [part.split("[")[0].split("=")[0] for part in kind] or word in kind]
    if not kinds or chosen.random() < 0.15:
        return chosen.choice(("", f"{word} {word}", chosen.choice(chosen.choice(KINDS))))
    return chosen.choice(chosen.choice(kinds))


def mutants(name: str) -> Iterator[str]:
    """The text with words of its body in the place of others, left out or twice."""
    text, chosen = FORM_TEXTS[name], random.Random(name)
    places = [found.span() for found in WORD.finditer(text) if found.start() > text.index(":\n")]
    for _ in range(EACH):
        changed = text
        for start, end in sorted(chosen.sample(places, chosen.choice((1, 1, 2))), reverse=True):
            changed = changed[:start] + other(text[start:end], chosen) + changed[end:]
        yield changed


def inputs_for(name: str, compilation: explorer.Compilation) -> dict[str, np.ndarray]:
    if name in FORMS:
        return draw_inputs(compilation, batch=3, entities=4, relations=2)
    return inputs_of(SET_FORMS[name])


def _computed_ids(graph: Graph) -> dict[str, tuple[object, ...]]:
    return {entry.name: (entry.paths, entry.computed, entry.codomain) for entry in graph.maps if entry.computed}


def assert_numbers_are_right(name: str, text: str) -> None:
    """The graph computes what the text means, where that is a number."""
    from explorer.runtime.reference import evaluate

    compilation = explorer.compile(text, on_demand=True)
    inputs = inputs_for(name, compilation)
    graph = compilation.stages["graph"].program
    for tensor in graph.tensors:  # a mutant may declare other shapes
        if tensor.kind != "structure" and name in SET_FORMS:
            shape = SHAPES[SET_FORMS[name].header].get(tensor.name, ())
            if [graph.size(extent) for extent in tensor.dims] != list(shape[len(tensor.sets) :]):
                return
    if _computed_ids(graph) != _computed_ids(explorer.compile(FORM_TEXTS[name]).stages["graph"].program):
        return  # their tables would have other rows
    got = compilation.run(inputs, "graph")
    want = np.broadcast_to(evaluate.evaluate(text, inputs, {}), got.shape)
    known = np.isfinite(want) & (np.abs(want) < 1e6)
    np.testing.assert_allclose(got[known], want[known], rtol=1e-3, atol=1e-3, err_msg=text)


@pytest.mark.parametrize("name", FORM_TEXTS)
def test_a_mutant_has_a_diagnostic_with_a_place_or_right_numbers(name: str) -> None:
    for text in mutants(name):
        result = check(text)
        assert (result.graph is None) == bool(result.diagnostics), text
        for diagnostic in result.diagnostics:
            assert diagnostic.span is not None, text
            assert diagnostic.message in diagnostic.render(text)
        if result.graph is not None:
            assert_numbers_are_right(name, text)


def test_there_are_two_hundred() -> None:
    assert len(FORM_TEXTS) * EACH >= 200


@pytest.mark.parametrize(
    "line",
    [
        "for k in 0..60000:\n        x = x + 1",
        "for k in 0..900:\n        for j in 0..900:\n            x = x",
        "for k in 0..900:\n        x = " + "+" * 50_000 + "x",
        "for i in 0..99:\n        for j in 0..99:\n            for k in 0..99:\n                y = x",
        "x = sum(sum(sum(x * k for k in 0..500) for j in 0..500) for i in 0..500)",
        "x = windows(concat(x, repeat(x, 9000)[0]), 3)",
        "x = sum(circulant(reshape(repeat(E[h], 9000), -1)))",
        "x = x * 9 ** 9 ** 9 ** 9",
        "x = x * " + "2 ** " * 5_000 + "2",
        "x = x + E[h] ** 99999999999",
        "x = x[" + "::-1][" * 300 + "::-1]",
        "x = stack(stack(stack(stack(E[h] for a in 0..32) for b in 0..32) for c in 0..32) for d in 0..32)",
    ],
)
def test_what_would_grow_is_refused_or_small(line: str) -> None:
    """Soon: what a text may unroll to is limited before it is produced."""
    head = "score f(h: entity, r: relation, t: entity):\n    param E[entity, 6]\n    x = E[h]\n"
    text = f"{head}    {line}\n    return sum(x)\n"
    result = check(text)
    assert result.graph is None or len(result.graph.values) <= 1_000
    assert all(diagnostic.span is not None for diagnostic in result.diagnostics)


def test_what_is_in_a_loop_of_no_numbers_is_counted() -> None:
    """It is looked at each time that the loop is come by."""
    helper = f"def f(x):\n    for k in 0..0:\n        y = x{' + x' * 2_000}\n    return x\n"
    score = "score g(h: entity, r: relation, t: entity):\n    param E[entity, 6]\n    x = E[h]\n"
    text = f"{helper}{score}    for k in 0..{{}}:\n        x = f(x)\n    return sum(x)\n"
    assert check(text.format(10)).graph is not None
    (found,) = check(text.format(50)).diagnostics
    assert found.message == "the loop over 0..0 would repeat too much: 0 times 4,002 expressions"


@pytest.mark.parametrize(
    "size", ["2 ** 9 ** 9", "2 * (" * 20 + "1" + ")" * 20, "- " * 5_000 + "3", "1 " + "+ 1 " * 9_000]
)
def test_sizes_that_nest_are_refused_or_known(size: str) -> None:
    result = check(
        f"dim D = {size}\nscore f(h: entity, r: relation, t: entity):\n    param E[entity, D]\n    return sum(E[h])\n"
    )
    assert (result.graph is None) == bool(result.diagnostics)
