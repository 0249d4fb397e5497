"""Texts of stages with one thing wrong: a line dropped, doubled or exchanged with the next, or a name, a number, an
operator or an index of one changed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_NAME = re.compile(r"%?[A-Za-z_][\w.]*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
_OPERATOR = re.compile(r"max=|min=|\+=|\*=|<=|==|//|[-+*/%<=](?!=)")
_INDEX = re.compile(r"\[([^\[\]]+)\]")
OPERATORS = ("+", "-", "*", "/", "//", "%", "+=", "*=", "max=", "min=", "<", "<=", "=", "==")
NUMBERS = ("0", "1", "2", "7", "-1", "31", "64", "1000000000000", "0.5", "inf", "nan")

Mutation = Callable[[list[str], int, random.Random], bool]
"""Changes a text's line in place; false where it has nothing of that kind."""


def drop(lines: list[str], at: int, pick: random.Random) -> bool:
    del lines[at]
    return True


def double(lines: list[str], at: int, pick: random.Random) -> bool:
    lines.insert(at, lines[at])
    return True


def exchange(lines: list[str], at: int, pick: random.Random) -> bool:
    if at + 1 >= len(lines):
        return False
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return True


def indent(lines: list[str], at: int, pick: random.Random) -> bool:
    lines[at] = pick.choice(("  " + lines[at], lines[at].removeprefix("  ")))
    return True


def _replaced(pattern: re.Pattern[str], by: Callable[[str, list[str], random.Random], str]) -> Mutation:
    def change(lines: list[str], at: int, pick: random.Random) -> bool:
        found = list(pattern.finditer(lines[at]))
        if not found:
            return False
        one = pick.choice(found)
        lines[at] = lines[at][: one.start()] + by(one[0], lines, pick) + lines[at][one.end() :]
        return True

    return change


def _other_name(name: str, lines: list[str], pick: random.Random) -> str:
    return pick.choice(_NAME.findall("\n".join(lines)) or [name])


def _other_index(index: str, lines: list[str], pick: random.Random) -> str:
    inner = [part.strip() for part in index[1:-1].split(",")]
    pick.choice((lambda: pick.shuffle(inner), inner.pop, lambda: inner.append(inner[0])))()
    return f"[{', '.join(inner)}]"


MUTATIONS: dict[str, Mutation] = {
    "drop": drop,
    "double": double,
    "exchange": exchange,
    "indent": indent,
    "name": _replaced(_NAME, _other_name),
    "number": _replaced(_NUMBER, lambda number, lines, pick: pick.choice(NUMBERS)),
    "operator": _replaced(_OPERATOR, lambda sign, lines, pick: pick.choice(OPERATORS)),
    "index": _replaced(_INDEX, _other_index),
}


def kind_of(line: str) -> str:
    """What a line begins with, all names and numbers alike: of the lines of one kind a few are as good as all."""
    words = _NUMBER.sub("1", line.strip())
    first = words.split(" ", 1)[0]
    shape = re.sub(r"\s+", " ", _NAME.sub(lambda name: name[0] if name[0] == first else "n", words))
    return shape if len(shape) < 60 else shape[:60]


def mutant(text: str, pick: random.Random) -> tuple[str, str]:
    """A text with one thing changed, and what that was: of a kind of lines drawn first, so that all are met."""
    lines = text.rstrip("\n").split("\n")
    kinds: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        if line.strip():
            kinds.setdefault(kind_of(line), []).append(at)
    while True:
        at = pick.choice(kinds[pick.choice(list(kinds))])
        name = pick.choice(list(MUTATIONS))
        changed = list(lines)
        if MUTATIONS[name](changed, at, pick) and changed != lines:
            return "\n".join(changed) + "\n", f"{name} at line {at + 1}: {lines[at].strip()}"
