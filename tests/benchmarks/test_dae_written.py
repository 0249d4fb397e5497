"""Programs written by hand beside compiled ones, in the machine's table."""

from __future__ import annotations

import pytest

from benchmarks import _dae_written


def test_a_program_by_hand_is_checked_and_beside_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dae_written, "CASES", (("MP", "mp", ("com-Youtube/2000",)), ("SLS", "sls", ("RM1:L0",))))
    (row,) = found = _dae_written.rows("MP")
    assert row["matches_reference"]
    assert row["source"] == "simulated"
    assert row["compiled_speed_of_by_hand"] == pytest.approx(row["by_hand_cycles"] / row["compiled_cycles"])
    shown = _dae_written.table(found)
    assert f"{row['compiled_cycles']:,.0f}" in shown
    assert "D = 128" in shown
    assert "published" in shown
    assert "WRONG" in _dae_written.table([row | {"matches_reference": False}])


def test_every_program_by_hand_has_rows() -> None:
    folder = _dae_written.CHECKOUT / "examples" / "embedding"
    assert {name for _, name, _ in _dae_written.CASES} == {path.stem for path in folder.glob("*.dlc")}
