"""Texts in panes as what differs from those that a page shows already: most edits change a few lines of hundreds.

The page tells by its version which text it has in each pane. Where the server still knows that text's rows, it sends
the rows that are new and where they go, and the page keeps all others, with what it knows of them. For the page's text
`a b c d` and the new one `a x c d`, one hunk: at row 1, in the place of 1, `x`. Rows are numbered by the page, so that
one more line does not make all lines behind it new; those of a side of a difference, of which some have no number,
bring theirs.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import count, groupby
from operator import ne
from threading import Lock

from markupsafe import Markup

from explorer.web import limits
from explorer.web.panes.code import Code, CodeLine, Hunk, Patch, rows_of, unnumbered
from explorer.web.panes.views import Pane

Rows = tuple[int, ...]
"""Of each row the hash of what its markup depends on, its number apart."""
WORTH = 0.5
"""A text with more than this share of new rows is sent whole."""
FEW = 0.25
"""Where no more than this share of as many rows are others, no row has moved: they are compared each with the one in
its place, in a tenth of the time."""


@dataclass
class ShownTexts:
    """The rows of the texts that pages were sent last, by version: bounded, the oldest are forgotten."""

    _rows: OrderedDict[str, Rows] = field(default_factory=OrderedDict)
    _kept: int = 0
    _lock: Lock = field(default_factory=Lock)
    _numbers: Iterator[int] = field(default_factory=count)
    _name: str = field(default_factory=lambda: secrets.token_hex(4))
    """Of this process: another one's versions are not taken for its own."""

    def find(self, version: str) -> Rows | None:
        with self._lock:
            return self._rows.get(version)

    def keep(self, rows: Rows) -> str:
        """Remember a text's rows; the version to ask for them by."""
        with self._lock:
            version = f"{self._name}-{next(self._numbers):x}"
            self._rows[version] = rows
            self._kept += len(rows)
            while self._kept > limits.ROWS_REMEMBERED:
                self._kept -= len(self._rows.popitem(last=False)[1])
            return version


def in_patches(pane: Pane, versions: Sequence[str], texts: ShownTexts) -> Pane:
    """A pane with its texts as patches of what the page shows there, by the `versions` that it told."""
    bases = [*versions, "", ""]
    return pane.with_texts(tuple(patched(code, base, texts) for code, base in zip(pane.texts, bases, strict=False)))


def patched(code: Code, base: str, texts: ShownTexts) -> Code:
    """The text with a version, and where the page has it from an earlier one, as a patch of that."""
    lines = code.lines
    if not lines:
        return code
    has_numbers = any(line.number != lines[0].number + row for row, line in enumerate(lines))
    rows = _hashes(code, lines, has_numbers)
    before = texts.find(base)
    version = texts.keep(rows)
    if before is None or before[:2] != rows[:2]:
        return replace(code, version=version)
    hunks = tuple(Hunk(at, cut, tuple(lines[start:end])) for at, cut, start, end in differing(before[2:], rows[2:]))
    fresh = sum(len(hunk.lines) for hunk in hunks)
    patch = None if fresh > WORTH * len(lines) else Patch(base, hunks, has_numbers)
    return replace(code, version=version, patch=patch)


def _hashes(code: Code, lines: Sequence[CodeLine], has_numbers: bool) -> Rows:
    """First what must be equal for a patch, the columns and what is folded, then the rows, with or without numbers."""
    folded = hash(tuple(line.content for line in code.folded))
    rows = [hash(line if has_numbers else line.content) for line in lines]
    return (hash((code.has_units, code.has_labels, has_numbers)), folded, *rows)


def differing(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Where two sequences differ: from where and how many of the first, and from where to where of the second.

    `[1, 2, 3]` and `[1, 5, 3]` differ in `(1, 1, 1, 2)`."""
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    same = 0
    while same < shorter - start and before[-1 - same] == after[-1 - same]:
        same += 1
    old, new = before[start : len(before) - same], after[start : len(after) - same]
    if not old and not new:
        return []
    if len(old) * len(new) > limits.COMPARED_ROWS:
        return [(start, len(old), start, start + len(new))]
    if len(old) == len(new) and sum(map(ne, old, new)) <= FEW * len(old):
        return [(start + first, last - first, start + first, start + last) for first, last in _runs(map(ne, old, new))]
    found = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return [
        (start + first, last - first, start + begin, start + end)
        for tag, first, last, begin, end in found
        if tag != "equal"
    ]


def _runs(marks: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """From where to where marks are set that stand together."""
    at = 0
    for mark, together in groupby(marks):
        end = at + sum(1 for _ in together)
        if mark:
            yield at, end
        at = end


def rows_text(lines: Sequence[CodeLine], has_units: bool, has_numbers: bool) -> Markup:
    """Rows of a hunk, without numbers where the page counts them."""
    return rows_of(lines, has_units) if has_numbers else Markup("".join(unnumbered(line, has_units) for line in lines))
