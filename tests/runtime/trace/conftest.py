"""The kernels of traced modules, run as the Python that they are: to compile two for each takes nearly all of the time.
tests/runtime/test_traced.py has machine code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def without_machine_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Numba's compiler is left out, and what it left is kept for nobody else."""
    numba = pytest.importorskip("numba", reason="what is traced runs by Numba on a CPU")
    from explorer.runtime.targets import cpu, narrow
    from explorer.runtime.torch import ids

    kept = (cpu.prepare_once, cpu._machine_code, narrow.from_bits, ids._compiled)
    for each in kept:
        each.cache_clear()
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    with np.errstate(all="ignore"):  # as machine code does
        yield
    for each in kept:
        each.cache_clear()
