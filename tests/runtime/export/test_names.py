"""Names that a model may have and that an extension's Python or C++ has already."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import pytest

import explorer
from explorer.runtime.export.folder import export, package_of

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

TEXT = """
dim D = 8
score {model}(h: entity, r: relation, t: entity):
    param {tensor}[entity, D], R[relation, D]
    return sum({tensor}[h] * R[r] * {tensor}[t])
"""


def exported(folder, text, grad=True):
    """The folder of a text's extension, and its name."""
    found = explorer.compile(text, on_demand=True)
    assert found.ok, found.diagnostics
    export(found, folder, grad)
    return found.name


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """The model's class as a program that uses the extension imports it; its operators are never called."""

    def load(text, grad=True):
        name = exported(tmp_path, text, grad)
        package = package_of(name)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(sys.modules, f"{package}._C", SimpleNamespace())
        (tmp_path / package / "_C.py").write_text("")
        called = SimpleNamespace(**{each: SimpleNamespace(default=None) for each in ("result", "start", "finish")})
        monkeypatch.setattr(torch.ops, package, called, raising=False)
        try:
            return getattr(importlib.import_module(package), name)
        finally:
            for each in [each for each in sys.modules if each.partition(".")[0] == package]:
                del sys.modules[each]

    return load


@pytest.mark.parametrize("tensor", ["_E", "__E", "_RESULT", "_OPS"])
def test_names_that_begin_with_an_underscore_are_strings(tensor, imported):
    model = imported(TEXT.format(model="S", tensor=tensor))
    assert [each.name for each in model.tensors] == [tensor, "R"]
    assert model.slopes.keys() == {tensor, "R"}
    assert dict(model(entity=3, relation=2).named_parameters())[tensor].shape == (3, 8)
