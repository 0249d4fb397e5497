"""Colours for stage texts: one piece of safe markup a line.

The page colours by weight and grey and keeps hue for meaning, so a token gets one of six classes: `k` keyword,
`c` comment, `q` what crosses a queue, `p` dependencies, `set ...` the name of an index set, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PtxLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, String

from explorer.lexers import DlcLexer, GraphLexer, KernelsLexer, LoopsLexer, ModelLexer, SassLexer, SlcLexer
from explorer.web.panes.differences import Range

Piece = tuple[str, str]
"""Classes and text."""


class _CudaLines(CudaLexer):  # type: ignore[misc]  # Pygments has no types
    """CUDA, each line by itself. In every line the lexer's root looks for the head of a function, which takes a third
    of its time and decides no colour."""

    def get_tokens_unprocessed(self, text: str, stack: tuple[str, ...] = ("root", "statement")) -> Iterator[Any]:
        """The tokens of a line, with where they begin."""
        yield from super().get_tokens_unprocessed(text, stack)


LEXERS: dict[str, Lexer] = {
    "model": ModelLexer(),
    "graph": GraphLexer(),
    "loops": LoopsLexer(),
    "kernels": KernelsLexer(),
    "slc": SlcLexer(),
    "dlc": DlcLexer(),
    "cuda": _CudaLines(),
    "ptx": PtxLexer(),
    "sass": SassLexer(),
    "python": PythonLexer(),
}
"""A lexer for each text that has one; any other text is shown plain."""

SET_COLOURS = {
    **dict.fromkeys(("batch", "negative", "edge", "entry", "nonzero"), "many"),
    **dict.fromkeys(("entity", "node", "row"), "vertex"),
    **dict.fromkeys(("relation", "etype", "ntype"), "type"),
    **dict.fromkeys(("src_pair", "dst_pair", "bag", "block", "query"), "uniq"),
}
"""The hue of an index set: sets one iterates over, of vertices, of types, and those that are derived or group."""


LINES_KEPT = 20_000
"""Of texts that are shown, some 10 MB with their markup: of one that is edited nearly all lines come again."""
WORDS_KEPT = 10_000
"""Of CUDA, some 2 MB with their markup."""
LONGEST_WORD = 22
"""A longer word of CUDA is a name: Pygments knows none that is."""


@lru_cache(maxsize=256)
def highlight(language: str, text: str) -> tuple[Markup, ...]:
    """The lines of a text with their tokens in spans; everything that came from outside is escaped.

    No token of the stages' texts goes on in the next line, so each line is looked at by itself, once."""
    language = language.partition(".")[0]  # slc.opt1 reads as slc does
    return tuple(map(partial(_marked, language), text.split("\n")))


def highlight_words(language: str, text: str, words: Mapping[int, Sequence[Range]]) -> tuple[Markup, ...]:
    """The same, with the columns named for a line (counted from 0) in class `w`."""
    pieces = text.split("\n")
    return tuple(
        _markup(_pick_out(_pieces(language.partition(".")[0], pieces[number]), words[number]))
        if words.get(number)
        else line
        for number, line in enumerate(highlight(language, text))
    )


@lru_cache(maxsize=LINES_KEPT)
def _marked(language: str, line: str) -> Markup:
    if language == "cuda" and not _READ_WHOLE.search(line):
        return Markup(_CUDA_PIECE.sub(_cuda_piece, escape(line)))
    return _markup(_pieces(language, line))


_READ_WHOLE = re.compile(
    r"""['\\#$]|R"|/\*|\[\[|^\s*\w+\s*:|\b(?:case|class|concept|enum|namespace|struct|typename|union)\b"""
)
"""What makes the words of a line of CUDA mean something else than each by itself: Pygments reads such a line whole."""
_CUDA_PIECE = re.compile(r"&#34;.*?(?:&#34;|$)|//.*|\b[^\W\d]\w*")
"""A string, a comment or a word of a line that is escaped; no name of an entity is a word with a colour."""


def _cuda_piece(found: re.Match[str]) -> str:
    """A piece of a line of CUDA in its colour. With words that are known a line takes a tenth of the time that Pygments
    does: an edit that renames its definition changes a dozen lines of each of its kernels, and hardly a word of
    these."""
    piece = found[0]
    if piece.startswith("&"):
        return piece
    if piece.startswith("//"):
        return f'<span class="c">{piece}</span>'
    return piece if len(piece) > LONGEST_WORD else _cuda_word(piece)


@lru_cache(maxsize=WORDS_KEPT)
def _cuda_word(word: str) -> str:
    return _markup(_pieces("cuda", word))


def _pieces(language: str, line: str) -> list[Piece]:
    lexer = LEXERS.get(language)
    if lexer is None:
        return [("", line)]
    # `get_tokens` would strip and re-end the text; the raw tokens keep everything where it is. Some end with the line.
    found = lexer.get_tokens_unprocessed(f"{line}\n")
    return [(_css_class(language, kind, value), piece) for _, kind, value in found if (piece := value.rstrip("\n"))]


def _pick_out(line: Sequence[Piece], words: Sequence[Range]) -> Iterator[Piece]:
    """The pieces of a line, cut where a word begins and ends."""
    begin = 0
    for css, text in line:
        cuts = {0, len(text), *(min(max(column - begin, 0), len(text)) for word in words for column in word)}
        for start, end in pairwise(sorted(cuts)):
            inside = any(first <= begin + start < last for first, last in words)
            yield (f"{css} w".strip() if inside else css), text[start:end]
        begin += len(text)


def quoted(text: str) -> Markup:
    """A sentence with what stands in quotes set as code; all of it escaped."""
    pieces = re.split(r"(`[^`]+`|'[^']+')", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece[1:-1]) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def _markup(line: Iterable[Piece]) -> Markup:
    """The pieces as they are in a page; plain ones that stand together are escaped together.

    Classes are this module's own; the text is escaped."""
    found: list[str] = []
    plain = ""
    for css, text in _with_whole_comments(line):
        if not css:
            plain += text
            continue
        if plain:
            found.append(escape(plain))
            plain = ""
        found.append(f'<span class="{css}">{escape(text)}</span>')
    return Markup("".join([*found, escape(plain)]))


def _with_whole_comments(line: Iterable[Piece]) -> list[Piece]:
    """The pieces, with comments between which there are only blanks as one: a browser lays out and paints each span by
    itself, and every line of SASS has two before its instruction."""
    found: list[Piece] = []
    for css, text in line:
        if css == "c" and len(found) > 1 and found[-2][0] == "c" and not found[-1][0] and found[-1][1].isspace():
            (_, before), (_, blanks) = found[-2:]
            found[-2:] = []
            text = f"{before}{blanks}{text}"
        found.append((css, text))
    return found


def _css_class(language: str, kind: Any, value: str) -> str:
    if value in SET_COLOURS and kind in Keyword.Type:
        return f"set {SET_COLOURS[value]}"
    return _class_of(language, kind)


@cache
def _class_of(language: str, kind: Any) -> str:
    """The class of a kind of tokens, index sets apart: there are some dozens, and a text has hundreds of tokens."""
    if (kind in Comment and kind not in Comment.Preproc) or kind in String.Doc:
        return "c"
    if kind in Keyword.Pseudo and language in ("slc", "dlc"):
        return "q"
    if kind in Keyword and language != "ptx":
        return "k"
    if kind in Name.Label and language == "graph":
        return "p"
    return ""
