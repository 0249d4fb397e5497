"""Two texts beside each other: which lines stand side by side, and which words of them changed.

Columns are padded to what is widest in a text, so that a pass that adds one long line moves the blanks of all others:
lines are compared with runs of blanks as one, but for the indentation, which says what a line stands in. A line that
changed stands beside the one of the same name, `%8 = ...`, wherever in the changed block that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

Range = tuple[int, int]
"""From one column to another, counted from 0, the end exclusive."""

ALIKE = 0.5
"""Lines less alike than this are two different lines, not one that changed: no word of them is picked out."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_BLANKS = re.compile(r"(?<=\S)\s+")
_NAME = re.compile(r"\s*(.+?) = |\s*(\S+)")
"""What a line defines, else the word that it begins with."""


@dataclass(frozen=True)
class Row:
    """One row of a difference: the numbers of the lines on both sides (None where there is none), counted from 0,
    whether they differ, and the words that changed."""

    old: int | None
    new: int | None
    differs: bool
    old_words: tuple[Range, ...] = ()
    new_words: tuple[Range, ...] = ()


def rows(before: Sequence[str], after: Sequence[str]) -> Iterator[Row]:
    """The rows of a difference, top to bottom."""
    for tag, old, new in _blocks(
        [_without_padding(line) for line in before], [_without_padding(line) for line in after]
    ):
        if tag == "equal":
            yield from (Row(*both, False) for both in zip(old, new, strict=True))
        else:
            yield from _changed(before, after, old, new)


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, range, range]]:
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        yield tag, range(old_start, old_end), range(new_start, new_end)


def _without_padding(line: str) -> str:
    """The line with blanks between its words as one each, and none at its end."""
    return _BLANKS.sub(" ", line.rstrip())


def _changed(before: Sequence[str], after: Sequence[str], old: range, new: range) -> Iterator[Row]:
    """The rows of a block that changed: lines of one name side by side, what has no such line by itself."""
    names = [_name(before[line]) for line in old], [_name(after[line]) for line in new]
    for tag, some_old, some_new in _blocks(*names):
        if tag == "equal":
            for one, other in zip(some_old, some_new, strict=True):
                yield Row(old[one], new[other], True, *_changed_words(before[old[one]], after[new[other]]))
        else:
            yield from (Row(old[one], None, True) for one in some_old)
            yield from (Row(None, new[other], True) for other in some_new)


def _name(line: str) -> str:
    found = _NAME.match(line)
    return (found[1] or found[2]) if found else ""


def _changed_words(old: str, new: str) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(a=_blanks_alike(old_words), b=_blanks_alike(new_words), autojunk=False)
    if matcher.ratio() < ALIKE:
        return (), ()
    changes = [opcode[1:] for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    return (
        tuple(_columns(old_words, start, end) for start, end, _, _ in changes if start < end),
        tuple(_columns(new_words, start, end) for _, _, start, end in changes if start < end),
    )


def _blanks_alike(words: Sequence[str]) -> list[str]:
    return [" " if word.isspace() else word for word in words]


def _columns(words: Sequence[str], start: int, end: int) -> Range:
    first = sum(map(len, words[:start]))
    return first, first + sum(map(len, words[start:end]))
