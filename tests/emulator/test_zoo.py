"""Models from the literature that no example has, at their own sizes, forward and with gradients, on the emulator.

They lie beside the project: where they do not, there is nothing to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_check import ZOO, Setting, cases_of, check_model

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("path", sorted(ZOO.glob("*.emb")), ids=lambda path: path.stem)
def test_the_kernels_of_a_model(emulated: Setting, path: Path) -> None:
    for case in cases_of(path.read_text()):
        outcome = check_model(emulated, case)
        assert outcome["agrees"], (case.options, outcome)
