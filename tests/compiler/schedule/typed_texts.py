"""Texts and options at random, as of somebody who types and clicks: many do not compile."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

TEXTS = [file.read_text() for file in sorted((Path(__file__).parents[3] / "examples").glob("*/*.emb"))]
WORD = re.compile(r"[A-Za-z_]\w*|\d+\.\d+|\d+|[-+*/@]")
FUNCTIONS = ("exp", "sigmoid", "relu", "tanh", "dot", "norm", "sum", "abs")
NUMBERS = ("0.5", "-1.0", "0", "1", "2", "16", "33", "0.0", "-0.0")
OPTIONS: dict[str, tuple[str | int | bool, ...]] = {
    "grad": (True,),
    "inspect": ("false", "chunks"),
    "arch": ("sm_80",),
    "precision": ("tf32", "tf32x3"),
    "split": ("rows", "nonzeros"),
    "chunk": (32, 512),
    "lanes": (2, 8),
    "reorder": (False,),
    "compact": (False,),
    "popular": (True,),
    "preload": (32,),
    "negatives": ("head:4", "tail:8"),
}
COUNTS = ({"nodes": 900, "edges": 7_000, "etypes": 9}, {"nodes": 900_000, "edges": 7_000_000, "etypes": 9})


def ways(draw: random.Random) -> dict[str, Any]:
    """Options, counts and sizes to compile with."""
    options = {name: draw.choice(values) for name, values in OPTIONS.items() if draw.random() < 0.12}
    found: dict[str, Any] = {"options": options}
    if draw.random() < 0.2:
        found["counts"] = draw.choice(COUNTS)
    if draw.random() < 0.1:
        found["sizes"] = {draw.choice("FGDK"): draw.choice([1, 7, 32, 600])}
    return found


def edited(text: str, draw: random.Random) -> str:
    """A text with one word, or one line, that is another, or elsewhere."""
    words = [word for word in WORD.finditer(text) if word.start() > text.find("(")]
    word, lines = draw.choice(words), text.split("\n")
    at = draw.randrange(len(lines) - 1)
    match draw.choice(["word", "name", "space", "moved", "swapped", "twice", "gone", "storage"]):
        case "word":
            return text[: word.start()] + _like(word.group(), words, draw) + text[word.end() :]
        case "name":
            return re.sub(rf"\b{re.escape(word.group())}\b", f"{word.group()}x", text)
        case "space":
            return text[: word.start()] + " " + text[word.start() :]
        case "moved":
            return f"\n{text}"
        case "swapped":
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        case "twice":
            lines.insert(at, lines[at])
        case "gone":
            del lines[at]
        case "storage":
            return text.replace("]", f"]: {draw.choice(['bf16', 'f16', 'i8'])}", 1)
    return "\n".join(lines)


def _like(word: str, words: list[re.Match[str]], draw: random.Random) -> str:
    """Another word of its kind."""
    if word[0].isdigit():
        return draw.choice(NUMBERS)
    if word in FUNCTIONS:
        return draw.choice(FUNCTIONS)
    kind = str.isalpha if word[0].isalpha() else str.isprintable
    return draw.choice([each.group() for each in words if kind(each.group()[0])])
