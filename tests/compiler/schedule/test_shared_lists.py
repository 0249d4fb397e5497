"""Tiles of facts and of the negatives that a chunk of them shares: what fits, and that all give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import explorer
from explorer.compiler.decisions import Schedule
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.runtime.reference import evaluate as reference
from tests.compiler.models import compiled, draw_inputs
from tests.compiler.random_models import model_texts

ENTITIES, RELATIONS = 40, 5
Inputs = dict[str, Any]


class Score(NamedTuple):
    """A score's lines behind its header, and what they mean of rows by name: each [batch, negatives, ...]."""

    body: str
    means: Callable[..., Any]


def text_of(score: Score, D: int) -> str:
    body = "\n    ".join(score.body.splitlines())
    return f"dim D = {D}\nscore S(h: entity, r: relation, t: entity):\n    {body}\n"


def complex_product(x: Any, y: Any, z: Any) -> Any:
    x, y, z = (a[..., 0::2] + 1j * a[..., 1::2] for a in (x, y, z))
    return (x * y * z.conj()).sum(-1).real


def halves(x: Any) -> Any:
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:]


PLAIN = "param E[entity, D], R[relation, D]\n"
SCORES = {
    "distmult": Score(PLAIN + "return sum(E[h] * R[r] * E[t])", lambda E, R: (E.h * R.r * E.t).sum(-1)),
    "transe, l1": Score(PLAIN + "return norm(E[h] + R[r] - E[t], 1)", lambda E, R: np.abs(E.h + R.r - E.t).sum(-1)),
    "transe, l2": Score(
        PLAIN + "return norm(E[h] + R[r] - E[t])", lambda E, R: np.sqrt(((E.h + R.r - E.t) ** 2).sum(-1))
    ),
    "complex, of two tables": Score(
        "param A[entity, D], B[entity, D], P[relation, D], Q[relation, D]\n"
        "x = A[h] * P[r] - B[h] * Q[r]\ny = A[h] * Q[r] + B[h] * P[r]\nreturn dot(x, A[t]) + dot(y, B[t])",
        lambda A, B, P, Q: ((A.h + 1j * B.h) * (P.r + 1j * Q.r) * (A.t - 1j * B.t)).sum(-1).real,
    ),
    "complex, of halves": Score(
        "param E[entity, 2 * D], R[relation, 2 * D]\na = E[h][:D]\nb = E[h][D:]\np = R[r][:D]\nq = R[r][D:]\n"
        "return dot(a * p - b * q, E[t][:D]) + dot(a * q + b * p, E[t][D:])",
        lambda E, R: (halves(E.h) * halves(R.r) * halves(E.t).conj()).sum(-1).real,
    ),
    "rotate": Score(
        "param E[entity, 2 * D], R[relation, D]\nc = cos(R[r])\ns = sin(R[r])\n"
        "u = E[h][:D] * c - E[h][D:] * s - E[t][:D]\nv = E[h][:D] * s + E[h][D:] * c - E[t][D:]\n"
        "return sum(sqrt(u * u + v * v))",
        lambda E, R: np.abs(halves(E.h) * np.exp(1j * R.r) - halves(E.t)).sum(-1),
    ),
    "rows and numbers of all": Score(
        "param E[entity, D], R[relation, D], b[entity], c[relation], w[D], g\n"
        "return sigmoid(sum(w * tanh(E[h] * c[r] - E[t] * b[t])) + b[h] * b[t] + g + norm(E[h]))",
        lambda E, R, b, c, w, g: (
            1
            / (
                1
                + np.exp(
                    -(
                        (w.all * np.tanh(E.h * c.r[..., None] - E.t * b.t[..., None])).sum(-1)
                        + b.h * b.t
                        + g.all
                        + np.sqrt((E.h**2).sum(-1))
                    )
                )
            )
        ),
    ),
    "a product of each fact": Score(
        "param E[entity, D], M[relation, D, D]\nreturn dot(E[h] @ M[r], E[t])",
        lambda E, M: np.einsum("...a,...ab,...b->...", E.h, M.r, E.t),
    ),
}
SETS = {"entity": ENTITIES, "relation": RELATIONS}


class Rows(NamedTuple):
    """A table's rows at the ids of each pair, and all of it."""

    h: Any
    r: Any
    t: Any
    all: Any


def drawn(compilation: explorer.Compilation, batch: int, negatives: str) -> Inputs:
    """Ids and tensors, with a list of the corrupted end for each chunk."""
    random = np.random.default_rng(1)
    graph: Any = compilation.stages["graph"].program
    end, _, numbers = negatives.partition(":")
    count, sharing = map(int, numbers.split("/"))
    shapes = {"h": (batch,), "r": (batch,), "t": (batch,), end[0]: (-(-batch // sharing), count)}
    inputs = {
        e.name: random.integers(0, SETS[e.codomain], shapes[e.name]).astype(np.int32) for e in graph.maps if not e.paths
    }
    for tensor in graph.tensors:
        shape = (*(SETS[name] for name in tensor.sets), *map(graph.size, tensor.dims))
        inputs[tensor.name] = random.normal(size=shape).astype(np.float32) / 2
    return inputs


def wanted(score: Score, inputs: Inputs, batch: int, negatives: str) -> Any:
    """What the scores are in float64."""
    sharing = int(negatives.partition("/")[2])
    ids = {
        name: inputs[name].repeat(sharing, axis=0)[:batch] if inputs[name].ndim == 2 else inputs[name][:, None]
        for name in "hrt"
    }
    tables = {name: np.asarray(array, np.float64) for name, array in inputs.items() if name not in ids}

    def rows(table: Any) -> Rows:
        found = (table[each] if table.ndim and ids[name].max() < len(table) else None for name, each in ids.items())
        return Rows(*found, table)

    used = score.means.__code__.co_varnames[: score.means.__code__.co_argcount]
    return score.means(**{name: rows(tables[name]) for name in used})


def steps_of(compilation: explorer.Compilation) -> list[ScheduledKernel]:
    program: Any = compilation.stages["kernels"].program
    return list(program.programs) if isinstance(program, Module) else [program]


def is_tiled(compilation: explorer.Compilation) -> bool:
    return any(step.template == "shared_lists" for step in steps_of(compilation))


CASES = [
    (16, 75, "tail:70/32"),
    (7, 40, "head:16/20"),
    (36, 33, "tail:5/64"),
    (1, 9, "head:65/8"),
    (64, 100, "head:3/90"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("D", "batch", "negatives"), CASES)
def test_tiles_of_a_score_give_what_numpy_gives(name: str, D: int, batch: int, negatives: str) -> None:
    compilation = compiled(text_of(SCORES[name], D), options={"negatives": negatives}, on_demand=True)
    inputs = drawn(compilation, batch, negatives)
    assert is_tiled(compilation)
    want = wanted(SCORES[name], inputs, batch, negatives)
    np.testing.assert_allclose(compilation.run(inputs, "kernels"), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "choices",
    ["tile_facts = 8, tile_negatives = 80", "tile_facts = 96, tile_negatives = 16", "tile_facts = 24, depth = 4"],
)
@pytest.mark.parametrize("name", ["transe, l1", "complex, of halves"])
def test_tiles_of_other_sizes_give_the_same(name: str, choices: str) -> None:
    negatives, text = "tail:70/96", text_of(SCORES[name], 24)
    asked = compiled(text, options={"negatives": negatives}, schedule=Schedule.parse(f"S: {choices}"), on_demand=True)
    assert all(choice in asked.stages["kernels"].text for choice in choices.split(", "))
    inputs = drawn(asked, 200, negatives)
    want = wanted(SCORES[name], inputs, 200, negatives)
    np.testing.assert_allclose(asked.run(inputs, "kernels"), want, rtol=1e-4, atol=1e-4)
    again = compiled(
        text, options={"negatives": negatives}, schedule=Schedule.parse(asked.stages["kernels"].text), on_demand=True
    )
    assert again.stages["cuda"].text == asked.stages["cuda"].text


def test_rows_that_are_elements_of_arrays_are_copied_and_others_computed() -> None:
    options = {"negatives": "tail:64/64"}
    copied = compiled(text_of(SCORES["distmult"], 64), options=options, on_demand=True)
    assert "copy right" in copied.stages["kernels"].text
    narrow = text_of(SCORES["distmult"], 64).replace("E[entity, D]", "E[entity, D]: f16")
    computed = compiled(narrow, options=options, on_demand=True)
    assert is_tiled(computed)
    assert "copy right" not in computed.stages["kernels"].text
    odd = compiled(text_of(SCORES["distmult"], 33), options=options, on_demand=True)
    assert is_tiled(odd)
    assert "copy right" not in odd.stages["kernels"].text


@pytest.mark.parametrize(
    ("body", "negatives", "reason"),
    [
        (SCORES["distmult"].body, "tail:5/75", "chunks of 75 facts have no tiles of threads that part them evenly"),
        (PLAIN + "return max(E[h] * R[r]) * max(E[t])", "tail:5/64", ""),
        (
            PLAIN + "param W[relation, entity, D]\nreturn sum(E[h] * W[r, t])",
            "tail:5/64",
            "what they have of each is no sum of pairs",
        ),
    ],
    ids=["an odd chunk", "maxima", "a row of both"],
)
def test_what_is_no_tile_is_said(body: str, negatives: str, reason: str) -> None:
    compilation = compiled(text_of(Score(body, wanted), 16), options={"negatives": negatives}, on_demand=True)
    refusals = [each for done in compilation.stages["kernels"].passes for each in done.refusals]
    assert is_tiled(compilation) == (not reason)
    assert any(reason in each for each in refusals) or not reason


def test_lists_of_each_fact_are_no_tiles() -> None:
    compilation = compiled(text_of(SCORES["distmult"], 16), options={"negatives": "tail:64"}, on_demand=True)
    assert not is_tiled(compilation)


def test_numbers_of_a_pair_are_read_beside_its_sums() -> None:
    """What is stored twice, what a sum only has of one side, and what comes of the fact inside the loop."""
    score = Score(
        PLAIN + "param b[entity], c[relation], g\n"
        "d = norm(E[h] + R[r] * (b[h] * c[r]) - E[t] * b[t])\nreturn d * g - sum(E[t] * E[t]) / exp(c[r] * b[h])",
        lambda E, R, b, c, g: (
            np.sqrt(((E.h + R.r * (b.h * c.r)[..., None] - E.t * b.t[..., None]) ** 2).sum(-1)) * g.all
            - (E.t**2).sum(-1) / np.exp(c.r * b.h)
        ),
    )
    for negatives in ("tail:33/16", "head:33/16"):
        compilation = compiled(text_of(score, 12), options={"negatives": negatives}, on_demand=True)
        assert is_tiled(compilation)
        inputs = drawn(compilation, 40, negatives)
        want = wanted(score, inputs, 40, negatives)
        np.testing.assert_allclose(compilation.run(inputs, "kernels"), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.sweep)])
def test_random_models_of_shared_lists_give_what_the_reference_gives(times: int) -> None:
    @settings(max_examples=15 * times)
    @given(model_texts(), st.sampled_from(["tail:3/8", "head:2/8", "tail:20/16"]))
    def agrees(text: str, negatives: str) -> None:
        note(text)
        compilation = compiled(text, options={"negatives": negatives}, on_demand=True)
        given_ = draw_inputs(compilation, batch=11, entities=4, relations=2)
        inputs = {name: array if array.dtype == np.int32 else np.clip(array, -1, 1) for name, array in given_.items()}
        want = reference.score(text, inputs, {}, negatives=negatives)
        np.testing.assert_allclose(compilation.run(inputs, "kernels"), want, rtol=2e-4, atol=2e-4)

    agrees()
