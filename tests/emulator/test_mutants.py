"""The rules of kernels find their mutants: a sample; `mutants.py` has as many as there is time for."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from benchmarks.cases.checked import Case
from tests.compiler.swaps import ROOT
from tests.sweep.mutants import Emulated, Tally, hunt

pytestmark = pytest.mark.usefixtures("compiler")
GCN, TRANSE, SDDMM = (ROOT / "examples" / name for name in ("rgnn/gcn.emb", "kge/transe_l1.emb", "embedding/sddmm.emb"))


@pytest.mark.sweep
@pytest.mark.parametrize("path", [GCN, TRANSE, SDDMM], ids=lambda path: path.stem)
def test_what_the_emulator_finds_the_rules_have_found(path: Path) -> None:
    """Wider loops, other indices and other barriers. What a guard says of memory may be beyond the rules."""
    emulated, tally = Emulated(Case(path.read_text(), 8, 75, {})), Tally()
    kinds = {"moved", "widened", "unordered"}
    found = list(hunt(emulated, Random(0), 12, float("inf"), tally, kinds))
    assert found == []
    assert tally.refused["moved"] >= 10
