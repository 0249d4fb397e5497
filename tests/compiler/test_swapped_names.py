"""A matrix whose sets are called as maps that lead elsewhere: `csr[col, row]`, as a transpose is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.models import compiled
from tests.compiler.slopes import assert_gives, slopes

TEXT = """dim D = 4
op f(A: coo[col, row]):
    param X[row, D], Y[col, D]
    for i in A.rows():
        i["y"] = sum(a * X[j] * Y[i] for j, a in A.row(i)) + Y[i]
    return i["y"]
"""


def means(i: dict[str, Any]) -> Any:
    found = np.zeros((4, 4))
    np.add.at(found, i["row"], i["value"][:, None] * i["X"][i["col"]] * i["Y"][i["row"]])
    return found + i["Y"]


@pytest.mark.parametrize("encoding", ["coo", "compressed"])
def test_every_target_gives_it_with_gradients(encoding: str) -> None:
    random = np.random.default_rng(0)
    given: dict[str, Any] = {"row": np.array([0, 0, 1, 3, 3, 3]), "col": np.array([0, 2, 1, 0, 1, 2])}
    shapes = {"value": (6,), "X": (3, 4), "Y": (4, 4)}
    given |= {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    upstream = random.normal(size=(4, 4)).astype(np.float32)
    gradients = slopes(means, given, ("X", "Y"), upstream)
    made = compiled(TEXT, options={"grad": True, "encoding": encoding}, on_demand=True)
    for target in ("graph", "loops", "kernels", "slc.opt3", "dlc", "cpu"):
        outcome = made.run(given | {"num_rows": 4, "num_cols": 3}, target, grad=upstream)
        assert_gives(outcome, means(given), gradients, target)
