"""The training runs of traced modules: both sides learn, and do the same."""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch", reason="the example trains with PyTorch, which this machine does without")

train_traced = importlib.import_module("examples.train_traced")

TINY = ["--nodes", "60", "--dim", "8", "--batch", "32", "--relations", "3"]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("rgnn", "e.etype] @"),
        pytest.param("kge", "score ComplEx(h: entity, r: relation, t: entity)", marks=pytest.mark.sweep),
    ],
)
def test_both_sides_have_the_same_losses(task, said, capsys) -> None:
    assert train_traced.main([task, "--steps", "10", "--lr", "0.05", "--text", *TINY]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "the same to float32 rounding" in printed
    table = printed[printed.index("  step ") :].splitlines()[1:11]
    rows = [[float(number) for number in line.split()] for line in table]
    losses, accuracies = [row[1] for row in rows], [(row[2], row[4]) for row in rows]
    assert losses[-1] < losses[0]
    assert all(eager == ours for eager, ours in accuracies)


def test_losses_that_part_are_said_to_be_wrong(capsys, monkeypatch) -> None:
    step = train_traced.Side.step

    def wrong(self, task, number):
        step(self, task, number)
        self.losses[-1] *= 1.01 if self.name == "explorer" else 1

    monkeypatch.setattr(train_traced.Side, "step", wrong)
    assert train_traced.main(["kge", "--steps", "2", *TINY]) == 1
    assert "NOT the same" in capsys.readouterr().out
