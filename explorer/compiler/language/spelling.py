"""The name that another was most likely meant to be: a suggestion is made only where a slip or an abbreviation is
likely, since one that is taken up without being meant makes a wrong model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

SHORTEST_SLIP = 3
"""Of shorter names, one letter more or less makes another name."""
LETTERS_A_SLIP = 4
"""A name of so many letters may have one that is wrong, of twice as many two."""
SHORTEST_ABBREVIATION = 2


def closest(name: str, candidates: Iterable[str], abbreviates: bool = False) -> str | None:
    """The one candidate that `name` was most likely meant to be; None where there is none, or more than one.

    The same letters in other cases or doubled, a slip of a letter for each four, or a name's beginning; where the
    candidate `abbreviates`, as a table E may be called Emb, also a word that begins with it."""
    names = list(dict.fromkeys(candidates))
    slips = {other: distance(name.lower(), other.lower()) for other in names}
    likely: list[Callable[[str], bool]] = [
        lambda other: other.lower() == name.lower() or _letters(other) == _letters(name),
        lambda other: _letters(other.lower()) == _letters(name.lower()),
        lambda other: 0 < slips[other] <= _allowed(name, other) and slips[other] == min(slips.values()),
        lambda other: len(name) >= SHORTEST_ABBREVIATION and other.lower().startswith(name.lower()),
        lambda other: abbreviates and name.lower().startswith(other.lower()),
    ]
    for rule in likely:
        found = [other for other in names if rule(other)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def distance(one: str, other: str) -> int:
    """How many letters must be put in, left out, replaced or exchanged with the next to make one word the other."""
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(other) + 1)
    for i, letter in enumerate(one):
        new = [i + 1]
        for j, target in enumerate(other):
            cost = min(row[j] + (letter != target), row[j + 1] + 1, new[j] + 1)
            if i and j and letter == other[j - 1] and one[i - 1] == target:
                cost = min(cost, before[j - 1] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]


def _allowed(name: str, other: str) -> int:
    """How many letters may be wrong: none in short names, nor in those that differ in their numbers alone."""
    shorter = min(len(name), len(other))
    if shorter < SHORTEST_SLIP or re.sub(r"\d", "", name) == re.sub(r"\d", "", other):
        return 0
    return max(1, shorter // LETTERS_A_SLIP)


def _letters(word: str) -> str:
    """The word without what is easily written twice or left out: doubled letters, underscores, a plural."""
    letters = word.replace("_", "")
    letters = letters[:-3] + "y" if letters.endswith("ies") and len(letters) > SHORTEST_SLIP else letters
    return letters[:1] + "".join(after for before, after in pairwise(letters) if before != after)
