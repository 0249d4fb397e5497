"""What a figure or table of a paper is made of: rows, each with what was found here and what is published.

Every table says of itself how its values came about (SOURCES), and every published number comes with the paper's own
figure or table, which is the one that the row stands under, or else is named in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.compiler.compilation import Compilation

SOURCES = {
    "counted": "counted exactly, from programs, index arrays and sizes",
    "simulated": "simulated cycles of an assumed machine",
    "measured": "measured on this machine",
}
NEEDS_GPU = "a GPU, with PyTorch and CuPy."
NEEDS_PROFILER = "a GPU, with PyTorch, CuPy and Nsight Compute."
Programs = Callable[[], Iterable[Callable[[], Compilation]]]
"""Compilations of a figure, each by a call that another process can make too."""
Range = tuple[float, float]
Published = float | Range
"""A number, or the least and the most that a text gives."""


@dataclass(frozen=True)
class Row:
    """A line of a table: by column what was found here, and what the paper has there. A column that neither has stays
    empty. `basis` says how a value was come by where that differs from row to row (fitted, held out)."""

    label: str
    ours: Mapping[str, float]
    published: Mapping[str, Published] = field(default_factory=dict)
    basis: str = ""


@dataclass(frozen=True)
class Table:
    """A figure as it comes out here. `note` says what is counted, on what, and why it is not what is published."""

    source: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    note: str
    unit: str = ""
    form: str = ",.2f"
    logarithmic: bool = False
    right: bool = True
    """Whether every result that it rests on was right."""

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"'{self.source}' is no source of a figure: there are {', '.join(SOURCES)}")


@dataclass(frozen=True)
class Figure:
    """A figure or table by its paper's number. `entries` are those of docs/PAPERS.md that it shows. Where it cannot be
    made on any machine, `make` is None and `needs` says why; `on_gpu` makes it where there is a GPU."""

    name: str
    title: str
    entries: tuple[str, ...]
    make: Callable[[], Table] | None = None
    needs: str = ""
    on_gpu: Callable[[], Table] | None = None
    ahead: Programs = tuple
    """What `on_gpu` measures, so that its machine code can be there before."""

    @classmethod
    def of(
        cls,
        paper: str,
        name: str,
        title: str,
        entries: Sequence[int],
        make: Callable[[], Table] | None,
        needs: str = "",
        on_gpu: Callable[[], Table] | None = None,
        ahead: Programs = tuple,
    ) -> Figure:
        """A figure of a paper, whose entries are given by number."""
        return cls(name, title, tuple(f"{paper} {entry}" for entry in entries), make, needs, on_gpu, ahead)


@dataclass(frozen=True)
class Paper:
    """A paper with its figures, in its order."""

    name: str
    title: str
    figures: tuple[Figure, ...]


def shown(value: Published, form: str) -> str:
    """A number or a range as text."""
    if isinstance(value, tuple):
        return f"{value[0]:{form}} to {value[1]:{form}}"
    return f"{value:{form}}"


def cell(row: Row, column: str, form: str) -> str:
    """Ours, and the published value in brackets."""
    ours = format(row.ours[column], form) if column in row.ours else ""
    if column not in row.published:
        return ours
    return f"{ours or '-'} ({shown(row.published[column], form)})"


def as_text(figure: Figure, table: Table | None) -> str:
    """A figure for a terminal: its rows, a line each, then what they rest on."""
    lines = [f"{figure.name}: {figure.title}"]
    if table is None:
        return "\n".join([*lines, f"  left out: {figure.needs}"])
    lines.append(f"  {table.source}: {SOURCES[table.source]}{f'; {table.unit}' if table.unit else ''}")
    cells = [["", *table.columns]]
    cells += [[row.label, *(cell(row, column, table.form) for column in table.columns)] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, line in enumerate(cells):
        words = [f"{line[0]:{widths[0]}}", *(f"{w:>{width}}" for w, width in zip(line[1:], widths[1:], strict=True))]
        basis = table.rows[number - 1].basis if number else ""
        lines.append(f"  {'  '.join(words)}{f'  {basis}' if basis else ''}".rstrip())
    if any(row.published for row in table.rows):
        lines.append("  in brackets: published")
    return "\n".join(
        [*lines, f"  {table.note}", *([] if table.right else ["  WRONG: a result is not the reference's"])]
    )


def as_json(figure: Figure, table: Table | None) -> dict[str, Any]:
    """A figure as JSON; one that is left out has `needs` and no rows."""
    told: dict[str, Any] = {"figure": figure.name, "title": figure.title, "entries": list(figure.entries)}
    if table is None:
        return {**told, "needs": figure.needs}
    rows = [
        {"label": row.label, "ours": dict(row.ours), "published": dict(row.published)}
        | ({"basis": row.basis} if row.basis else {})
        for row in table.rows
    ]
    return {
        **told,
        "source": table.source,
        "unit": table.unit,
        "columns": list(table.columns),
        "rows": rows,
        "note": table.note,
        "right": table.right,
    }
