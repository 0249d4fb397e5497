"""A tiny run, so that the first run that is asked for is as fast as the next."""

from __future__ import annotations

from typing import Any

from explorer.runtime import compiling
from explorer.runtime.targets.table import TargetName

TEXT = """score Rehearsal(h: entity, r: relation, t: entity):
    param E[entity, 2]
    return norm(E[h] - E[t], 1)
"""


def rehearse(*targets: TargetName) -> None:
    """Runs a tiny model on targets that are there.

    It loads Numba and makes or loads the machine code of the simulator, which takes up to a minute where none is kept;
    on a GPU it loads CuPy and makes this process's context.
    """
    import numpy as np

    compilation = compiling.compile(TEXT)
    inputs: dict[str, Any] = {index: np.zeros(1, np.int32) for index in "hrt"}
    for name in targets:
        compilation.run({**inputs, "E": np.zeros((1, 2), np.float32)}, on=name)
