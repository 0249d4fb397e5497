"""Parses line by line: a line that does not parse is reported and left out, and parsing goes on behind it."""

from __future__ import annotations

from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedToken

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector
from explorer.compiler.language.parsing import syntax
from explorer.compiler.language.parsing.syntax_errors import describe
from explorer.compiler.language.parsing.tree import join, span_of

DEFINITION_STARTS = frozenset(["DIM", "SCORE", "DEF", "LAYER", "OP"])
BLOCK_STARTS = frozenset(["SCORE", "LAYER", "OP", "DEF", "FOR"])


class LineParser:
    """Feeds the parser a token at a time; at an error it goes back to the start of the line and feeds BROKEN."""

    def __init__(self, lark: Lark, tokens: list[Token], collector: Collector) -> None:
        self._tokens = tokens
        self._collector = collector
        # Lark leaves its interactive parser untyped.
        self._parser: Any = lark.parse_interactive("")
        self._position = 0
        self._depth = 0

    def parse(self) -> syntax.Program:
        """Parses all lines, unless there are so many errors that the text is no model."""
        while self._position < len(self._tokens):
            if self._collector.full:
                return syntax.Program()
            token = self._tokens[self._position]
            if token.type == "_INDENT":
                self._skip_indented("this line is indented, but the line above opens no block")
            elif token.type == "_DEDENT":
                self._feed(token)
            else:
                self._line()
        program: syntax.Program = self._parser.feed_eof()
        return program

    def _feed(self, token: Token) -> None:
        self._parser.feed_token(token)
        self._position += 1
        self._depth += {"_INDENT": 1, "_DEDENT": -1}.get(token.type, 0)

    def _line(self) -> None:
        """One logical line, with the opening of a block where it is a header."""
        start = self._position
        before = self._parser.copy(deepcopy_values=False)
        try:
            while self._tokens[self._position].type != "_NEWLINE":
                self._feed(self._tokens[self._position])
            self._feed(self._tokens[self._position])
        except UnexpectedToken:
            self._report_line(start)
            self._replace_line(start, before)
            return
        self._open_block(start)

    def _open_block(self, start: int) -> None:
        """After a line's end: the indentation that a header needs, or what stands for a missing block."""
        if self._tokens[start].type not in BLOCK_STARTS or self._tokens[self._position - 2].type != "_COLON":
            return
        if self._next_type() == "_INDENT":
            self._feed(self._tokens[self._position])
            return
        place = self._span(start, self._position - 1)
        what = "loop" if self._tokens[start].type == "FOR" else "definition"
        self._collector.report(f"the {what} has no body: its lines stand below it, indented", place)
        self._indent_body(start)

    def _indent_body(self, start: int) -> None:
        """Takes the lines up to the next definition as the body of a header that has none; a loop gets an empty one."""
        header = self._tokens[start]
        end, at_margin = self._position, True
        while end < len(self._tokens) and header.type != "FOR":
            token = self._tokens[end]
            if at_margin and token.type in DEFINITION_STARTS:
                break
            at_margin = token.type in ("_NEWLINE", "_DEDENT")
            end += 1
        empty = [] if end > self._position else [("BROKEN", ""), ("_NEWLINE", "")]
        kinds = [Token.new_borrow_pos(kind, text, header) for kind, text in (("_INDENT", ""), *empty)]
        self._tokens.insert(end, Token.new_borrow_pos("_DEDENT", "", header))
        self._tokens[self._position : self._position] = kinds
        for _ in kinds:
            self._feed(self._tokens[self._position])

    def _replace_line(self, start: int, before: Any) -> None:
        """Goes back to the parser's state before a line and puts BROKEN in its place."""
        self._parser = before
        end = self._line_end(start)
        words = " ".join(token.strip('"') for token in self._tokens[start:end] if token.type in ("NAME", "STRING"))
        first, last = self._tokens[start], self._tokens[max(start, end - 1)]
        broken = Token.new_borrow_pos("BROKEN", words, first)
        broken.end_line, broken.end_column = last.end_line, last.end_column
        self._position = end
        self._parser.feed_token(broken)
        self._feed(self._tokens[end])
        if self._next_type() == "_INDENT":
            if self._depth == 0:
                self._feed(self._tokens[self._position])
            else:
                self._skip_indented("")

    def _report_line(self, start: int) -> None:
        """Says what is wrong at the current token, unless a bracket of this line was reported already."""
        line = self._tokens[start : self._line_end(start) + 1]
        places = {diagnostic.span for diagnostic in self._collector.diagnostics}
        if not any(span_of(token) in places for token in line):
            message, span, detail, fixes = describe(line, self._position - start, self._parser.accepts())
            self._collector.report(message, span, detail, fixes)

    def _skip_indented(self, message: str) -> None:
        """Leaves out an indentation that opens no block, and its end; the lines in it are parsed as they stand."""
        self._tokens.pop(self._position)
        level = 0
        for position in range(self._position, len(self._tokens)):
            level += {"_INDENT": 1, "_DEDENT": -1}.get(self._tokens[position].type, 0)
            if level < 0:
                self._tokens.pop(position)
                break
        if message and self._position < len(self._tokens):
            self._collector.report(message, self._span(self._position, self._line_end(self._position)))

    def _next_type(self) -> str:
        return self._tokens[self._position].type if self._position < len(self._tokens) else ""

    def _line_end(self, start: int) -> int:
        """The position of the _NEWLINE of the line at `start`."""
        return next(end for end in range(start, len(self._tokens)) if self._tokens[end].type == "_NEWLINE")

    def _span(self, start: int, end: int) -> Span:
        """From the token at `start` to the one before `end`."""
        return join(span_of(self._tokens[start]), span_of(self._tokens[max(start, end - 1)]))
