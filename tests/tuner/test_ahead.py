"""What is made ahead in other processes: there, and here once one of them has died."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from explorer.tuner.device.ahead import Ahead

HERE = os.getpid()


def where(number: int, here: int) -> tuple[int, int]:
    """Ends the process for number 13, unless that is the one that asked."""
    if number == 13 and os.getpid() != here:
        os._exit(1)
    return number, os.getpid()


def test_what_a_process_died_of_is_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    ahead = Ahead(where)
    try:
        ahead.coming([(1, (1, HERE)), (13, (13, HERE))])
        number, process = ahead.made(1, (1, HERE))
        assert (number, process != HERE) == (1, True)
        assert ahead.made(13, (13, HERE)) == (13, HERE)
        ahead.coming([(2, (2, HERE)), (3, (3, HERE))])
        assert ahead.made(2, (2, HERE)) == (2, HERE)
    finally:
        ahead.close()


def test_a_process_begins_before_anything_is_asked_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    ahead = Ahead(is_there, first=partial(begin, tmp_path / "begun"))
    try:
        ahead.coming([(1, (tmp_path / "begun",))])
        assert ahead.made(1, (tmp_path / "begun",)), "its only process does one after the other"
    finally:
        ahead.close()


def begin(path: Path) -> None:
    path.touch()


def is_there(path: Path) -> bool:
    return path.exists()
