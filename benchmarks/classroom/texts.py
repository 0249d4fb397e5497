"""What students type: each text a little different from every other, and one in four with a mistake in it."""

from __future__ import annotations

import re
from random import Random

BROKEN = 0.25
"""Of the edits."""
LONG_SUM = 150
"""Terms of a bomb: as many as a definition may have operations for, ten seconds of compilation and more."""


def own_text(example: str, student: int, edit: int) -> str:
    """An example under a name of the student's own, so that no two texts are alike and results tell whose they are."""
    text, changed = re.subn(
        r"^(score|layer|op) (\w+)", rf"\1 \2_s{student}_e{edit}", example, count=1, flags=re.MULTILINE
    )
    assert changed == 1, f"no definition in {example[:60]!r}"
    return text


def name_of(text: str) -> str:
    """What a text's definition is called."""
    found = re.search(r"^(?:score|layer|op) (\w+)", text, flags=re.MULTILINE)
    assert found, f"no definition in {text[:60]!r}"
    return found[1]


def broken(text: str, random: Random) -> str:
    """The text with a slip: a character that is missing, twice there, or another one."""
    place = random.randrange(len(text))
    put = random.choice(("", text[place] * 2, "?"))
    return text[:place] + put + text[place + 1 :]


def bomb(student: int, edit: int) -> str:
    """A short text of much work: a long sum of products, each with a parameter of its own."""
    params = "".join(f"    param P{place}[D, D]\n" for place in range(LONG_SUM))
    terms = " + ".join(f"(E[h] @ P{place}) * E[t]" for place in range(LONG_SUM))
    head = f"dim D = 64\nscore Bomb_s{student}_e{edit}(h: entity, r: relation, t: entity):\n    param E[entity, D]\n"
    return f"{head}{params}    return sum({terms})\n"
