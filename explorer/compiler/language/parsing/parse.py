"""Text to syntax tree, by Lark (LALR)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.compiler.language.diagnostics import Collector, Diagnostic, DiagnosticsError

if TYPE_CHECKING:
    from lark import Lark, Token

    from explorer.compiler.language.parsing import syntax

LARGEST_TEXT = 64 * 1024
"""Bytes in UTF-8."""


@lru_cache(maxsize=1)  # a text is compiled again for the data that it turns out to run on
def parse(text: str) -> syntax.Program:
    """The syntax tree of a text, with `Broken` for each line that does not parse and its error in `errors`.

    Raises DiagnosticsError where the text exceeds a limit, so that it is not parsed at all."""
    size = len(text.encode("utf-8", errors="replace"))
    if size > LARGEST_TEXT:
        message = f"a text has at most {LARGEST_TEXT // 1024} KiB, this one {-(-size // 1024):,} KiB"
        raise DiagnosticsError([Diagnostic(message, None)])
    # Lark is loaded on the first text, so that importing the compiler stays cheap.
    from explorer.compiler.language.parsing.layout import Layout, check_limits, join_lines, set_python_words_apart
    from explorer.compiler.language.parsing.lines import LineParser

    collector = Collector()
    tokens = set_python_words_apart(list(_lark().lex(text)))
    if not check_limits(tokens, collector):
        raise DiagnosticsError(collector.diagnostics)
    joined = join_lines(tokens, collector)
    layout: Any = Layout(collector)
    program = LineParser(_lark(), list(layout.process(iter(joined))), collector).parse()
    return replace(program, errors=collector.diagnostics)


@cache
def _lark() -> Lark:
    """The parser of grammar.lark, whose tables are kept where Python keeps what it has compiled of the sources: making
    them takes longer than to compile most models. Lark makes them anew where the grammar or its version has changed."""
    from lark import Lark

    from explorer.compiler.language.parsing.tree import TreeBuilder

    class WholeTokens:
        """Keeps the terminals that no rule takes, and passes the tokens on: parse.py lays them out itself."""

        always_accept = ("FOREIGN",)

        def process(self, stream: Iterator[Token]) -> Iterator[Token]:
            return stream

    folder = Path(__file__).parent
    grammar = (folder / "grammar.lark").read_text(encoding="utf-8")
    tables = folder / "__pycache__" / f"grammar.{sys.implementation.cache_tag}.tables"
    cache = not sys.dont_write_bytecode and str(tables)
    options: dict[str, Any] = {"postlex": WholeTokens(), "transformer": TreeBuilder(), "cache": cache}
    made = Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=True, **options)
    made.lexer = made._build_lexer()  # else each text has one built, which takes longer than reading the text
    return made
