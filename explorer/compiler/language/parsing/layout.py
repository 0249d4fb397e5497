"""From tokens to logical lines: brackets join lines, indentation becomes _INDENT and _DEDENT; limits on both."""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword

from lark import Token
from lark.indenter import Indenter

from explorer.compiler.ir.node import Span
from explorer.compiler.language.diagnostics import Collector
from explorer.compiler.language.parsing.tree import span_of

DEEPEST_NESTING = 20
LONGEST_NAME = 64
LONGEST_NUMBER = 64

OPENING = {"LPAR": "RPAR", "LSQB": "RSQB"}
CLOSING = {"RPAR": "LPAR", "RSQB": "LSQB"}
LINE_STARTS = frozenset(["DIM", "SCORE", "DEF", "PARAM", "INPUT", "RETURN", "LAYER", "OP"])
"""Words that only ever begin a line: inside a bracket they show that it was never closed."""


class Layout(Indenter):
    """Lark's Indenter for lines that are joined already, reporting indentation that fits no line above."""

    NL_type = "_NEWLINE"
    OPEN_PAREN_types: list[str] = []  # noqa: RUF012 (the names that Lark asks for)
    CLOSE_PAREN_types: list[str] = []  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._collector = collector
        self._character = ""

    def handle_NL(self, token: Token) -> Iterator[Token]:
        """The line's end, then what the next line's indentation opens or closes."""
        yield token
        blank = token.rsplit("\n", 1)[1]
        indent = blank.count(" ") + blank.count("\t") * self.tab_len
        self._check_characters(blank, token)
        if indent > self.indent_level[-1]:
            self.indent_level.append(indent)
            yield Token.new_borrow_pos("_INDENT", blank, token)
            return
        while indent < self.indent_level[-1]:
            if indent > self.indent_level[-2]:
                self._report_between(token)
                self.indent_level[-1] = indent
                return
            self.indent_level.pop()
            yield Token.new_borrow_pos("_DEDENT", blank, token)

    def _report_between(self, token: Token) -> None:
        """Reports a line that stands between two blocks; it is taken as one of the inner block's."""
        line, column = token.end_line or 1, token.end_column or 1
        message = "this line stands less deep than its block and deeper than the block around it"
        self._collector.report(message, Span(line, 1, line, column))

    def _check_characters(self, blank: str, token: Token) -> None:
        """Reports indentation of tabs in a text of spaces, or the other way round: widths would be a guess."""
        if not blank:
            return
        self._character = self._character or blank[0]
        if set(blank) - {self._character}:
            used, other = ("tabs", "spaces") if self._character == "\t" else ("spaces", "tabs")
            line, column = token.end_line or 1, token.end_column or 1
            self._collector.report(
                f"this line is indented with {other}, the lines above with {used}",
                Span(line, 1, line, column),
                "Tabs and spaces cannot be mixed: how deep a line stands would depend on the editor.",
            )


def join_lines(tokens: list[Token], collector: Collector) -> list[Token]:
    """Drops the line ends inside brackets and gives the last line its end; reports brackets that do not close."""
    partners, unclosed = _match_brackets(tokens)
    for position in unclosed:
        collector.report(f"'{tokens[position]}' is never closed", span_of(tokens[position]))
    joined: list[Token] = []
    depth = 0
    for position, token in enumerate(tokens):
        if position in partners:
            depth += 1 if token.type in OPENING else -1
        if token.type == "_NEWLINE" and (depth or not joined):
            continue
        joined.append(token)
    return _end_last_line(joined)


def _end_last_line(tokens: list[Token]) -> list[Token]:
    """The tokens with one line end at the end, whose indentation is none."""
    if tokens and tokens[-1].type == "_NEWLINE":
        last = tokens.pop()
        return [*tokens, Token.new_borrow_pos("_NEWLINE", "\n", last)] if tokens else []
    return [*tokens, Token.new_borrow_pos("_NEWLINE", "\n", tokens[-1])] if tokens else []


def _match_brackets(tokens: list[Token]) -> tuple[set[int], list[int]]:
    """The positions of brackets that have a partner, and of those that nothing closes before their statement ends."""
    partners: set[int] = set()
    unclosed: list[int] = []
    stack: list[int] = []
    after_line_end = True
    for position, token in enumerate(tokens):
        if after_line_end and token.type in LINE_STARTS:
            unclosed += stack
            stack.clear()
        after_line_end = token.type == "_NEWLINE"
        if token.type in OPENING:
            stack.append(position)
        elif token.type in CLOSING and any(
            tokens[start].type == CLOSING[token.type] for start in stack[-DEEPEST_NESTING:]
        ):
            while tokens[stack[-1]].type != CLOSING[token.type]:
                unclosed.append(stack.pop())
            partners |= {stack.pop(), position}
    return partners, sorted(unclosed + stack)


def set_python_words_apart(tokens: list[Token]) -> list[Token]:
    """Python's keywords are no names: models are Python-like, and other tools read them so."""
    return [
        Token.new_borrow_pos("FOREIGN", token, token) if token.type == "NAME" and iskeyword(token) else token
        for token in tokens
    ]


def check_limits(tokens: list[Token], collector: Collector) -> bool:
    """Whether the tokens keep the language's limits; reports the first bracket too deep and every long word."""
    depth = 0
    for token in tokens:
        if token.type == "NAME" and len(token) > LONGEST_NAME:
            collector.report(f"a name has at most {LONGEST_NAME} characters, this one {len(token)}", span_of(token))
        elif token.type == "NUMBER" and len(token) > LONGEST_NUMBER:
            collector.report(f"a number has at most {LONGEST_NUMBER} digits", span_of(token))
            return False
        elif token.type in OPENING:
            depth += 1
            if depth > DEEPEST_NESTING:
                collector.report(f"brackets nest deeper than {DEEPEST_NESTING}", span_of(token))
                return False
        elif token.type in CLOSING:
            depth = max(0, depth - 1)
    return True
