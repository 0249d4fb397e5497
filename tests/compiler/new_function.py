"""Follows CONTRIBUTING.md: adds its function to the compiler's table and to the reference, and runs it everywhere.

A program of its own (`python -m tests.compiler.new_function`), for what is made from the table is made when modules are
loaded. The machine is interpreted: to compile it for one function takes a minute.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ENTRY, REFERENCE, MEANING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:3]
EDITS = {
    "explorer.compiler.ir.functions": ("TABLE = (\n", ENTRY),
    "explorer.runtime.reference.functions": ("ELEMENTWISE: dict[str, Callable[[Array], Array]] = {\n", REFERENCE),
    "tests.functions": ("EXACT: dict[str, Callable[..., Any]] = {\n", MEANING),
}
"""By module: the line behind which a walkthrough's lines go."""

TEXT = """dim D = 5
score S(h: entity, r: relation, t: entity):
    param E[entity, D], R[relation, D]
    return sum(cube(E[h] - R[r]) * cube(sum(E[t])) * 0.5)
"""
STAGES = ("graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels", "cpu", "dae", "gpu")


def load_with(name: str, behind: str, added: str) -> None:
    """A module as it is with these lines in it, there for all who import it."""
    path = ROOT / f"{name.replace('.', '/')}.py"
    text = path.read_text()
    assert text.count(behind) == 1, name
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(path)
    exec(compile(text.replace(behind, behind + added), str(path), "exec"), module.__dict__)


def main() -> None:
    """Raises AssertionError where a target or the reference has another result or gradient than NumPy in float64."""
    for name, (behind, added) in EDITS.items():
        load_with(name, behind, added)

    import numpy as np

    import explorer
    from explorer.lexers import FUNCTIONS
    from explorer.machine import compiled
    from explorer.runtime.reference import evaluate
    from tests.compiler.models import draw_inputs
    from tests.emulator.conftest import launch

    compiled.part = compiled.called = compiled.entry = lambda function: function
    compilation = explorer.compile(TEXT, options={"grad": True})
    assert compilation.ok, compilation.diagnostics
    targets: Any = compilation.targets
    targets["gpu"] = lambda _, inputs: launch(compilation, inputs)
    inputs = draw_inputs(explorer.compile(TEXT, on_demand=True))
    want, slopes = in_float64(inputs)
    assert "cube" in FUNCTIONS
    np.testing.assert_allclose(evaluate.score(TEXT, inputs, {}), want, rtol=1e-12)
    for stage in STAGES:
        got, gradients = compilation.run(inputs, stage, grad=np.ones_like(want, dtype=np.float32))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=stage)
        for name, slope in slopes.items():
            np.testing.assert_allclose(gradients[name], slope, rtol=1e-4, atol=1e-4, err_msg=f"{stage} {name}")


def in_float64(inputs: Any) -> Any:
    """The scores and their sum's gradients, by hand."""
    import numpy as np

    from tests.functions import EXACT

    E, R = (inputs[name].astype(np.float64) for name in "ER")
    h, r, t = (inputs[name] for name in "hrt")
    difference, total = E[h] - R[r], E[t].sum(-1)
    first, last = EXACT["cube"](difference).sum(-1), EXACT["cube"](total)
    slopes = {"E": np.zeros_like(E), "R": np.zeros_like(R)}
    by_difference = 1.5 * difference**2 * last[:, None]
    np.add.at(slopes["E"], h, by_difference)
    np.add.at(slopes["R"], r, -by_difference)
    np.add.at(slopes["E"], t, np.broadcast_to((1.5 * first * total**2)[:, None], by_difference.shape))
    return 0.5 * first * last, slopes


if __name__ == "__main__":
    main()
