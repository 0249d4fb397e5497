"""Programs written by hand beside compiled ones, in the machine's table."""

from __future__ import annotations

import pytest

from benchmarks.simulated import by_hand


def test_a_program_by_hand_is_checked_and_beside_the_compiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "CASES", (("MP", "mp", ("com-Youtube/2000",)), ("SLS", "sls", ("RM1:L0",))))
    (row,) = found = by_hand.rows("MP")
    assert row["matches_reference"]
    assert row["source"] == "simulated"
    assert row["compiled_speed_of_by_hand"] == pytest.approx(row["by_hand_cycles"] / row["compiled_cycles"])
    shown = by_hand.table(found)
    assert f"{row['compiled_cycles']:,.0f}" in shown
    assert "D = 128" in shown
    assert "published" in shown
    assert "WRONG" in by_hand.table([row | {"matches_reference": False}])


def test_every_program_by_hand_has_rows() -> None:
    folder = by_hand.CHECKOUT / "examples" / "embedding"
    assert {name for _, name, _ in by_hand.CASES} == {path.stem for path in folder.glob("*.dlc")}
