"""Colours for stage texts: one piece of safe markup a line.

The page colours by weight and grey and keeps hue for meaning, so a token gets one of six classes: `k` keyword,
`c` comment, `q` what crosses a queue, `p` dependencies, `set ...` the name of an index set, or none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PtxLexer
from pygments.token import Comment, Keyword, Name, String

from explorer.lexers import DlcLexer, GraphLexer, LoopsLexer, ModelLexer, SlcLexer

LEXERS: dict[str, Lexer] = {
    "model": ModelLexer(),
    "graph": GraphLexer(),
    "loops": LoopsLexer(),
    "slc": SlcLexer(),
    "dlc": DlcLexer(),
    "cuda": CudaLexer(),
    "ptx": PtxLexer(),
}
"""A lexer for each text that has one; any other text is shown plain."""

SET_COLOURS = {"batch": "many", "negative": "many", "entity": "vertex", "relation": "type"}
"""The hue of an index set: sets one iterates over, sets of vertices, sets of types."""


@lru_cache(maxsize=256)
def highlight(language: str, text: str) -> tuple[Markup, ...]:
    """The lines of a text with their tokens in spans; everything that came from outside is escaped."""
    lexer = LEXERS.get(language)
    if lexer is None:
        return tuple(escape(line) for line in text.split("\n"))
    lines: list[list[Markup]] = [[]]
    # `get_tokens` would strip and re-end the text; the raw tokens keep every line where it is.
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        css = _css_class(language, kind, value)
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append(_span(css, piece))
    return tuple(Markup("").join(pieces) for pieces in lines)


def quoted(text: str) -> Markup:
    """A sentence with what stands in quotes set as code; all of it escaped."""
    pieces = re.split(r"(`[^`]+`|'[^']+')", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece[1:-1]) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def _span(css: str, text: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(css, text) if css else escape(text)


def _css_class(language: str, kind: Any, value: str) -> str:
    if (kind in Comment and kind not in Comment.Preproc) or kind in String.Doc:
        return "c"
    if kind in Keyword.Pseudo and language in ("slc", "dlc"):
        return "q"
    if kind in Keyword.Type and value in SET_COLOURS:
        return f"set {SET_COLOURS[value]}"
    if kind in Keyword and language != "ptx":
        return "k"
    if kind in Name.Label and language == "graph":
        return "p"
    return ""
