"""Mutated texts end in stages, diagnostics or a reason: a sample here, the many by `fuzz.py` itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.sweep import fuzz, mutating

FUZZ = Path(__file__).with_name("fuzz.py")


@pytest.mark.sweep
def test_mutated_texts_end_in_no_exception() -> None:
    command = [sys.executable, str(FUZZ), "--count", "800", "--seed", "900000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mutations_leave_models_and_break_some() -> None:
    drawn = [mutating.mutated(Random(seed)) for seed in range(300)]
    assert len({name for _, name in drawn}) > len(mutating.CORPUS) / 2
    assert len({text for text, _ in drawn}) > 290
    outcomes = [fuzz.outcome(seed)[0] for seed in range(24)]
    assert set(outcomes) >= {"diagnostics", "all stages"}


def test_an_exception_and_a_process_that_ends_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(request: object) -> object:
        number = int(str(request))
        if number == 3:
            raise ZeroDivisionError
        if number == 5:
            sys.exit(9)
        return [{"event": "result", "ok": True, "stopped": "", "stages": [], "diagnostics": []}]

    monkeypatch.setattr(fuzz, "request", lambda seed: seed)
    monkeypatch.setattr(fuzz, "compile_model", compiled)
    monkeypatch.setattr(fuzz, "limit_memory", lambda limit: None)
    campaign = fuzz.Campaign(range(8), 1, float("inf"))
    campaign.run()
    assert campaign.counted == {"fault": 2, "all stages": 6}
    assert "ZeroDivisionError" in campaign.faults[0]
    assert campaign.faults[1] == "seed 5: the process ended with 9"
