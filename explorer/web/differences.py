"""Two texts beside each other: which lines stand side by side, and which words of them changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

Range = tuple[int, int]
"""From one column to another, counted from 0, the end exclusive."""

ALIKE = 0.5
"""Lines less alike than this are two different lines, not one that changed: no word of them is picked out."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


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
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        for old, new in zip_longest(range(old_start, old_end), range(new_start, new_end)):
            if tag == "replace" and old is not None and new is not None:
                yield Row(old, new, True, *_changed_words(before[old], after[new]))
            else:
                yield Row(old, new, tag != "equal")


def _changed_words(old: str, new: str) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(a=old_words, b=new_words, autojunk=False)
    if matcher.ratio() < ALIKE:
        return (), ()
    changes = [opcode[1:] for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    return (
        tuple(_columns(old_words, start, end) for start, end, _, _ in changes if start < end),
        tuple(_columns(new_words, start, end) for _, _, start, end in changes if start < end),
    )


def _columns(words: Sequence[str], start: int, end: int) -> Range:
    first = sum(map(len, words[:start]))
    return first, first + sum(map(len, words[start:end]))
