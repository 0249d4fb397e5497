"""Copies into shared memory on the emulator: products that stage their slabs so, and kernels that do not wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cases.checked import Case
from benchmarks.gpu_check import Setting, check, check_gradients, check_rows, compiled
from explorer.compiler.codegen.cuda.words import COPY, WAIT_FOR_COPIES
from explorer.compiler.ir.kernels import Copy
from explorer.compiler.ir.node import walk
from tests.emulator.emulate import EmulatorFault
from tests.emulator.test_faults import run

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = 64
"""Four slabs, and no column or depth that is not there."""
FUNCTIONS = "\n".join((*COPY, *WAIT_FOR_COPIES))
TILE = "__shared__ __align__(16) float tile[64];"
START = "if (i < 16) copy_async(&tile[4 * i], &x[n - i + 4 * i]);"


def copies(case: Case) -> set[str]:
    """The arrays that a case's kernels copy."""
    compilation = compiled(case)
    program: Any = compilation.stages["kernels"].program
    kernels = getattr(program, "programs", (program,))
    return {node.buffer for kernel in kernels for node in walk(kernel) if isinstance(node, Copy)}


@pytest.mark.parametrize(("name", "copied"), [("transr", {"P"}), ("rescal", {"E", "P"})])
def test_a_score(emulated: Setting, name: str, copied: set[str]) -> None:
    text = (EXAMPLES / "kge" / f"{name}.emb").read_text()
    text = text.replace("dim D = 64, K = 64", "dim D = 64").replace("K]", "D]")  # a case has no two equal dimensions
    case = Case(text, SIZE, 75, {})
    assert copies(case) == copied
    outcome = check(emulated, case)
    assert outcome["agrees"], outcome
    outcome = check_gradients(emulated, Case(text, SIZE, 75, {"grad": "true"}))
    assert outcome["agrees"], outcome


@pytest.mark.parametrize(("name", "features"), [("rgcn", "x"), ("rgat", "feature")])
def test_a_layer(emulated: Setting, name: str, features: str) -> None:
    case = Case((EXAMPLES / "rgnn" / f"{name}.emb").read_text(), SIZE, 0, {"aggregate": "false"})
    assert features in copies(case)
    outcome = check_rows(emulated, case)
    assert outcome["agrees"], outcome


def test_what_was_copied_is_there_behind_a_barrier() -> None:
    body = f"{TILE} {START} wait_for_copies(); __syncthreads(); out[n] = tile[63 - i];"
    out = run(body, before=FUNCTIONS)["out"]
    assert np.array_equal(out, [*range(63, -1, -1), *range(127, 63, -1)])


@pytest.mark.parametrize("missing", ["__syncthreads();", "wait_for_copies();"])
def test_a_copy_that_is_not_waited_for(missing: str) -> None:
    body = f"{TILE} {START} wait_for_copies(); __syncthreads(); out[n] = tile[63 - i]; wait_for_copies();"
    with pytest.raises(
        EmulatorFault, match=r"which nothing has written|which another thread .*, with no barrier between"
    ):
        run(body.replace(missing, "", 1), before=FUNCTIONS)


def test_a_thread_that_does_not_wait_for_its_own_copy() -> None:
    body = f"{TILE} {START} out[n] = i < 16 ? tile[4 * i] : 0.0f;"
    assert np.isnan(run(body, before=FUNCTIONS)["out"][:16]).all()


def test_a_copy_of_what_is_read_still() -> None:
    body = f"{TILE} tile[i] = x[n]; __syncthreads(); out[n] = tile[63 - i]; {START} wait_for_copies();"
    with pytest.raises(EmulatorFault, match=r"which another thread .*, with no barrier between"):
        run(body, before=FUNCTIONS)


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_that_the_kernel_before_has_not_waited_for(seed: int) -> None:
    run(f"{TILE} {START} out[n] = x[n];", before=FUNCTIONS)
    assert np.array_equal(run("out[n] = x[n]; wait_for_copies();", before=FUNCTIONS, seed=seed)["out"], range(128))
