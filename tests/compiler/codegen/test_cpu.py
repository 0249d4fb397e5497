"""The fused loops as machine code on the CPU, against the formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.compiler.codegen.cpu.program import gathered_by, generate_host
from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.ir.loops import Kernel
from explorer.runtime.data.triples import InputError
from explorer.runtime.targets.cpu import Prepared, prepare
from tests.compiler.codegen import kernels
from tests.functions import EXACT, OPERANDS, SLOPE

ENTITIES, RELATIONS = 50, 7
Inputs = dict[str, Any]


def draw(kernel: Kernel, batch: int, seed: int = 0) -> Inputs:
    """Inputs for a kernel: random indices, and numbers around 0."""
    random = np.random.default_rng(seed)
    sizes = dict(kernel.sizes) | {"B": batch, "entity": ENTITIES, "relation": RELATIONS}
    inputs: Inputs = {}
    for buffer in kernel.buffers:
        shape = tuple(sizes[extent] if isinstance(extent, str) else extent for extent in buffer.extents)
        if buffer.kind == "index":
            end = RELATIONS if buffer.name == "r" else ENTITIES
            inputs[buffer.name] = random.integers(end, size=shape, dtype=np.int32)
        elif buffer.kind != "output":
            inputs[buffer.name] = random.standard_normal(shape, np.float32)
    return inputs


def wide(inputs: Inputs) -> tuple[Any, ...]:
    """The arrays in order, the numbers as float64."""
    return tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs.values())


def transe(inputs: Inputs) -> Any:
    h, r, t, E, R = wide(inputs)
    return np.linalg.norm(E[h] - E[t] + R[r], axis=-1)


def transr(inputs: Inputs) -> Any:
    h, r, t, E, R, P = wide(inputs)
    return np.linalg.norm(np.einsum("bd,bdk->bk", E[h] - E[t], P[r]) + R[r], axis=-1)


def rescal_tails(inputs: Inputs) -> Any:
    h, r, t, E, P = wide(inputs)
    return np.einsum("bd,bdk,bnk->bn", E[h], P[r], E[t])


def two_products(inputs: Inputs) -> Any:
    h, r, _, E, P, Q = wide(inputs)
    return np.abs(np.einsum("bd,bdk,bkl->bl", E[h], P[r], Q[r])).sum(-1)


def not_interchanged(inputs: Inputs) -> Any:
    h, r, _, E, P = wide(inputs)
    return np.linalg.norm(np.einsum("bd,bdk->bk", E[h], P[r]), axis=-1)


def awkward_names(inputs: Inputs) -> Any:
    index, left, right = wide(inputs)
    return (left[index] * right[index]).sum(-1)


def halves(inputs: Inputs) -> Any:
    h, r, _, E, W = wide(inputs)
    size = W.shape[-1]
    return (E[h][:, :size] * W[h, r] * E[h][:, size:]).sum(-1)


def outer_rows(inputs: Inputs) -> Any:
    h, _, t, E, F = wide(inputs)
    return np.abs(E[h][:, :, None] * F[t][:, None, :]).sum((-2, -1))


def agree(got: Any, want: Any) -> bool:
    """Within 1e-5 of the values' scale: a sum of terms of both signs may come out near 0."""
    scale = np.maximum(np.abs(want), np.abs(want).mean())
    return got.dtype == np.float32 and got.shape == want.shape and bool((np.abs(got - want) <= 1e-5 * scale).all())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        *((kernels.transe(size), transe) for size in (1, 33, 100, 1000)),
        *((kernels.transr(rows, columns), transr) for rows, columns in ((1, 1), (33, 100), (100, 33), (1000, 65))),
        (kernels.rescal_tails(33, 5), rescal_tails),
        (kernels.two_products(33, 100), two_products),
        (kernels.not_interchanged(33, 50), not_interchanged),
        (kernels.awkward_names(), awkward_names),
        (kernels.halves(33), halves),
        (kernels.outer_rows(6, 40), outer_rows),
    ],
    ids=lambda value: f"{value.name} {dict(value.sizes)}" if isinstance(value, Kernel) else "",
)
def test_agrees_with_the_formula(kernel: Kernel, formula: Callable[[Inputs], Any]) -> None:
    compiled = prepare(kernel)
    for batch in (1, 7, 300):
        inputs = draw(kernel, batch)
        assert agree(compiled(inputs), formula(inputs)), batch


def test_an_empty_batch_has_an_empty_result(compiled: Prepared) -> None:
    result = compiled(draw(compiled.program, 0))
    assert result.shape == (0,)
    assert result.dtype == np.float32


def with_errors_off(function: Callable[..., Any], *operands: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*operands)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EXACT)
def test_scalar_functions_are_numpys(name: str) -> None:
    special = [0.0, -0.0, 1.0, -1.0, 0.3, -2.7, 5.5, 88.0, -104.0, np.inf, -np.inf, np.nan]
    x, y = np.meshgrid(np.array(special, np.float32), np.array(special, np.float32))
    inputs = {"h": np.arange(x.size, dtype=np.int32), "x": x.ravel(), "y": y.ravel()}
    got = prepare(kernels.function_of(name))(inputs)
    second = np.float64(SLOPE) if FUNCTIONS[name].parameter else inputs["y"].astype(np.float64)
    want = with_errors_off(EXACT[name], *(inputs["x"].astype(np.float64), second)[: OPERANDS[name]])
    np.testing.assert_allclose(got, with_errors_off(want.astype, np.float32), rtol=1e-5, atol=1e-6)


def test_maxima_keep_a_nan() -> None:
    kernel = kernels.not_interchanged(3, 4)
    inputs = draw(kernel, 1)
    inputs["P"][:] = np.nan
    assert np.isnan(prepare(kernel)(inputs)).all()


def test_iterations_are_grouped_by_the_index_of_large_matrices_alone() -> None:
    assert gathered_by(kernels.transr(64, 64)) == "r"
    assert gathered_by(kernels.transr(64, 63)) is None
    assert gathered_by(kernels.transe(1000)) is None
    assert "b = order[step]" in generate_host(kernels.transr(64, 64)).text
    assert "order" not in generate_host(kernels.transr(64, 64), grouping=False).text


def test_grouping_leaves_each_score_in_its_place() -> None:
    kernel = kernels.transr(64, 65)
    inputs = draw(kernel, 500)
    np.testing.assert_array_equal(prepare(kernel)(inputs), prepare(kernel, grouping=False)(inputs))


@pytest.fixture(scope="module")
def compiled() -> Prepared:
    return prepare(kernels.transr(8, 5))


def test_says_what_it_ran_on_and_how_long_it_compiled(compiled: Prepared) -> None:
    assert "thread" in compiled.device
    assert compiled.compile_ms > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h": np.array([3, ENTITIES], np.int32)}, r"h\[1\] is 50, but E has 50 rows\."),
        ({"r": np.array([RELATIONS, 0], np.int32)}, r"r\[0\] is 7, but [RP] has 7 rows\."),
        ({"t": np.array([3, -1], np.int32)}, r"t holds indices outside 0 to 2147483647\."),
        ({"t": np.array([3, 2**31])}, r"t holds indices outside 0 to 2147483647\."),
        ({"t": np.array([3.0, 1.0])}, r"t holds float64 where indices are whole numbers\."),
        ({"t": np.array([3, 1, 2], np.int32)}, r"t has the shape \[3\], but is declared \[B = 2\]\."),
        ({"E": np.zeros((ENTITIES, 9), np.float32)}, r"E has the shape \[50, 9\], but is declared \[entity, D = 8\]\."),
        ({"R": np.zeros((RELATIONS + 1, 5), np.float32)}, r"P has the shape .*, but is declared \[relation = 8, D = 8"),
    ],
)
def test_refuses_arrays_that_do_not_fit(compiled: Prepared, change: Inputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compiled(draw(compiled.program, 2) | change)


def test_products_take_four_rows_of_a_matrix_at_a_visit_where_they_divide() -> None:
    blocked, whole = (generate_host(kernels.transr(rows, 50)).text for rows in (64, 33))
    assert "in range(16):" in blocked
    assert blocked.count("= P[") == 4
    assert blocked.count("y[k1] += ") == 1
    assert whole.count("= P[") == 1


def nest(depth: int) -> Kernel:
    """The sum of E[h] over so many loops, the parallel one counted."""
    innermost = kernels.accumulate("s", "copy", "e")
    body = [kernels.load("e", "E", "ih", *(f"i{level}" for level in range(1, depth))), innermost]
    for level in range(depth - 1, 0, -1):
        body = [kernels.loop(f"i{level}", 1, *body)]
    return kernels.kernel(
        "Nest",
        {},
        [kernels.buffer("index", "h", "B"), kernels.buffer("param", "E", "entity", *[1] * (depth - 1)), kernels.RESULT],
        *(kernels.load("ih", "h", "b"), kernels.accumulator("s"), *body),
        kernels.store("out", ("b",), "copy", "s"),
    )


def test_nests_as_deep_as_python_allows() -> None:
    inputs = {"h": np.array([1], np.int32), "E": np.arange(2, dtype=np.float32).reshape(2, *[1] * 19)}
    assert prepare(nest(20))(inputs) == [1.0]
    with pytest.raises(InputError, match="loops nest 21 deep; on the CPU they may nest 20 deep"):
        prepare(nest(21))


def test_names_a_missing_array(compiled: Prepared) -> None:
    inputs = draw(compiled.program, 2)
    del inputs["P"]
    with pytest.raises(InputError, match="no array for P"):
        compiled(inputs)


def test_takes_other_integers_and_strides(compiled: Prepared) -> None:
    inputs = draw(compiled.program, 20)
    other = {name: np.repeat(array, 2, axis=0)[::2] for name, array in inputs.items()}
    other |= {name: other[name].astype(np.int64) for name in ("h", "r", "t")}
    np.testing.assert_array_equal(compiled(other), compiled(inputs))
