"""The figures as one page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.paper.charts import COLOURS, chart
from benchmarks.paper.figure import SOURCES, Figure, Paper, Row, Table, shown

Made = Sequence[tuple[Paper, Sequence[tuple[Figure, Table | None]]]]
"""Papers with their figures, and those with what they came to; None where a figure is left out."""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1, h2 { line-height: 1.2 } h2 { margin-top: 3rem; border-bottom: 2px solid } h3 { margin: 2.5rem 0 .3rem }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #d5d9de; font-weight: normal }
th:first-child, td:first-child { text-align: left } thead th { font-weight: 600 } td i { color: #6a4a00 }
.scroll { overflow-x: auto } .note { max-width: 46rem; color: #3a424c } .wrong { color: #a00; font-weight: 600 }
.source { font-size: .8rem; padding: .1rem .5rem; border: 1px solid; border-radius: .6rem; margin-left: .5rem }
.simulated { color: #7b4a9e } .counted { color: #1f5f9e } .measured { color: #2f7d4f } .left-out { color: #6b6f76 }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem }
svg { max-width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #1b1f24 }
svg .published { fill: #111; stroke: #111; stroke-width: 2; fill-opacity: .45 }
nav ul { columns: 2; padding-left: 1.2rem }
"""


def page(made: Made, date: str, seen: str) -> str:
    """The whole page; `seen` says by which command it was made."""
    sources = " ".join(f"<b>{name.title()}</b>: {escape(text)}." for name, text in SOURCES.items())
    head = (
        f"<h1>The papers' figures</h1><p>Made by <code>{escape(seen)}</code> on {escape(date)}. {sources}"
        " <b>Published</b>: the paper's own number, in italics beside ours, and a black line or band over a bar."
        " A figure that needs a GPU, or the authors' machine, says so and is left out.</p>"
    )
    body = "".join(_paper(paper, figures) for paper, figures in made)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>The papers' figures</title><style>{STYLE}</style></head>\n"
        f"<body>{head}{_contents(made)}{body}</body></html>\n"
    )


def _contents(made: Made) -> str:
    links = "".join(
        f'<li><a href="#{paper.name}-{figure.name}">{escape(paper.name)} {escape(figure.name)}</a>'
        f"{'' if table else ' (left out)'}</li>"
        for paper, figures in made
        for figure, table in figures
    )
    return f"<nav><ul>{links}</ul></nav>"


def _paper(paper: Paper, figures: Sequence[tuple[Figure, Table | None]]) -> str:
    sections = "\n".join(_figure(paper, figure, table) for figure, table in figures)
    return f'<h2 id="{paper.name}">{escape(paper.title)}</h2>\n{sections}'


def _figure(paper: Paper, figure: Figure, table: Table | None) -> str:
    source = table.source if table else "left-out"
    badge = f'<span class="source {source}">{source.replace("-", " ")}</span>'
    head = f'<h3 id="{paper.name}-{figure.name}">{escape(figure.title)}{badge}</h3>'
    if table is None:
        return f'<section>{head}<p class="note">{escape(figure.needs)}</p></section>'
    unit = f"<p>{escape(table.unit)}{_keys(table)}</p>"
    wrong = "" if table.right else '<p class="wrong">A result is not the reference\'s.</p>'
    drawn = f'<div class="scroll">{chart(table)}</div>'
    return f'<section>{head}{unit}{wrong}{drawn}{_table(table)}<p class="note">{escape(table.note)}</p></section>'


def _keys(table: Table) -> str:
    return "".join(
        f'<svg class="key" viewBox="0 0 8 8"><rect width="8" height="8" fill="{COLOURS[at % len(COLOURS)]}"/></svg>'
        f"{escape(column)}"
        for at, column in enumerate(table.columns)
        if any(column in row.ours for row in table.rows)
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in ("", *table.columns))
    body = "".join(
        f"<tr><td>{escape(row.label)}{f' <small>{escape(row.basis)}</small>' if row.basis else ''}</td>"
        f"{''.join(f'<td>{_cell(row, column, table.form)}</td>' for column in table.columns)}</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(row: Row, column: str, form: str) -> str:
    ours = format(row.ours[column], form) if column in row.ours else ""
    if column not in row.published:
        return ours
    return f"{ours} <i>{shown(row.published[column], form)}</i>"
