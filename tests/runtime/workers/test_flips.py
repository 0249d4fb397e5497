"""What options would change: nothing is said of a stage that was stopped."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.compiler.compilation import Compilation
from explorer.compiler.stages import Stage
from explorer.runtime.workers.worker import compile_model
from tests.runtime.workers.test_jobs import TRANSE

ASKED = {"text": TRANSE, "name": None, "sizes": {}, "options": {}, "stages": [], "flips": True}
STOPPED = Stage("cuda", (), 0.0, None, "Stopped after 1 s.", stopped=True)


class CutShort:
    """A compilation whose CUDA was stopped."""

    ok = True

    def __init__(self, whole: Compilation) -> None:
        self.stages = {**whole.stages, "cuda": STOPPED}


def test_a_stage_that_was_stopped_is_not_told_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy host may stop the compilation with the other value: its CUDA is no other text then."""
    flips: dict[str, list[str]] = list(compile_model(ASKED))[-1]["flips"]
    assert flips["grad"]
    assert flips["compact"] == []
    with_options = Compilation.with_options

    def cut_short(self: Compilation, **options: Any) -> Compilation | CutShort:
        other = with_options(self, **options)
        return CutShort(other) if "compact" in options else other

    monkeypatch.setattr(Compilation, "with_options", cut_short)
    event = list(compile_model(ASKED))[-1]
    assert (event["event"], event["kind"]) == ("failed", "timeout")
    assert "Stopped after 1 s." in event["message"]
