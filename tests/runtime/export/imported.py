"""Extensions that are not built: their Python imported, with functions in the place of compiled operators."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch


class Operators:
    """The operators of a package: of each name one that calls `does`."""

    def __init__(self, does: Callable[..., Any] | None) -> None:
        self.does = does

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(default=self.does)


def imported(
    folder: Path, package: str, monkeypatch: pytest.MonkeyPatch, does: Callable[..., Any] | None = None
) -> Any:
    """The package as a program that uses the extension imports it."""
    monkeypatch.syspath_prepend(folder)
    (folder / package / "_C.py").write_text("")
    monkeypatch.setattr(torch.ops, package, Operators(does), raising=False)
    for each in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, each)
    return importlib.import_module(package)
