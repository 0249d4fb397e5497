"""What is kept of searches, and for which runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.runtime.runs.request import RunRequest, compile_request
from explorer.tuner import kept
from explorer.tuner.kept import Found, Kept, KeptError, key_of

TEXT = "op Bags(b: bag of row):\n    param T[row, D]\n    return sum(T[i] for i in b)\ndim D = 8\n"
ASKED = RunRequest(text=TEXT, on="cpu", data="tiny")
FOUND = Found({"opt": 2}, {"K.chunk": 64, "K.balance": True}, {"queue_bytes": 512}, 1.5, "2026-01-01T00:00:00")


def key(asked: RunRequest, device: str = "a processor") -> str:
    return key_of(asked, compile_request(asked), device)


def test_what_was_kept_is_found_again_also_later(tmp_path: Path) -> None:
    with Kept(tmp_path / "tuned.sqlite") as one:
        assert one.find(key(ASKED)) is None
        one.keep(key(ASKED), FOUND)
        newer = replace(FOUND, gain=2.0)
        one.keep(key(ASKED), newer)
    with Kept(tmp_path / "tuned.sqlite") as other:
        assert other.find(key(ASKED)) == newer


def test_what_differs_has_a_key_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "few.tsv"
    file.write_text("a\tr\tb\n")
    of_file = replace(ASKED, data=str(file))
    others = [
        replace(ASKED, text=f"{TEXT}# and more\n"),
        replace(ASKED, data="small"),
        replace(ASKED, sizes={"D": 4}),
        replace(ASKED, options={"compact": False}),
        replace(ASKED, machine={"mshrs": 4}),
        replace(ASKED, on="dae"),
        of_file,
    ]
    keys = [key(ASKED), key(ASKED, "another processor"), *map(key, others)]
    file.write_text("a\tr\tc\n")
    keys.append(key(of_file))
    assert len(set(keys)) == len(keys)
    assert key(replace(ASKED, seed=3, repeat=2)) == key(ASKED), "which change no program"
    assert key(replace(ASKED, options={"opt": "3", "compact": "true"})) == key(ASKED), "what is usual, in words"


def test_another_compiler_takes_nothing_of_what_this_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(ASKED)
    monkeypatch.setattr(kept, "version", lambda *folders: "another")
    assert key(ASKED) != before


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 2)
    with Kept(tmp_path / "tuned.sqlite") as file:
        for number in range(4):
            file.keep(str(number), replace(FOUND, at=f"2026-01-0{number + 1}"))
        assert [file.find(str(number)) is not None for number in range(4)] == [False, False, True, True]


def test_what_is_no_file_of_searches_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("a text that is no database, long enough to be read as one. " * 20)
    for name in ("folder", "text", "text/inside"):
        with pytest.raises(KeptError, match="no file to keep searches in"):
            Kept(tmp_path / name)
