"""Texts in which one operation is another one of the same shape, and which lines of a stage that changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import explorer
from explorer.compiler.compilation import Operation
from explorer.compiler.ir.node import Line, Span

OTHERS = {
    **{"+": "-", "-": "+", "*": "/", "/": "*"},
    **{"relu": "tanh", "sigmoid": "tanh", "sqrt": "exp", "sum": "max", "max": "min", "mean": "sum", "2": "3"},
}
"""By operator, function or number another one that takes and gives the same shapes."""
PARAMETERS = {"norm": {"1": "2", "2": "1"}, "leaky_relu": {"0.2": "0.3"}}
"""By function the numbers that it may have behind its operands, with another one each."""
TWIN = "twin"
"""What a table's name ends in that stands in the place of one that is shaped alike."""
TABLE = "\0"
"""Stands for such a name while others are shortened."""


@dataclass(frozen=True)
class Change:
    """A text with one operation changed: what into what, and where the operation stands in it."""

    text: str
    what: str
    line: int
    column: int
    table: str = ""


def change(text: str, operation: Operation) -> Change | None:
    """The text with another operation of the same shape in the place of this one; None where there is none: of a dot
    product, of a product with a matrix, of what only has another shape, of what is read of a graph or was computed."""
    span, extent = operation.span, operation.extent
    lines = text.split("\n")
    written = lines[span.line - 1][span.column - 1 : span.end_column - 1]
    if written in PARAMETERS and extent.line == extent.end_line:
        call = lines[extent.line - 1][extent.column - 1 : extent.end_column - 1]
        number = re.search(r"([\d.]+)\)$", call)
        assert number is not None, call
        other = f"{call[: number.start(1)]}{PARAMETERS[written][number[1]]})"
        return _exchanged(lines, extent.line, (extent.column, extent.end_column), other, f"{call} -> {other}", span[1])
    if written in OTHERS:
        columns = (span.column, span.end_column)
        return _exchanged(lines, span.line, columns, OTHERS[written], f"{written} -> {OTHERS[written]}", span.column)
    name = re.match(r"\w+", written)
    tables = {table: (where, index) for where, table, index in _declared(text)}
    if name is None or name[0] not in tables or not operation.op.startswith("gather"):
        return None
    other = written.replace(name[0], f"{name[0]}{TWIN}", 1)
    where, index = tables[name[0]]
    columns = (span.column, span.end_column)
    made = _exchanged(lines, span.line, columns, other, f"{written} -> {other}", span.column)
    head, tail = made.text[:where], made.text[where:]  # declarations stand before what uses them
    return Change(f"{head}{name[0]}{TWIN}{index}, {tail}", made.what, made.line, made.column, f"{name[0]}{TWIN}")


def _declared(text: str) -> Iterator[tuple[int, str, str]]:
    """Where each table is declared, its name and what is in its brackets."""
    for declaration in re.finditer(r"^\s*(?:param|input)\b.*$", text, re.MULTILINE):
        for table in re.finditer(r"(\w+)(\[[^\]]*\])", declaration[0]):
            yield declaration.start() + table.start(), table[1], table[2]


def _exchanged(lines: list[str], line: int, columns: tuple[int, int], other: str, what: str, column: int) -> Change:
    """The lines with other text in some columns of one of them."""
    old, (start, end) = lines[line - 1], columns
    changed = [*lines[: line - 1], f"{old[: start - 1]}{other}{old[end - 1 :]}", *lines[line:]]
    return Change("\n".join(changed), what, line, column)


def strays(compilation: explorer.Compilation, operation: Operation, made: Change, stage: str) -> list[str]:
    """The lines that the change takes away or adds, though its operation is neither theirs nor contributes to them.

    Lines are compared without the numbers of names, and without regard to where they stand. Declarations of arrays,
    heads and braces, which have no origin, change with what they declare."""
    other = _compiled(made.text)
    assert other.ok, (made.what, other.diagnostics)
    (there,) = (each for each in other.operations if (each.span.line, each.span.column) == (made.line, made.column))
    lines = compilation.stages[stage].lines, other.stages[stage].lines
    texts = [[_plain(line.text, made.table) for line in each] for each in lines]
    before, after = map(Counter, texts)
    return [
        *(f"- {text}" for text in _strays(lines[0], texts[0], before - after, operation.span)),
        *(f"+ {text}" for text in _strays(lines[1], texts[1], after - before, there.span)),
    ]


def _strays(lines: Sequence[Line], texts: Sequence[str], changed: Counter[str], span: Span) -> list[str]:
    """The texts that `changed`, oftener than there are such lines of the operation, of lines that are not its."""
    pairs = [(line, text) for line, text in zip(lines, texts, strict=True) if text in changed]
    own = Counter(text for line, text in pairs if span in line.origin)
    return [text for line, text in pairs if line.origin and span not in line.origin and own[text] < changed[text]]


NUMBERS = re.compile(r"(?<=[A-Za-z_])(?<!float)(?!(?<=\b[if])32\b)\d+|%\d+")
"""Of names, and of values of the graph; not of types."""


def _plain(text: str, table: str) -> str:
    """A line's text without the numbers of names, those that come of the other `table`'s name, and room for columns."""
    if table:
        text = re.sub(rf"\b{table}(?=\[)", TABLE, text).replace(TWIN, "")
    return " ".join(NUMBERS.sub("", text).split()).replace(TABLE, table)


@cache
def _compiled(text: str) -> explorer.Compilation:
    return explorer.compile(text, on_demand=True)
