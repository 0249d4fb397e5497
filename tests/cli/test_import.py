"""`explorer import` runs a person's file, says so, and writes the text of its module."""

from __future__ import annotations

import pytest

import explorer as library
from tests.cli.calling import called

pytest.importorskip("torch", reason="what is imported is PyTorch's, which this machine does without")

MODEL = """import torch
from parts import Scores

def example():
    ids = torch.tensor([0, 1, 2, 3])
    return Scores(), ids, ids % 2, ids.flip(0)

def failing():
    return torch.nothing

model = Scores()
tried = Scores()
tried.example_inputs = example()[1:]
tried_by_a_method = Scores()
tried_by_a_method.example_inputs = lambda: example()[1:]
def in_a_tuple():
    return Scores(), example()[1:]

one = torch.nn.Softmax(0)
one.example_inputs = torch.randn(5)

def layers():
    return torch.nn.Sequential(Scores(), Scores())

def leaving():
    raise SystemExit(3)

ranked = torch.nn.Softmax(0)
ranked.example_inputs = (torch.randn(5),)
"""
PARTS = """import torch

class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.entities = torch.nn.Embedding(5, 4)
        self.relations = torch.nn.Embedding(2, 4)

    def forward(self, h, r, t):
        return (self.entities(h) * self.relations(r) * self.entities(t)).sum(-1)
"""
TEXT = """score Scores(h: entity, r: relation, t: entity):
    "Traced from the PyTorch module Scores"
    param entities[entity, 4], relations[relation, 4]
    return sum(entities[h] * relations[r] * entities[t])
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", __import__("sys").path[:])
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "imported_model.py").write_text(MODEL)
    return tmp_path / "imported_model.py"


@pytest.mark.parametrize("name", ["example", "in_a_tuple", "tried", "tried_by_a_method"])
def test_it_writes_the_text(capsys, model, name) -> None:
    status, out, err = called(capsys, "import", f"{model}:{name}")
    assert (status, out) == (0, TEXT)
    assert f"runs {model} on this machine" in err
    assert called(capsys, "import", f"{model}:{name}", "-o", model.parent / "model.emb")[:2] == (0, "")
    assert library.compile((model.parent / "model.emb").read_text()).ok


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (":examples", "has no examples (did you mean 'example'?)"),
        (":failing", "imported_model.py:9: AttributeError"),
        (":model", "a function that returns a module and its inputs is needed"),
        (":ranked", "_softmax"),
        (":one", "_softmax"),
        (":layers", "returns a Sequential: a module and its inputs are needed"),
        (":leaving", "SystemExit: 3"),
        ("", "say which module of which file"),
        ("s:example", "no such file"),
    ],
)
def test_what_is_wrong_is_said(capsys, model, what, said) -> None:
    status, out, err = called(capsys, "import", f"{model}{what}")
    assert (status, out) == (2, "")
    assert said in err


def test_a_file_that_does_not_run_is_named_with_its_line(capsys, tmp_path) -> None:
    for line, said in (("x = 1 / 0", "ZeroDivisionError"), ("import sys; sys.exit(0)", "SystemExit: 0")):
        (tmp_path / "broken_model.py").write_text(f"import torch\n\n{line}\n")
        status, _, err = called(capsys, "import", tmp_path / "broken_model.py:x")
        assert status == 2
        assert f"broken_model.py:3: {said}" in err
