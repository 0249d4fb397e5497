"""Texts of the examples, of the zoo and of forms that few of those have, with a few mutations, over a seed: of
characters, tokens and lines, and what is huge, long or deeply nested. In every other text one or two tokens give way to
others of their kind, so that many are still models, and odd ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from explorer.compiler.ir.functions import FUNCTIONS
from explorer.compiler.options import VALUES, Options
from tests.compiler.by_form.facts import FACTS
from tests.compiler.by_form.forms import FORMS
from tests.compiler.by_form.set_forms import SET_FORMS
from tests.compiler.by_form.set_structures import (
    CROSSED_BAG,
    CROSSED_LAYER,
    CROSSED_MATRIX,
    GRAPHS,
    MAPPED,
    SOCIAL,
)

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("examples/*/*.emb"), *ROOT.glob("tests/zoo/*.emb")])
CORPUS = {path.stem: path.read_text() for path in FILES}
CORPUS |= {f"fact: {name}": fact.text for name, fact in FACTS.items()}
CORPUS |= {name: form.text for name, form in FORMS.items() if "einsum" in form.text}
HEADERS = (MAPPED, GRAPHS, SOCIAL, CROSSED_BAG, CROSSED_LAYER, CROSSED_MATRIX)
CORPUS |= {name: form.text for name, form in SET_FORMS.items() if form.header in HEADERS or "edge_softmax" in form.text}
TOKEN = re.compile(r"\"[^\"\n]*\"|[A-Za-z_]\w*|[0-9.]+(?:[eE][+-]?\d+)?|//|[-+*/]=?|\s+|.")
OPERATORS = ("+", "-", "*", "/", "@", "//", "%", "+=", "-=", "*=", "/=", "=", ".", ",", ":")
CALLS = ("sum", "max", "min", "mean", "prod", "norm", "softmax", "concat", "dot", "repeat", "transpose", *FUNCTIONS)
NUMBERS = ("0", "1", "2", "3", "7", "33", "-1", "0.5", "1e-30", "1e38", "1e999", "65536", "2147483648", "1" * 40)
UNICODE = ("é", "\u200b", "\u202e", "\u2028", "\ufeff", "𝛼", "\0", "\x85", "\t", "\r", "’", "−", "０", "ﬁ", "😀")
LAYOUT = ("", " ", "  ", "    ", "        ", "\t", "\n", "\n\n", "\\\n", "# ", '"""', "\r\n")
MOST_DEEP = 300
NAME = re.compile(r"[A-Za-z_]\w*")

Tokens = list[str]


def mutated(source: Random) -> tuple[str, str]:
    """A text, and the name of what it was."""
    name = source.choice(list(CORPUS))
    tokens = TOKEN.findall(CORPUS[name])
    mild = source.random() < 0.5
    for _ in range(source.choice((1, 1, 2) if mild else (1, 1, 2, 3, 5, 9))):
        mutation = source.choice(ALIKE if mild else (*ALIKE, *ANY))
        tokens = TOKEN.findall("".join(mutation(tokens, source))) or ["\n"]
    return "".join(tokens), name


def options(source: Random) -> dict[str, str | int | bool]:
    """Options of a compilation: mostly the usual ones, often gradients or negatives, at times any."""
    chosen: dict[str, str | int | bool] = {}
    if source.random() < 0.3:
        chosen["grad"] = True
    if source.random() < 0.15:
        chosen["negatives"] = source.choice(("tail:1", "tail:8", "head:3", "head:64"))
    for name, usual in Options().to_json().items():
        if name != "negatives" and source.random() < 0.02:
            chosen[name] = source.choice(VALUES[name]) if name in VALUES else not usual
    return chosen


def sizes(source: Random) -> dict[str, int]:
    """Sizes of dims that the text may have."""
    if source.random() < 0.8:
        return {}
    return {source.choice("DKHFNQ"): source.choice((1, 2, 3, 31, 32, 33, 64, 100, 1024, 4096, 2**31))}


def _place(tokens: Tokens, source: Random, fits: Callable[[str], Any]) -> int | None:
    found = [place for place, token in enumerate(tokens) if fits(token)]
    return source.choice(found) if found else None


def _with(tokens: Tokens, place: int | None, *new: str) -> Tokens:
    return tokens if place is None else [*tokens[:place], *new, *tokens[place + 1 :]]


def name_for_name(tokens: Tokens, source: Random) -> Tokens:
    """A name of this text, or of another, or of a function, in the place of one."""
    other = TOKEN.findall(source.choice(list(CORPUS.values()))) if source.random() < 0.2 else tokens
    names = sorted({token for token in other if NAME.fullmatch(token)}) or ["x"]
    new = source.choice(CALLS) if source.random() < 0.25 else source.choice(names)
    return _with(tokens, _place(tokens, source, NAME.fullmatch), new)


def call_for_call(tokens: Tokens, source: Random) -> Tokens:
    """Another function in the place of one."""
    return _with(tokens, _place(tokens, source, lambda token: token in CALLS), source.choice(CALLS))


def operator_for_operator(tokens: Tokens, source: Random) -> Tokens:
    """Another operator in the place of one."""
    few = OPERATORS[:5] if source.random() < 0.7 else OPERATORS
    return _with(tokens, _place(tokens, source, lambda token: token in few), source.choice(few))


def number_for_number(tokens: Tokens, source: Random) -> Tokens:
    """Another number in the place of one, or of a name."""
    fits = (lambda token: token[0].isdigit()) if source.random() < 0.8 else NAME.fullmatch
    return _with(tokens, _place(tokens, source, fits), source.choice(NUMBERS))


def call_around(tokens: Tokens, source: Random) -> Tokens:
    """A name as the argument of a function, or with a sign, a number or itself beside it."""
    place = _place(tokens, source, NAME.fullmatch)
    if place is None:
        return tokens
    name = tokens[place]
    call = f"{source.choice(CALLS)}({name})"
    around = (call, f"(-{name})", f"({name} * {source.choice(NUMBERS)})", f"({name} + {name})", f"{name}[0]")
    return _with(tokens, place, source.choice(around))


def exchanged(tokens: Tokens, source: Random) -> Tokens:
    """Two tokens in each other's place."""
    one, two = sorted(source.choices(range(len(tokens)), k=2))
    new = list(tokens)
    new[one], new[two] = new[two], new[one]
    return new


def without(tokens: Tokens, source: Random) -> Tokens:
    """Some tokens less."""
    at = source.randrange(len(tokens))
    return tokens[:at] + tokens[at + source.choice((1, 1, 2, 5)) :]


def twice(tokens: Tokens, source: Random) -> Tokens:
    """Some tokens twice."""
    at = source.randrange(len(tokens))
    end = at + source.choice((1, 2, 6, 20))
    return tokens[:end] + tokens[at:end] + tokens[end:]


def characters(tokens: Tokens, source: Random) -> Tokens:
    """A character gone, doubled, another, or of another script."""
    text = "".join(tokens)
    at = source.randrange(len(text))
    new = source.choice(("", text[at] * 2, chr(source.randrange(32, 127)), source.choice(UNICODE)))
    return [text[:at], new, text[at + source.randint(0, 1) :]]


def layout(tokens: Tokens, source: Random) -> Tokens:
    """Other white space."""
    return _with(tokens, _place(tokens, source, str.isspace), source.choice(LAYOUT))


def lines(tokens: Tokens, source: Random) -> Tokens:
    """A line gone, moved, repeated, in another place as well, or of another text."""
    found = "".join(tokens).splitlines(keepends=True)
    at, to = source.choices(range(len(found)), k=2)
    line = found[at]
    change = source.randrange(5)
    if change == 4:
        line = source.choice(source.choice(list(CORPUS.values())).splitlines(keepends=True))
    elif change < 2:
        del found[at]
    if change:
        found[to:to] = [line] * source.choice((1, 1, 1, 2, 50))
    return ["".join(found)]


def nested(tokens: Tokens, source: Random) -> Tokens:
    """A name in many parentheses, calls or signs, or added to itself many times."""
    place = _place(tokens, source, NAME.fullmatch)
    depth = source.choice((2, 10, 60, MOST_DEEP, 5_000 if source.random() < 0.1 else 3))
    if place is None:
        return tokens
    name, call = tokens[place], source.choice(("", "-", *CALLS))
    if source.random() < 0.4:
        chain = source.choice((" + ", " * ", " @ ", ", ")).join([name] * depth)
        return _with(tokens, place, f"({chain})" if source.random() < 0.7 else chain)
    return _with(tokens, place, f"{call}(" * depth + name + ")" * depth)


ALIKE = (name_for_name, call_for_call, operator_for_operator, number_for_number, call_around)
ANY = (exchanged, without, twice, characters, layout, lines, nested)
