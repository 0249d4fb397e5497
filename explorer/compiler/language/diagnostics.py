"""What is wrong with a model, said in the user's terms, with the place and, where there is one, the fix."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explorer.compiler.ir.node import Span
from explorer.compiler.language.spelling import closest

LARGEST_COUNT = 50
"""After so many diagnostics of one text the rest are not looked for: the text is not a model."""

WIDEST_EXCERPT = 110
"""Columns of source shown under a message; of a longer line the part around the span."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that is likely meant: the text of `span` becomes `replacement`; `label` names it on a button."""

    label: str
    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing wrong, as a sentence; without a span it is about the request, not about a place in the text."""

    message: str
    span: Span | None
    detail: str = ""
    fixes: tuple[Fix, ...] = ()
    severity: str = "error"

    def render(self, text: str) -> str:
        """The message with its place, the source line with carets under the span, the detail and the fixes."""
        lines = [self.message]
        if self.span is not None:
            lines = [f"{self.span.line}:{self.span.column}: {self.message}", *_excerpt(text, self.span)]
        if self.detail:
            lines.append(f"  {self.detail}")
        lines += [f"  fix: {fix.label}" for fix in self.fixes]
        return "\n".join(lines)

    def to_json(self, text: str) -> dict[str, object]:
        """The diagnostic for scripts and the page; `source` is its first line as it stands in the text."""
        source = source_line(text, self.span.line) if self.span else ""
        return {
            "message": self.message,
            **_span_json(self.span),
            "detail": self.detail,
            "source": source,
            "fixes": [
                {"label": fix.label, **_span_json(fix.span), "replacement": fix.replacement} for fix in self.fixes
            ],
            "severity": self.severity,
        }


class DiagnosticsError(Exception):
    """A text that is not a model, with everything that was found wrong with it."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(diagnostic.message for diagnostic in self.diagnostics))


class Collector:
    """Gathers diagnostics: each once, in the order of the text."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Span | None], Diagnostic] = {}
        self.place: Span | None = None
        """Where everything is reported while it is set: for a helper that is not in the user's text, its call."""

    def report(self, message: str, span: Span | None, detail: str = "", fixes: Iterable[Fix] = ()) -> None:
        """Adds a diagnostic, unless it is there already or there are too many to be of use."""
        if self.place is not None:
            span, detail, fixes = self.place, "", ()
        if len(self._found) < LARGEST_COUNT:
            diagnostic = Diagnostic(message, span, detail, tuple(fixes))
            self._found.setdefault((message, span), diagnostic)

    def add(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Takes over diagnostics that another collector gathered."""
        for entry in diagnostics:
            self.report(entry.message, entry.span, entry.detail, entry.fixes)

    @property
    def full(self) -> bool:
        """Whether further diagnostics would be dropped."""
        return len(self._found) >= LARGEST_COUNT

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was found, in the order of the text; what has no place comes first."""
        start = Span(0, 0, 0, 0)
        return tuple(sorted(self._found.values(), key=lambda entry: entry.span or start))


def suggestion(
    name: str, span: Span, candidates: Iterable[str], abbreviates: bool = False
) -> tuple[str, tuple[Fix, ...]]:
    """The end of an "unknown name" message and its fix: `: did you mean 'E'?`, or nothing."""
    other = closest(name, candidates, abbreviates)
    if other is None:
        return "", ()
    return f": did you mean '{other}'?", (Fix(f"Use {other}", span, other),)


def joined_fix(label: str, text: str, edits: Sequence[tuple[Span, str]]) -> Fix:
    """Several changes as one: the text from the first to the last of them, with all of them made."""
    ordered = sorted(edits)
    first, last = ordered[0][0], ordered[-1][0]
    lines = text.split("\n")
    made, line, column = "", first.line, first.column
    for span, replacement in ordered:
        made += _between(lines, line, column, span.line, span.column) + replacement
        line, column = span.end_line, span.end_column
    return Fix(label, Span(first.line, first.column, last.end_line, last.end_column), made)


def _between(lines: Sequence[str], line: int, column: int, end_line: int, end_column: int) -> str:
    """The text from one place to another."""
    if line == end_line:
        return lines[line - 1][column - 1 : end_column - 1]
    return "\n".join(
        (lines[line - 1][column - 1 :], *lines[line : end_line - 1], lines[end_line - 1][: end_column - 1])
    )


def with_article(noun: str) -> str:
    """The noun with "a" or "an", as it is spoken: a user, an ntype."""
    vowel = noun[0] in "aeiou" and not noun.startswith(("us", "uni", "eu"))
    return f"{'an' if vowel or noun == 'ntype' else 'a'} {noun}"


def source_line(text: str, line: int) -> str:
    """A line of the text by its number, without its end; empty where the text has no such line."""
    lines = text.split("\n", line)
    return lines[line - 1].removesuffix("\r") if 1 <= line <= len(lines) else ""


def slice_text(text: str, span: Span) -> str:
    """The text of a span on one line: line breaks and runs of blanks become one blank."""
    lines = text.split("\n")[span.line - 1 : span.end_line]
    if not lines:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(" ".join(lines).split())


def _span_json(span: Span | None) -> dict[str, int | None]:
    """A span's four numbers by the names that the library's JSON uses."""
    return {
        "line": span.line if span else None,
        "column": span.column if span else None,
        "end_line": span.end_line if span else None,
        "end_column": span.end_column if span else None,
    }


def _excerpt(text: str, span: Span) -> tuple[str, str]:
    """The span's first source line and a line of carets under it, both cut to a readable width."""
    line = "".join(char if char == "\t" or char.isprintable() else "\ufffd" for char in source_line(text, span.line))
    start = min(span.column - 1, len(line))
    stop = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
    stop = max(stop, start + 1)
    left = max(0, start - WIDEST_EXCERPT // 2) if len(line) > WIDEST_EXCERPT else 0
    right = left + WIDEST_EXCERPT
    before = "…" if left else ""
    after = "…" if right < len(line) else ""
    margin = before and " "
    margin += "".join(_blank(char) for char in line[left:start])
    carets = "^" * max(1, sum(_width(char) for char in line[start : min(stop, right)]) + max(0, stop - len(line)))
    return f"  {before}{line[left:right]}{after}", f"  {margin}{carets}"


def _width(char: str) -> int:
    """The columns that a terminal gives a character."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _blank(char: str) -> str:
    """Blanks as wide as a character; a tab stays one, so that the carets stand where it takes them."""
    return "\t" if char == "\t" else " " * _width(char)
