"""What is made ahead in other processes: there, and here once one of them has died."""

from __future__ import annotations

import os

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
    ahead = Ahead(where, lambda number: (number, HERE))
    try:
        ahead.coming([1, 13])
        number, process = ahead.made(1)
        assert (number, process != HERE) == (1, True)
        assert ahead.made(13) == (13, HERE)
        ahead.coming([2, 3])
        assert ahead.made(2) == (2, HERE)
    finally:
        ahead.close()
