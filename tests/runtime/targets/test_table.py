"""The table of targets: each has a stage and a module, and what is made from the table follows it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import get_args

import pytest

import explorer
from explorer.cli import main
from explorer.compiler.pipeline import STAGES
from explorer.runtime.runs.events import started
from explorer.runtime.runs.request import RunRequest
from explorer.runtime.targets.table import TARGETS, TargetName, reading

MODEL = "score S(h: entity, r: relation, t: entity):\n    param E[entity, 2]\n    return sum(E[h])\n"


def test_every_target_has_one_stage_a_module_and_fields_that_a_request_has() -> None:
    assert tuple(TARGETS) == get_args(TargetName)
    assert sorted(name for spec in STAGES for name in spec.targets) == sorted(TARGETS)
    assert {name: target.name for name, target in TARGETS.items()} == dict(zip(TARGETS, TARGETS, strict=True))
    for target in TARGETS.values():
        module = import_module(target.run)
        assert callable(module.ready)
        assert callable(module.run)
        assert target.reads <= RunRequest.__dataclass_fields__.keys()
        assert started(target.name, "x")["source"] == target.source
    assert reading("written") == "dae"
    assert reading("repeat") == "gpu or cpu"


def test_a_compilation_runs_on_each() -> None:
    assert explorer.compile(MODEL, on_demand=True).targets.keys() == TARGETS.keys()


def test_the_command_line_offers_each(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "cpu", replace(TARGETS["cpu"], missing=lambda: "It is switched off.", title="a lathe"))
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "{gpu,cpu,dae}" in (shown := " ".join(capsys.readouterr().out.split()))
    assert "cpu: a lathe" in shown
    assert main(["run", "model.emb", "--on", "cpu"]) == 2
    assert "It is switched off." in capsys.readouterr().err
