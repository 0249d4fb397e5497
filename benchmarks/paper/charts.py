"""Bars beside what is published, as SVG: no script, no font and no image of elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from benchmarks.paper.figure import Published, Row, Table, shown

LABEL, WIDTH, VALUE = 250, 460, 150
"""Pixels for what a bar is, for the longest bar, and for its number."""
BAR, GAP = 13, 8
COLOURS = ("#1f5f9e", "#c2571a", "#2f7d4f", "#7b4a9e", "#8a6d00", "#0f7c86", "#9e2f4d", "#555f6b")
"""One a column; as dark as text is on white."""


def chart(table: Table) -> str:
    """A table's numbers as bars, a group a row; what is published is a line over the bar, or a band for a range."""
    scale = _Scale(list(_numbers(table.rows)), table.logarithmic)
    parts: list[str] = []
    top = 4
    for row in table.rows:
        drawn = [column for column in table.columns if column in row.ours or column in row.published]
        if not drawn:
            continue
        parts.append(f'<text class="row" x="0" y="{top + 11}">{escape(row.label[:44])}</text>')
        for column in drawn:
            colour = COLOURS[table.columns.index(column) % len(COLOURS)]
            parts += _bar(row, column, (top, colour), scale, table.form)
            top += BAR + 2
        top += GAP
    body = "\n".join(parts)
    size = f'viewBox="0 0 {LABEL + WIDTH + VALUE} {top}" width="{LABEL + WIDTH + VALUE}"'
    title = escape(f"{table.unit or 'values'}, {table.source}{', logarithmic' if table.logarithmic else ''}")
    return f'<svg {size} role="img" aria-label="{title}">\n{body}\n</svg>'


def _numbers(rows: Iterable[Row]) -> Iterable[float]:
    for row in rows:
        yield from row.ours.values()
        for value in row.published.values():
            yield from value if isinstance(value, tuple) else (value,)


class _Scale:
    """From numbers to pixels, from zero on, or by their logarithms from below the least on."""

    def __init__(self, numbers: list[float], logarithmic: bool) -> None:
        above = [number for number in numbers if number > 0]
        self.most = max(above, default=1.0)
        self.least = min(above, default=1.0) / 2
        self.logarithmic = logarithmic

    def __call__(self, value: float) -> float:
        if value <= 0:
            return 0.0
        if not self.logarithmic:
            return WIDTH * value / self.most
        return WIDTH * math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)


def _bar(row: Row, column: str, at: tuple[int, str], scale: _Scale, form: str) -> list[str]:
    top, colour = at
    parts = []
    end = 0.0
    if column in row.ours:
        end = scale(row.ours[column])
        told = escape(f"{row.label}, {column}: {row.ours[column]:{form}}")
        parts.append(
            f'<rect x="{LABEL}" y="{top}" width="{max(end, 1):.1f}" height="{BAR}" fill="{colour}">'
            f"<title>{told}</title></rect>"
        )
    text = format(row.ours[column], form) if column in row.ours else f"{column}, not ours"
    if column in row.published:
        value = row.published[column]
        parts += _published(value, top, scale)
        end = max(end, scale(value[1] if isinstance(value, tuple) else value))
        text += f" (published {shown(value, form)})"
    parts.append(f'<text class="value" x="{LABEL + end + 6:.1f}" y="{top + 11}">{escape(text)}</text>')
    return parts


def _published(value: Published, top: int, scale: _Scale) -> list[str]:
    if isinstance(value, tuple):
        low, high = (LABEL + scale(end) for end in value)
        return [
            f'<rect class="published" x="{low:.1f}" y="{top + 4}" width="{max(high - low, 1):.1f}" height="{BAR - 8}"/>'
        ]
    here = LABEL + scale(value)
    return [f'<line class="published" x1="{here:.1f}" x2="{here:.1f}" y1="{top - 1}" y2="{top + BAR + 1}"/>']
