"""The reference beside scores written by hand, and the language's rules on shapes worked by hand."""

import ast
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from explorer.runtime.reference import evaluate as reference
from explorer.runtime.reference import functions
from explorer.runtime.reference.text import ReferenceFailure, read_model
from tests.oracles import kge

ENTITIES, RELATIONS = 7, 4
D, K = 6, 5  # different, so that a transposed matrix cannot fit
SIZES = {"D": D, "K": K}


def scoring(body, dims="dim D = 3, K = 2"):
    """The text of a score of these statements."""
    return "\n".join([dims, "", "score Model(h: entity, r: relation, t: entity):", *("    " + line for line in body)])


EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "kge"
ORACLES = {
    "transe_l1": lambda p, h, r, t: kge.transe_l1(p["E"][h], p["R"][r], p["E"][t]),
    "transe_l2": lambda p, h, r, t: kge.transe_l2(p["E"][h], p["R"][r], p["E"][t]),
    "transh": lambda p, h, r, t: kge.transh(p["E"][h], p["R"][r], p["E"][t], p["w"][r]),
    "transr": lambda p, h, r, t: kge.transr(p["E"][h], p["R"][r], p["E"][t], p["P"][r]),
    "transf": lambda p, h, r, t: kge.transf(p["E"][h], p["R"][r], p["E"][t]),
    "rescal": lambda p, h, r, t: kge.rescal(p["E"][h], p["P"][r], p["E"][t]),
    "distmult": lambda p, h, r, t: kge.distmult(p["E"][h], p["R"][r], p["E"][t]),
    "ComplEx": lambda p, h, r, t: kge.complex_(p["Er"][h], p["Rr"][r], p["Er"][t], p["Ei"][h], p["Ri"][r], p["Ei"][t]),
    "RotatE": lambda p, h, r, t: kge.rotate(p["Er"][h], p["phase"][r], p["Er"][t], p["Ei"][h], p["Ei"][t]),
    "TransD": lambda p, h, r, t: kge.transd(p["E"][h], p["R"][r], p["E"][t], p["Ep"][h], p["Rp"][r], p["Ep"][t]),
    "SimplE": lambda p, h, r, t: kge.simple(p["H"][h], p["R"][r], p["T"][t], p["T"][h], p["Inv"][r], p["H"][t]),
}
BODIES = {
    "ComplEx": [
        "param Er[entity, D], Ei[entity, D], Rr[relation, D], Ri[relation, D]",
        "real = Er[h] * Rr[r] - Ei[h] * Ri[r]",
        "imaginary = Er[h] * Ri[r] + Ei[h] * Rr[r]",
        "return dot(real, Er[t]) + dot(imaginary, Ei[t])",
    ],
    "RotatE": [
        "param Er[entity, D], Ei[entity, D], phase[relation, D]",
        "c = cos(phase[r])",
        "s = sin(phase[r])",
        "x = Er[h] * c - Ei[h] * s - Er[t]",
        "y = Er[h] * s + Ei[h] * c - Ei[t]",
        "return sum(sqrt(x * x + y * y))",
    ],
    "TransD": [
        "param E[entity, D], Ep[entity, D], R[relation, D], Rp[relation, D]",
        "head = E[h] + dot(Ep[h], E[h]) * Rp[r]",
        "tail = E[t] + dot(Ep[t], E[t]) * Rp[r]",
        "return norm(head + R[r] - tail)",
    ],
    "SimplE": [
        "param H[entity, D], T[entity, D], R[relation, D], Inv[relation, D]",
        "return 0.5 * (sum(H[h] * R[r] * T[t]) + sum(H[t] * Inv[r] * T[h]))",
    ],
}
MODELS = list(ORACLES)


def text_of(name):
    """The model's text: an example of the project, or the statements above."""
    if name in BODIES:
        return scoring(BODIES[name])
    return (EXAMPLES / f"{name}.emb").read_text(encoding="utf-8")


def draw_tables(text, random):
    """A float32 table for each tensor that the text declares."""
    counts = {"entity": ENTITIES, "relation": RELATIONS, **SIZES}
    return {
        name: random.standard_normal([counts[extent] for extent in extents]).astype(np.float32)
        for name, extents in read_model(text).main(None).tensors
    }


def draw_triples(random, batch=11):
    """Index maps with repeated triples and triples whose head is their tail."""
    h, t = random.integers(0, ENTITIES, (2, batch)).astype(np.int32)
    r = random.integers(0, RELATIONS, batch).astype(np.int32)
    h[1], r[1], t[1] = h[0], r[0], t[0]
    t[2] = h[2]
    return {"h": h, "r": r, "t": t}


def as_float64(tables):
    """The tables as the oracles take them."""
    return {name: table.astype(np.float64) for name, table in tables.items()}


@pytest.mark.parametrize("name", MODELS)
def test_random_batches_equal_the_oracle(name):
    text, random = text_of(name), np.random.default_rng(1)
    tables, ids = draw_tables(text, random), draw_triples(random)
    got = reference.score(text, {**tables, **ids}, SIZES)
    want = ORACLES[name](as_float64(tables), ids["h"], ids["r"], ids["t"])
    assert got.dtype == np.float64
    assert got.shape == (11,)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", ["tail", "head"])
def test_negatives_equal_the_oracle_and_the_true_one_its_positive(name, mode):
    """Trap 1: a corrupted entity that is the true one must score as the positive does."""
    text, random = text_of(name), np.random.default_rng(2)
    tables, ids = draw_tables(text, random), draw_triples(random)
    corrupted = mode[0]
    negative = random.integers(0, ENTITIES, (11, 3)).astype(np.int32)
    negative[:, 1] = ids[corrupted]
    wide = {entry: array[:, None] for entry, array in ids.items()} | {corrupted: negative}
    got = reference.score(text, {**tables, **ids, corrupted: negative}, SIZES, negatives=f"{mode}:3")
    assert got.shape == (11, 3)
    want = ORACLES[name](as_float64(tables), wide["h"], wide["r"], wide["t"])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    positive = reference.score(text, {**tables, **ids}, SIZES)
    np.testing.assert_allclose(got[:, 1], positive, rtol=1e-12)


# Trap 2: one triple in two dimensions, worked by hand: h = (1, 2), t = (4, -2), so h - t = (-3, 4).
LITERAL_TABLES = {
    "E": [[1, 2], [4, -2]],
    "R": [[2, 8]],
    "w": [[1, 2]],
    "P": [[[1, 2], [3, 5]]],
    "Er": [[1, 2], [4, -2]],
    "Ei": [[3, 0], [1, 1]],
    "Rr": [[2, 8]],
    "Ri": [[1, -1]],
    "phase": [[0, math.pi]],
    "Ep": [[1, 1], [0, 1]],
    "Rp": [[1, -1]],
    "H": [[1, 2], [4, -2]],
    "T": [[3, 0], [1, 1]],
    "Inv": [[1, -1]],
}
LITERALS = {
    "transe_l1": 13,  # (-1, 12)
    "transe_l2": math.sqrt(145),
    "transh": math.sqrt(40),  # a = 5; (-1, 12) - (5, 10) = (-6, 2)
    "transr": math.sqrt(11**2 + 22**2),  # (-3 + 12, -6 + 20) = (9, 14); with R (11, 22)
    "transf": 2 * 0 + (3 * 2 - 4 * 8),  # h.t = 4 - 4; (t - h).R
    "rescal": 7 * 4 - 12 * 2,  # h P = (1 + 6, 2 + 10)
    "distmult": 8 - 32,
    "ComplEx": 3 - 34,  # (1+3i)(2+i)(4-i) = (-1+7i)(4-i), real 3; 2(8-i)(-2-i), real -34
    "RotatE": math.sqrt(13) + 1,  # |1+3i - (4+i)|; 2 turned by pi is -2, |-2 - (-2+i)|
    "TransD": math.sqrt(4**2 + 7**2),  # h' = (1, 2) + 3 (1, -1) = (4, -1); t' = (4, -2) - 2 (1, -1) = (2, 0)
    "SimplE": (18 + 12) / 2,  # (1, 2).(2, 8).(1, 1) and (4, -2).(1, -1).(3, 0)
}


@pytest.mark.parametrize("name", MODELS)
def test_a_triple_worked_by_hand(name):
    tables = {entry: np.array(rows, dtype=np.float32) for entry, rows in LITERAL_TABLES.items()}
    ids = {entry: np.array([at], dtype=np.int32) for entry, at in (("h", 0), ("r", 0), ("t", 1))}
    got = reference.score(text_of(name), {**tables, **ids}, {"D": 2, "K": 2})
    assert got == pytest.approx([LITERALS[name]], rel=1e-7)
    if name != "RotatE":  # whose pi is rounded to float32
        assert got == pytest.approx([LITERALS[name]], rel=1e-14)
    want = ORACLES[name](as_float64(tables), ids["h"], ids["r"], ids["t"])
    assert got == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("p", [1, 2])
def test_the_norm_of_a_zero_row_is_zero(p):
    tables = {"E": np.ones((2, 3), dtype=np.float32), "R": np.zeros((1, 3), dtype=np.float32)}
    ids = {"h": np.array([0]), "r": np.array([0]), "t": np.array([1])}
    body = ["param E[entity, D], R[relation, D]", f"return norm(E[h] + R[r] - E[t], {p})"]
    assert reference.score(scoring(body), {**tables, **ids}, {}) == [0.0]


def evaluate(expression, declarations, values, **sizes):
    """A scalar expression of tensors without index sets, `declarations` as in `param`."""
    given = {name: np.array(value, dtype=np.float32) for name, value in values.items()}
    ids = {name: np.array([0]) for name in "hrt"}
    text = scoring([f"input {declarations}", f"return {expression}"], "dim H = 2, F = 3, G = 4")
    return reference.score(text, {**given, **ids}, sizes)[0]


ARRAYS = {
    "x[F]": [1, -2, 3],
    "y[H, F]": [[1, -2, 3], [0.5, 4, -1]],
    "W[F, G]": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]],
    "V[H, F, G]": [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3]], [[4, 5, 6, 7], [8, 9, 1, 2], [3, 4, 5, 6]]],
    "s[H]": [2, -3],
    "q[G]": [1, -1, 2, 0.5],
    "S[F, F]": [[1, 2, 3], [4, 5, 6], [7, 8, 10]],
    "z[F, F]": [[2, 0, 1], [1, 3, 5], [2, 2, 9]],
    "Y[F, F, F]": np.arange(27).reshape(3, 3, 3),
}
x, y, W, V, s, q, S, z, Y = (np.array(value, dtype=np.float64) for value in ARRAYS.values())
EXPRESSIONS = {
    # `@`: a row by a matrix, a matrix by a row, two matrices; batched; repeated; and the row reading that wins.
    "sum(x @ W)": (x[0] * W[0] + x[1] * W[1] + x[2] * W[2]).sum(),
    "sum(W @ q)": sum((W[i] * q).sum() for i in range(3)),
    "dot(x @ S, x)": sum(x[i] * S[i, j] * x[j] for i in range(3) for j in range(3)),
    "sum((x @ S.T)[0:1])": (x * S[0]).sum(),
    "sum(sum(S @ W))": sum(S[i, j] * W[j].sum() for i in range(3) for j in range(3)),
    "sum(sum(x @ V))": sum((x @ V[i]).sum() for i in range(2)),
    "sum(sum(V @ q))": sum((V[i] @ q).sum() for i in range(2)),
    "sum(sum(y @ W))": sum((y[i] @ W).sum() for i in range(2)),
    "sum(sum((y @ V) @ W.T))": sum((y[i] @ V[i] @ W.T).sum() for i in range(2)),
    "sum(sum(sum(S @ V)))": sum((S @ V[i]).sum() for i in range(2)),
    "sum(sum(z @ Y))": sum((z[i] @ Y[i]).sum() for i in range(3)),
    # A prefix scales rows, from either side.
    "sum(sum(s * y))": sum(s[i] * y[i].sum() for i in range(2)),
    "sum(sum(y / s))": sum(y[i].sum() / s[i] for i in range(2)),
    "sum(sum(sum(V - s)))": sum((V[i] - s[i]).sum() for i in range(2)),
    "dot(sum(y), s)": (y.sum(axis=1) * s).sum(),
    # The last dimension in parts, and the same elements in another shape.
    "sum(x[1:3])": 1.0,
    "sum(x[:F - 1])": -1.0,
    "dot(concat(x, q), concat(x, q))": 20.25,
    "sum(sum(reshape(W, G, F)[1:2]))": 2 + 5 + 8 + 11,
    "sum(sum(outer(x, q)[2:4]))": 2 * 2.5,
    # Functions.
    "max(x) + min(x) + mean(x)": 3 - 2 + 2 / 3,
    "sum(max(x, 0.5)) + sum(min(0.5, x))": (1 + 0.5 + 3) + (0.5 - 2 + 0.5),
    "norm(x, 1) + norm(x) + norm(p=2, x=x)": 6 + 2 * math.sqrt(14),
    "max(x, y=max(x=x)) @ x": 3 * 2.0,
    "inner_prod(x, x) + dot_prd(x, x) + dot_prod(x, x)": 42.0,
    "sum(linear(x, W)) + sum(sum(outer_prod(x, x)))": (x @ W).sum() + 4,
    "sum(exp(x) + log(abs(x)) + sqrt(abs(x)) + sign(x))": sum(
        math.exp(v) + math.log(abs(v)) + math.sqrt(abs(v)) + math.copysign(1, v) for v in (1, -2, 3)
    ),
    "sum(relu(x)) + sum(leaky_relu(x)) + sum(leakyrelu(x, 0.2)) + sum(leaky_relu(x, slope=0.5))": (
        4 + (4 - 0.02) + (4 - 0.4) + (4 - 1)
    ),
    "sum(sigmoid(x) + tanh(x) + sin(x) + cos(x))": sum(
        1 / (1 + math.exp(-v)) + math.tanh(v) + math.sin(v) + math.cos(v) for v in (1, -2, 3)
    ),
    "sum(gelu(x))": sum(0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in (1, -2, 3)),
    "sigmoid(-1000.0) + sigmoid(1000.0)": 1.0,
    "sum(log1p(abs(x)) + softplus(x) - logsigmoid(x))": sum(
        math.log(1 + abs(v)) + math.log(1 + math.exp(v)) + math.log(1 + math.exp(-v)) for v in (1, -2, 3)
    ),
    "log1p(1e-30) + softplus(-50.0)": 1e-30 + math.exp(-50) - math.exp(-100) / 2,
    "softplus(1000.0) - 1000.0 + logsigmoid(1000.0) + softplus(-1000.0)": 0.0,
    # Sizes are numbers, and operators bind as in Python.
    "sum(x) / sqrt(F) - -F * 2": 2 / math.sqrt(3) + 6,
    "1 - 2 - 3 + 8 / 4 / 2": -3.0,
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_worked_by_hand(expression):
    values = {name.split("[")[0]: value for name, value in ARRAYS.items()}
    assert evaluate(expression, ", ".join(ARRAYS), values) == pytest.approx(EXPRESSIONS[expression], rel=1e-14)


def test_sizes_override_the_defaults_of_the_text():
    assert evaluate("sum(x) + F", "x[F]", {"x": [1, 2, 3, 4, 5]}, F=5) == 20


def test_helpers_are_inlined_and_the_last_score_or_the_named_one_runs():
    text = """
dim D = 2
def twice(v, by=2): # a helper
    more = v * by
    return more

def add(a, b):
    return twice(a) + b

score First(h: entity, r: relation, t: entity):
    "counts"
    param E[entity, D], b[relation]
    return sum(add(E[h], E[t])) + b[r]

score Second(h: entity, r: relation, t: entity):
    param E[entity, D]
    return sum(twice(E[h], 3))

def unused(a):
    return a
"""
    given = {"E": np.array([[1, 2], [3, 4]], dtype=np.float32), "b": np.array([0.5], dtype=np.float32)}
    ids = {"h": np.array([0, 1]), "r": np.array([0, 0]), "t": np.array([1, 0])}
    assert list(reference.score(text, {**given, **ids}, {})) == [9, 21]
    assert list(reference.score(text, {**given, **ids}, {}, name="First")) == [13.5, 17.5]


def test_numbers_known_before_the_run_may_have_names():
    text = """
dim D = 4, K = D // 2 + 1
def take(X, i, n=K - 1):
    return X[i][:n]
score Model(h: entity, r: relation, t: entity):
    param E[entity, D]
    half = min(K - 1, D)
    slope = 1 / sqrt(D)
    return sum(take(E, h)) + sum(leaky_relu(-E[t][half:], slope)) + norm(E[t], half - 1)
"""
    ids = {"h": np.array([0]), "r": np.array([0]), "t": np.array([1])}
    table = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert reference.score(text, {"E": table, **ids}, {}) == [3 - 7.5 + 26]
    assert reference.score(text, {"E": table, **ids}, {"K": 4}) == [6 - 4 + math.sqrt(25 + 36 + 49 + 64)]


def test_whatever_the_language_allows_is_read():
    text = (
        """\ufeff
dim D = (1 +   # half
    1), width = 007 // 3 - \\
    0
score Model(source: entity, r: relation, t: entity,): # "odd
    """
        + '"ends in \\"'
        + """
    param E[entity,
                 D,], R[relation]  # the rest
    \"\"\"param E[entity, D]
    on two lines\"\"\"
    total = sum(E[source,]
               * 0.050e+01)
    return total + R[r] * D - 1e-05 * width
"""
    )
    given = {"E": np.array([[1, 2], [3, 4]]), "R": np.array([0.5])}
    ids = {"source": np.array([1]), "r": np.array([0]), "t": np.array([0])}
    assert reference.score(text.replace("\n", "\r\n"), {**given, **ids}, {}) == [3.5 + 1 - 2e-5]


def test_a_tensor_may_have_two_index_sets():
    body = ["param M[entity, relation, D]", "return sum(M[t, r])"]
    table = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    ids = {"h": np.array([0]), "r": np.array([3]), "t": np.array([1])}
    assert reference.score(scoring(body), {"M": table, **ids}, {}) == [21 + 22 + 23]


def test_a_sum_of_a_thousand_terms_is_no_deeper_than_one_of_two():
    body = ["param E[entity, D]", "return sum(" + " + ".join(["E[h]"] * 1000) + ")"]
    ids = {name: np.array([0]) for name in "hrt"}
    assert reference.score(scoring(body), {"E": np.ones((1, 3), np.float32), **ids}, {}) == [3000]


@pytest.mark.parametrize(
    "line",
    [
        "return x",
        "return sum(E[h] ** E[h] if 1 else 2)",
        "return __import__('os')",
        "return sum(E[h] @ dot(E[t], E[t]))",
        "return sum((1).__class__)",
        "for i in E: pass",
        "return sum(E[0])",
        "return (",
    ],
)
def test_what_is_not_the_language_is_refused(line):
    ids = {name: np.array([0]) for name in "hrt"}
    with pytest.raises(ReferenceFailure):
        reference.score(scoring(["param E[entity, D]", line]), {"E": np.ones((1, 3), np.float32), **ids}, {})


def test_transr_at_4096_and_256_takes_little_memory():
    """A matrix a triple would be 2 GiB in float64; the batch goes through in chunks."""
    random = np.random.default_rng(0)
    batch, size = 4096, 256
    tables = {
        "E": random.standard_normal((50, size), dtype=np.float32),
        "R": random.standard_normal((9, size), dtype=np.float32),
        "P": random.standard_normal((9, size, size), dtype=np.float32),
    }
    ids = {name: random.integers(0, 9, batch).astype(np.int32) for name in "hrt"}
    tracemalloc.start()
    got = reference.score(text_of("transr"), {**tables, **ids}, {"D": size, "K": size})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 << 20
    some = slice(None, None, 512)
    want = ORACLES["transr"](as_float64(tables), *(ids[name][some] for name in "hrt"))
    np.testing.assert_allclose(got[some], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("letters", "shapes"),
    [
        ("ab,bc,cd,de,ef->fa", [(64, 64)] * 5),
        ("a,b,c,d,e,f,g,h->", [(64,)] * 8),
        ("a,b,c,a,b,c->", [(64,)] * 6),
        ("ba,cab,,dc->cd", [(5, 4), (3, 4, 5), (), (6, 3)]),
        ("abc->ca", [(5, 4, 3)]),
    ],
)
def test_einsum_makes_no_array_of_all_letters(letters, shapes):
    """Of 64 each, they would be 8 GB at the least."""
    random = np.random.default_rng(4)
    values = [random.normal(size=shape) for shape in shapes]
    tracemalloc.start()
    got = functions.einsum(letters, values, 0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20
    np.testing.assert_allclose(got, np.einsum(letters, *values, optimize=True), rtol=1e-10, atol=1e-10)


def test_it_shares_nothing_with_the_compiler():
    """But for what is not a meaning: how results are compared, and which rows of them."""
    folder = Path(reference.__file__).parent
    sources = set(folder.rglob("*.py")) - {folder / "compare.py", folder / "sampling.py"}
    assert {folder / "evaluate.py", folder / "numbers" / "primitives.py"} < sources
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                assert not any(name.startswith("explorer.compiler") for name in names)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__")


@pytest.mark.parametrize("negatives", ["none", "tail:3"])
def test_chunks_do_not_change_the_scores(monkeypatch, negatives):
    text, random = text_of("transr"), np.random.default_rng(3)
    inputs = {**draw_tables(text, random), **draw_triples(random)}
    if negatives != "none":
        inputs["t"] = random.integers(0, ENTITIES, (11, 3))
    whole = reference.score(text, inputs, SIZES, negatives=negatives)
    monkeypatch.setattr(reference, "CHUNK_BYTES", 1)
    np.testing.assert_allclose(reference.score(text, inputs, SIZES, negatives=negatives), whole, rtol=1e-14)


@pytest.mark.parametrize(("negatives", "shape"), [("none", (0, 2)), ("tail:3", (0, 3, 2))])
def test_a_batch_without_facts_has_scores_and_gradients(negatives, shape):
    text = scoring(["param E[entity, D], R[relation, D]", "return (E[h] * R[r] * E[t])[:2]"])
    none = np.zeros(0, np.int32)
    inputs = {"h": none, "r": none, "t": none if negatives == "none" else np.zeros((0, 3), np.int32)}
    inputs |= {"E": np.ones((4, 3)), "R": np.ones((2, 3))}
    scores, slopes = reference.gradients(text, inputs, {}, np.zeros(shape), ["E"], None, negatives, reference.FLOAT64)
    assert scores.shape == shape
    assert slopes["E"].shape == (4, 3)
    assert not slopes["E"].any()


def test_ids_that_do_not_fit_the_negatives_are_refused():
    text, random = text_of("transr"), np.random.default_rng(3)
    inputs = {**draw_tables(text, random), **draw_triples(random)}
    with pytest.raises(ReferenceFailure, match="do not fit negatives 'tail:3'"):
        reference.score(text, inputs, SIZES, negatives="tail:3")
