"""What the parsers of all IRs share: Lark behind one door, indentation, origins and errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.lark import PostLex
from lark.tree import Meta

from explorer.compiler.ir.node import Origin, Span
from explorer.compiler.ir.storage import STORAGES

BETWEEN = {"slc": ("execute",), "dlc": ("execute",)}
"""What else is read of a grammar, behind what all share and before its own file."""

EXPECTED_SHOWN = 4
"""An error names what could stand in a place only where it is at most so many things."""

PLAIN_WORDS = {
    "_NL": "the end of the line",
    "_INDENT": "an indented line",
    "_DEDENT": "the end of the indented lines",
    "$END": "the end of the text",
    "NAME": "a name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STREAM": "a stream",
    "VALUE": "a value such as %1",
    "NOTE": "a note",
    "PARAMETER": "a parameter such as <2>",
    "POSITION": "a position such as b_tr.ite",
    "SIGN": "an operator",
    "INDEX_SIGN": "an operator",
    "REDUCTION": "'+=', '*=', 'max=' or 'min='",
    "EVENT": "'beg', 'ite' or 'end'",
    "TYPE": "'i32' or 'f32'",
    "LEVEL": "'L2', 'LLC' or 'HBM'",
    "FIRST": "'[0]'",
    "_LANES": "'lanes<'",
    "_SPLAT": "'splat<'",
    "_FOR": "'slc.for'",
    "_MEM_STR": "'slc.mem_str'",
    "_ALU_STR": "'slc.alu_str'",
    "_BUF_STR": "'slc.buf_str'",
    "_STORE_STR": "'slc.store_str'",
    "_CALLBACK": "'slc.callback'",
    "_TO_VAL": "'slc.to_val'",
    "KIND": "'param', 'input', 'structure' or 'upstream'",
    "BUFFER_KIND": "a kind of array such as 'param'",
    "SCHEDULE": "a line of the schedule",
    "BIND": "a level such as @warp",
    "COMPARISON": "'<', '<=' or '=='",
    "_LAST": "'last'",
    "_ATOMIC": "'atomic'",
    "_MULTIPLY": "'multiply'",
    "PRECISION": "'tf32' or 'tf32x3'",
}


class ParseError(Exception):
    """A text that is no program of its IR; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class Indents(PostLex):
    """Turns the spaces after a line's end into _INDENT and _DEDENT. Unlike Lark's own Indenter it keeps no state
    between tokens, so one parser may serve several threads."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens with indentation among them; blank lines before the first are dropped."""
        levels = [0]
        last: Token | None = None
        for token in stream:
            if token.type != "_NL":
                yield token
            elif last is not None:
                yield token
                yield from _changes_of_level(token, levels)
            if token.type != "_NL" or last is not None:
                last = token
        for _ in levels[1:]:
            yield Token.new_borrow_pos("_DEDENT", "", last or Token("_NL", ""))


def _changes_of_level(newline: Token, levels: list[int]) -> Iterator[Token]:
    depth = len(newline.rpartition("\n")[2])
    line, column = newline.end_line or 1, newline.end_column or 1
    place = {"line": line, "column": column, "end_line": line, "end_column": column}
    if depth > levels[-1]:
        levels.append(depth)
        yield Token("_INDENT", "", **place)
        return
    while depth < levels[-1]:
        levels.pop()
        yield Token("_DEDENT", "", **place)
    if depth != levels[-1]:
        raise ParseError("this line is indented like none of the lines above it", line, column)


class Stored(NamedTuple):
    """The `: bf16` behind a tensor or a buffer."""

    name: str


class Sharing(NamedTuple):
    """The `sharing 1024` behind a map or an array of ids."""

    facts: int


class Builder(Transformer[Token, Any]):
    """Makes nodes of a parsed text; the base class knows names, numbers and where things stand."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._lines = text.split("\n")

    def origin(self, meta: Meta) -> Origin:
        """The whole line on which a construct begins, without its indentation."""
        line = self._lines[meta.line - 1].rstrip()
        return (Span(meta.line, len(line) - len(line.lstrip()) + 1, meta.line, len(line) + 1),)

    def refuse(self, meta: Meta, message: str) -> ParseError:
        """The error for a construct that the grammar lets pass."""
        return ParseError(message, meta.line, meta.column)

    @v_args(inline=True, meta=True)
    def storage(self, meta: Meta, name: str) -> Stored:
        """What elements are stored in."""
        if name not in STORAGES:
            raise self.refuse(meta, f"elements are stored as {', '.join(STORAGES)}, not as {name}")
        return Stored(name)

    @v_args(inline=True, meta=True)
    def sharing(self, meta: Meta, count: int) -> Sharing:
        """How many facts in a row have one list."""
        return Sharing(count)

    def __default_token__(self, token: Token) -> str:
        """Words are plain strings in nodes."""
        return str(token)

    def INT(self, token: Token) -> int:
        """An extent, an index constant or a size."""
        return int(token)

    def FLOAT(self, token: Token) -> float:
        """An f32 constant, as Python prints it."""
        return float(token)


@cache
def _parser(grammar: str) -> Lark:
    folder = Path(__file__).parent / "grammars"
    return Lark(
        "".join((folder / f"{name}.lark").read_text() for name in ("shared", *BETWEEN.get(grammar, ()), grammar)),
        parser="lalr",
        start="program",
        postlex=Indents(),
        propagate_positions=True,
        maybe_placeholders=False,
    )


def read(grammar: str, text: str, builder: Builder) -> Any:
    """The program that the builder makes of a text; raises ParseError if the grammar has no such text."""
    parser, trimmed = _parser(grammar), text.rstrip()
    try:
        return builder.transform(parser.parse(trimmed + "\n"))
    except UnexpectedInput as error:
        message, (line, column) = _sentence(error, parser), (max(error.line, 1), max(error.column, 1))
        lines = trimmed.split("\n")
        if line > len(lines):  # the text ends too early
            line, column = len(lines), len(lines[-1]) + 1
        raise ParseError(message, line, column) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ParseError):
            raise error.orig_exc from None
        # What the grammar lets pass and no node can be made of: a text that somebody wrote may have anything.
        place = error.obj.meta if isinstance(error.obj, Tree) else error.obj
        raise ParseError(str(error.orig_exc), getattr(place, "line", 1), getattr(place, "column", 1)) from None


def _sentence(error: UnexpectedInput, parser: Lark) -> str:
    if isinstance(error, UnexpectedCharacters):
        return f"no word of this language begins with {error.char!r}"
    assert isinstance(error, UnexpectedToken)
    visible = error.token.type not in ("_NL", "_INDENT", "_DEDENT", "$END")
    found = repr(str(error.token)) if visible else PLAIN_WORDS[error.token.type]
    expected = sorted({_in_words(name, parser) for name in error.accepts or error.expected})
    if len(expected) > EXPECTED_SHOWN:
        return f"{found} cannot stand here"
    return f"expected {' or '.join(expected)}, found {found}"


def _in_words(terminal: str, parser: Lark) -> str:
    return PLAIN_WORDS.get(terminal) or repr(parser.get_terminal(terminal).pattern.value)
