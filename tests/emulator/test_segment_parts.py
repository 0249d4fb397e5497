"""Rows that are few and long, their segments in parts: by what counts say; lists here are short, and some are empty, so
that many parts are."""

from __future__ import annotations

import pytest

import explorer
from benchmarks.gpu_check import Setting, judged, op_inputs
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.module import Module
from explorer.runtime.reference.evaluate import Meaning
from tests.emulator.conftest import launch

PAGED = """dim G = 2, M = 3, S = 4, D = {D}
op Paged(q: blocks of page):
    param K[page, G, S, D], V[page, G, S, D], Q[query, G, M, D]
    for j in q:
        j["s"] = Q[q] @ K[j].T
    top = max(max(j["s"]) for j in q)
    total = sum(sum(exp(j["s"] - top)) for j in q)
    return sum(exp(j["s"] - top) @ V[j] for j in q) / max(total, 0.000001)
"""
"""A maximum of a row of rows, and two sums that need it."""
LINEAR = """dim H = 3, D = {D}
op Linear(A: csr[left, right]):
    param Q[left, H, D], K[right, H, D], V[right, H, D]
    for i in A.rows():
        s = sum(outer(relu(K[j]) + 0.1, V[j]) for j in A.row(i))
        z = sum(relu(K[j]) + 0.1 for j in A.row(i))
        f = relu(Q[i]) + 0.1
        i["o"] = (f @ s) / (dot(f, z) + 0.001)
    return i["o"]
"""
"""Sums of matrices, which the rows' own vectors are multiplied with."""
LOGS = """dim D = {D}
op Logs(A: csr[row, col]):
    param X[col, D], w[col], c[row]
    for i in A.rows():
        top = max(X[j] + a for j, a in A.row(i))
        low = min(w[j] * a for j, a in A.row(i))
        i["y"] = top * low + log(sum(exp(X[j] + a - top) for j, a in A.row(i)) + 0.000001) + c[i]
    return i["y"]
"""
"""A maximum and a minimum, and a sum that needs the one."""
SOFTMAX = """dim D = {D}
op Softmax(A: csr[row, col]):
    param X[col, D], w[col]
    for i in A.rows():
        top = max(w[j] * a for j, a in A.row(i))
        total = sum(exp(w[j] * a - top) for j, a in A.row(i))
        i["y"] = sum(exp(w[j] * a - top) * X[j] for j, a in A.row(i)) / max(total, 0.000001)
    return i["y"]
"""
"""Sums that are scaled while their maximum grows: of numbers, and of rows by one number's."""
MEANS = """dim D = {D}
op Means(b: bag of row):
    param T[row, D], c[D]
    return (sum(T[i] for i in b) + c) / max(sum(1 for i in b), 1)
"""
"""A sum in an output, which is gone on with."""
LARGEST = """dim D = {D}
op Largest(b: bag of row):
    param T[row, D]
    return max(T[i] for i in b)
"""
"""A maximum in an output."""
COUNTS = {
    MEANS: {"bags": 16, "rows": 32_768, "entries": 16_384},
    LARGEST: {"bags": 16, "rows": 32_768, "entries": 16_384},
    PAGED: {"queries": 64, "pages": 32_768, "entries": 8_192},
    LINEAR: {"lefts": 3, "rights": 100, "nonzeros": 900},
    LOGS: {"rows": 64, "cols": 32_768, "nonzeros": 100_000},
    SOFTMAX: {"rows": 64, "cols": 32_768, "nonzeros": 8_192},
}


def compiled(text: str, size: int, counts: dict[str, int]) -> explorer.Compilation:
    kernel = {SOFTMAX: "Softmax_0", LOGS: "Logs_0"}.get(text)  # of which pieces of nonzeros are usual
    schedule = {f"{kernel}.strategy": "segment_parts"} if kernel else {}
    return explorer.compile(text.format(D=size), counts=counts, schedule=schedule, on_demand=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [6, 41, 64])
@pytest.mark.parametrize("text", COUNTS, ids=["means", "largest", "paged", "linear", "logs", "softmax"])
def test_the_numbers_of_rows_in_parts(emulated: Setting, text: str, size: int) -> None:
    compilation = compiled(text, size, COUNTS[text])
    assert "_parts = " in compilation.stages["kernels"].text or (text == LINEAR and size > 6)  # a tile's outer products
    given = op_inputs(emulated, compilation)
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, None)
    got = finish(*launch(compilation, arrays))[0]
    outcome = judged(compilation, [got], Meaning(text.format(D=size), given, compilation.sizes).result())
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("parts", [2, 32])
def test_other_parts_give_the_same_numbers(emulated: Setting, parts: int) -> None:
    text = PAGED.format(D=6)
    usual = compiled(PAGED, 6, COUNTS[PAGED]).schedule
    wanted = {key: parts for key, value in usual.items() if key.endswith(".parts") and value != parts}
    assert wanted
    compilation = explorer.compile(text, counts=COUNTS[PAGED], schedule=wanted, on_demand=True)
    assert wanted.items() <= dict(compilation.schedule).items()
    given = op_inputs(emulated, compilation)
    assert compilation.encode is not None
    arrays, finish = compilation.encode(compilation, given, None)
    got = finish(*launch(compilation, arrays))[0]
    outcome = judged(compilation, [got], Meaning(text, given, compilation.sizes).result())
    assert outcome["agrees"], outcome


@pytest.mark.parametrize("text", [PAGED, LINEAR, LOGS, SOFTMAX], ids=["paged", "linear", "logs", "softmax"])
def test_only_rows_that_are_few_and_long_have_parts(text: str) -> None:
    def parts(rows: int, elements: int) -> set[str]:
        first, second, entries = COUNTS[text]
        program = compiled(text, 6, {first: rows, second: 9, entries: elements}).stages["kernels"].program
        kernels = program.programs if isinstance(program, Module) else (program,)
        assert all(isinstance(kernel, ScheduledKernel) for kernel in kernels)
        return {str(number) for kernel in kernels for name, number in kernel.counts if name.endswith("_parts")}

    rows = next(iter(COUNTS[text]))
    assert parts(32, 8_192) == {f"32 * {rows}"}
    assert parts(1, 100_000) == {f"64 * {rows}"}
    assert parts(1_000, 4_000) == set()
    assert parts(10_000, 1_000_000) == set()


@pytest.mark.parametrize(
    ("pooled", "rows", "parted"),
    [
        ("sum(T[i] for i in b)", 32, True),
        ("sum(T[i] for i in b)", 256, False),  # a warp has all that it waits for in two loads
        ("sum(sum(tanh(W * T[i])) * T[i] for i in b)", 64, True),
        ("log(sum(exp(T[i]) for i in b))", 64, True),
    ],
)
def test_lists_are_walked_where_few_loads_are_waited_for(pooled: str, rows: int, *, parted: bool) -> None:
    text = f"""dim D = 128
op Pooled(b: bag of row):
    param T[row, D], W[D]
    return {pooled}
"""
    counts = {"bags": rows, "rows": 32_768, "entries": 8_192}
    assert ("strategy = segment_parts" in explorer.compile(text, counts=counts).stages["kernels"].text) == parted
