"""Models that users write, from their text to numbers: the graph's meaning is that of the independent reference."""

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import run_program
from explorer.runtime.reference.evaluate import score

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples" / "kge").glob("*.emb"))
HEADER = "score f(h: entity, r: relation, t: entity):\n"
BATCH, ENTITIES, RELATIONS = 6, 7, 3

MODELS = {
    "ComplEx": """
        param Er[entity, D], Ei[entity, D], Rr[relation, D], Ri[relation, D]
        a = Er[h] * Rr[r] - Ei[h] * Ri[r]
        b = Er[h] * Ri[r] + Ei[h] * Rr[r]
        return dot(a, Er[t]) + dot(b, Ei[t])""",
    "RotatE": """
        param Er[entity, D], Ei[entity, D], phase[relation, D]
        c = cos(phase[r])
        s = sin(phase[r])
        re = Er[h] * c - Ei[h] * s - Er[t]
        im = Er[h] * s + Ei[h] * c - Ei[t]
        return sum(sqrt(re * re + im * im + 1e-12))""",
    "TransD": """
        param E[entity, D], Ep[entity, D], R[relation, K], Rp[relation, K]
        a = dot(Ep[h], E[h]) * Rp[r] + E[h][0:K]
        b = dot(Ep[t], E[t]) * Rp[r] + E[t][0:K]
        return norm(a + R[r] - b, 2)""",
    "SimplE": """
        param head[entity, D], tail[entity, D], R[relation, D], Rinv[relation, D]
        return (sum(head[h] * R[r] * tail[t]) + sum(head[t] * Rinv[r] * tail[h])) / 2""",
    "DistMult_with_biases": """
        param E[entity, D], R[relation, D], be[entity], br[relation], scale[K]
        return dot(E[h] * R[r], E[t]) + be[h] + be[t] - br[r] * mean(scale)""",
    "two_layer_MLP": """
        param E[entity, D], R[relation, D], w1[3 * D, H * K], b1[H * K], w2[H * K]
        x = concat(E[h], R[r], E[t])
        return dot(relu(x @ w1 + b1), w2)""",
    "heads": """
        param E[entity, H * K], A[relation, H, K, K], mu[relation, H]
        q = reshape(E[h], H, K)
        k = reshape(E[t], H, -1)
        return sum(dot(q @ A[r], k) * mu[r] / sqrt(K))""",
    "RESCAL_in_one_line": """
        param E[entity, D], P[relation, D, D]
        return E[h] @ P[r] @ E[t]""",
    "RESCAL_transposed": """
        param E[entity, D], P[relation, D, D]
        return dot(P[r].T @ E[h], E[t])""",
    "TransH_with_unit_normal": """
        param E[entity, D], R[relation, D], w[relation, D]
        n = w[r] / norm(w[r])
        e = E[h] - E[t]
        return norm(e + R[r] - outer(n, n) @ e, 1)""",
    "margins_and_functions": """
        param E[entity, D], R[relation, D]
        x = E[h] + R[r] - E[t]
        d = max(0, 1 - sigmoid(sum(abs(x)))) + min(max(x), -min(x))
        return log(1 + exp(-d)) + sum(gelu(x)) + sum(leaky_relu(x, 0.2)) + sum(sign(x) * tanh(x))""",
    "a_matrix_for_two_indices": """
        param M[entity, relation, D], E[entity, D]
        return norm(M[h, r] - M[t, r], 1) * norm(E[h] / 2 - E[t])""",
    "rows_scaled_and_divided": """
        param E[entity, D], P[relation, D, K], w0[D, K]
        m = E[h] * P[r] + w0 / E[t] - E[t]
        return sum(sum(m * m)) + sum(norm(m.T, 1))""",
    "batched_products": """
        param X[relation, H, K], A[relation, H, K, D], w0[K, D]
        a = X[r] @ A[r]
        b = X[r] @ w0
        c = A[r] @ w0.T
        d = A[r].T[0:1]
        return sum(dot(a, b)) + sum(sum(norm(c))) * 0 + sum(sum(sum(c))) + sum(sum(sum(d)))""",
}


def text_of(body: str) -> str:
    """A model of a body, under sizes that differ from each other."""
    lines = [line[4:] for line in body.strip("\n").split("\n")]
    return "dim D = 6, K = 4, H = 2\n" + HEADER + "\n".join(lines) + "\n"


def draw(compilation: explorer.Compilation, counts: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Inputs by name; parameters away from 0, where quotients are tame."""
    graph = compilation.stages["graph"].program
    generator = np.random.default_rng(1)
    extents = {"entity": ENTITIES, "relation": RELATIONS}
    inputs = {
        entry.name: generator.integers(0, extents[entry.codomain], counts[entry.domain]).astype(np.int32)
        for entry in graph.maps
    }
    for tensor in graph.tensors:
        shape = [extents[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
        sign = generator.choice([-1, 1], shape)
        inputs[tensor.name] = (sign * generator.uniform(0.5, 1.5, shape)).astype(np.float32)
    return inputs


@pytest.mark.parametrize("negatives", ["none", "tail:3", "head:2"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_means_what_the_reference_says(name: str, negatives: str) -> None:
    text = text_of(MODELS[name])
    compilation = explorer.compile(text, options={"negatives": negatives})
    assert compilation.ok, "\n".join(entry.render(text) for entry in compilation.diagnostics)
    count = 0 if negatives == "none" else int(negatives[-1])
    inputs = draw(compilation, {"batch": (BATCH,), "negative": (BATCH, count)})
    expected = score(text, inputs, {}, negatives=negatives)
    got, _ = run_program(compilation.stages["graph"].program, inputs)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_operation_of_an_example_is_listed_where_it_stands(path: Path) -> None:
    text = path.read_text()
    compilation = explorer.compile(text)
    lines = text.split("\n")
    for operation in compilation.operations:
        span = operation.span
        assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == operation.label
        assert operation.extent.column <= span.column < span.end_column <= operation.extent.end_column


def test_there_are_the_seven_examples_each_with_its_source() -> None:
    assert {path.stem for path in EXAMPLES} == {
        "transe_l1", "transe_l2", "transh", "transr", "transf", "rescal", "distmult",
    }  # fmt: skip
    for path in EXAMPLES:
        assert path.read_text().startswith("# ")


HAND_WORKED = {
    # E[0] = (1, 2), E[1] = (4, -2); R[0] = (-1, 1); w[0] = (1, 0); P[0] = [[1, 2], [3, 4]].
    "transe_l1": 9.0,  # |-3 - 1| + |4 + 1|
    "transe_l2": 41**0.5,  # (-4, 5)
    "transh": 26**0.5,  # e = (-3, 4), e·w = -3: (-4, 5) + (3, 0) = (-1, 5)
    "transr": 185**0.5,  # (-3, 4) P = (9, 10), + R = (8, 11)
    "transf": -7.0,  # 2 (4 - 4) + (3, -4)·(-1, 1)
    "rescal": 8.0,  # (1, 2) P = (7, 10)·(4, -2)
    "distmult": -8.0,  # (-1, 2)·(4, -2)
}


@pytest.mark.parametrize("name", HAND_WORKED)
def test_an_example_worked_by_hand(name: str) -> None:
    path = next(path for path in EXAMPLES if path.stem == name)
    declared = explorer.compile(path.read_text()).sizes
    compilation = explorer.compile(path.read_text(), sizes=dict.fromkeys(declared, 2))
    values = {
        "E": [[1, 2], [4, -2]],
        "R": [[-1, 1]],
        "w": [[1, 0]],
        "P": [[[1, 2], [3, 4]]],
        "h": [0],
        "r": [0],
        "t": [1],
    }
    wanted = {entry.name for entry in compilation.stages["graph"].program.tensors} | {"h", "r", "t"}
    inputs = {
        key: np.array(value, np.int32 if key in "hrt" else np.float32) for key, value in values.items() if key in wanted
    }
    got, _ = run_program(compilation.stages["graph"].program, inputs)
    np.testing.assert_allclose(got, [HAND_WORKED[name]], rtol=1e-6)
