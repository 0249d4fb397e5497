"""The work of loop nests by operation, and whose share of it the kernels of a GPU have that are made of a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.compiler.interpret.asked_work import UncountableError, Whose, asked_work
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.node import Extent
from explorer.runtime.shares.times import Timed


def work_of(nest: Kernel, arrays: Mapping[str, Any], extents: Mapping[Extent, int]) -> Mapping[Whose, float]:
    """By operation the loads, computations and stores of a nest; nothing of one that cannot be counted."""
    try:
        return asked_work(nest, arrays, extents)
    except UncountableError:
        return {}


def of_launches(
    launches: Sequence[tuple[str, float]],
    nests: Sequence[Kernel],
    arrays: Mapping[str, Any],
    extents: Mapping[Extent, int],
) -> list[Timed]:
    """Kernels with their milliseconds, each with the work of the nest that it is made of, whose name its own begins
    with: `RGAT_0_tiles` is of `RGAT_0`."""
    work = {nest.name: work_of(nest, arrays, extents) for nest in nests}
    found = []
    for symbol, ms in launches:
        names = [name for name in work if symbol == name or symbol.startswith(f"{name}_")]
        found.append(Timed(symbol, ms, work[max(names, key=len)] if names else {}))
    return found
