"""Models from the literature that no example has, at their own sizes, forward and with gradients, on the emulator. It
looks at every access; none of their kernels has to, since all that they access is shown to be inside.

They lie beside the project: where they do not, there is nothing to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases.checked import ZOO, cases_of
from benchmarks.gpu_check import Setting, check_model, compiled


@pytest.mark.sweep
@pytest.mark.parametrize("path", sorted(ZOO.glob("*.emb")), ids=lambda path: path.stem)
def test_the_kernels_of_a_model(emulated: Setting, path: Path) -> None:
    for case in cases_of(path.read_text()):
        lines = compiled(case).stages["kernels"].lines
        assert not [line.text for line in lines if line.text.startswith("  schedule guard ")]
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
