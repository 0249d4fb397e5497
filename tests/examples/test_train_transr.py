"""The training run learns what a small graph's tails follow from, and says that both sides do the same."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the example trains with PyTorch, which this machine does without")

train_transr = importlib.import_module("examples.train_transr")

TINY = ["--dim", "8", "--batch", "32", "--negatives", "4", "--evaluate", "0"]


@pytest.fixture
def classes(tmp_path):
    """Each of 20 entities is of one of 4 classes, which every relation tells by an entity of its own."""
    triples = np.array([(e, k, 20 + 4 * k + e % 4) for e in range(20) for k in range(3)], dtype=np.int32)
    triples = np.random.default_rng(0).permutation(triples)
    path = tmp_path / "classes.npz"
    np.savez(path, train=triples[:50], valid=triples[50:52], test=triples[52:], num_entities=32, num_relations=3)
    return str(path)


def test_both_sides_have_the_same_losses_and_ranks(classes, capsys):
    assert train_transr.main(["--data", classes, "--steps", "20", *TINY]) == 0
    printed = capsys.readouterr().out
    assert "the same to float32 rounding" in printed
    eager, ours = (line.partition("filtered")[2] for line in printed.splitlines() if "ms a step" in line)
    assert eager == ours


def test_training_lifts_the_right_entities(classes, capsys):
    figures = []
    for steps in ("1", "100"):
        assert train_transr.main(["--data", classes, "--steps", steps, "--with", "eager", *TINY]) == 0
        figures.append(float(capsys.readouterr().out.partition("MRR ")[2].split()[0]))
    assert figures[0] < 0.2
    assert figures[1] > 0.4


def test_losses_that_part_are_said_to_be_wrong(classes, capsys, monkeypatch):
    wrong = train_transr.eager_score
    monkeypatch.setattr(train_transr, "eager_score", lambda *given: 1.01 * wrong(*given))
    assert train_transr.main(["--data", classes, "--steps", "2", *TINY]) == 1
    assert "NOT the same" in capsys.readouterr().out


def test_ranks_leave_out_what_is_known_and_share_ties():
    distances = torch.tensor([[0.1, 0.5, 0.2, 0.5, 0.9]])
    assert train_transr._ranks(distances.clone(), torch.tensor([1]), [[1]]).item() == 3.5
    assert train_transr._ranks(distances.clone(), torch.tensor([1]), [[0, 1, 3]]).item() == 2


def test_two_triples_are_needed(tmp_path, capsys):
    (tmp_path / "one.tsv").write_text("a\tlikes\tb\n")
    assert train_transr.main(["--data", str(tmp_path / "one.tsv"), *TINY]) == 2
    assert "there is 1" in capsys.readouterr().err


def test_without_pytorch_it_says_so(root):
    begin = "import sys, runpy; sys.modules['torch'] = None; "
    command = [sys.executable, "-c", begin + "runpy.run_path('examples/train_transr.py', run_name='__main__')"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert (ran.returncode, ran.stderr) == (1, "train_transr: PyTorch is not installed here: pip install torch\n")


def test_data_that_is_not_there_is_said_in_a_sentence(capsys):
    assert train_transr.main(["--data", "nowhere", *TINY]) == 2
    assert "nowhere" in capsys.readouterr().err
