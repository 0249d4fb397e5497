"""Training on random labels: both sides' losses are the same and fall, and it is said where they do not."""

from __future__ import annotations

import json

import pytest

from benchmarks import training

pytest.importorskip("torch", reason="layers are trained by PyTorch, which this machine does without")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layer", training.EAGER)
def test_a_layer_is_trained_as_eager_pytorch_trains_it(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert training.main([layer, "--steps", "4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["explorer"] == pytest.approx(row["eager"], rel=1e-5)
    assert all(after < before for before, after in zip(row["explorer"], row["explorer"][1:], strict=False))


def test_losses_that_part_are_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = training.EAGER["rgcn"]
    monkeypatch.setitem(training.EAGER, "rgcn", lambda *given: 1.1 * right(*given))
    assert training.main(["rgcn", "--steps", "2"]) == 1
    assert "NOT the same" in capsys.readouterr().out


def test_a_layer_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        training.main(["gat"])
    assert "no layer gat: there are rgcn, rgat, hgt" in capsys.readouterr().err
