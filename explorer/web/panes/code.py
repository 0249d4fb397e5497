"""The lines of a stage's text as a pane shows them: coloured, in chunks, by unit, or beside those they differ from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from explorer.compiler.codegen.cuda.program import DEVICE_FUNCTIONS
from explorer.compiler.pipeline import STAGES
from explorer.web.panes import differences
from explorer.web.panes.highlight import highlight, highlight_words

MOST_LINES = 5_000
"""Lines of one text that the page shows at first; more would make it slow, and are fetched when a reader asks."""
FIRST_LINES = slice(0, MOST_LINES)
CHUNK = 50
"""Lines that the browser styles and lays out together: it skips the chunks that are out of sight. `.chunk` in the style
sheet has their height."""
GROUP = 20
"""Chunks that it skips together: of a text of 20,000 lines it would look at 400 in each frame that scrolls."""


@dataclass(frozen=True)
class Maker:
    """What a pass made a line for, and where that pass is: its stage, and its number there."""

    name: str
    by: str
    stage: str
    number: int


class CodeLine(NamedTuple):
    """A line of a text. `operations` are its own, and then those that contribute, which all do where a pass made it;
    `of` names its own where there are others. `mark` is "add", "cut" or "fill" in a difference. An answer makes
    thousands, so it is what is made fastest."""

    number: int
    html: Markup
    operations: tuple[int, ...] = ()
    unit: str = ""
    of: str = ""
    made: Maker | None = None
    mark: str = ""

    @property
    def content(self) -> tuple[object, ...]:
        """All that its markup depends on but its number."""
        return self[1:]

    @property
    def css(self) -> str:
        """The line's classes: its unit, whether a pass made it or it comes from no operation, its mark."""
        unit = {"access": " ua", "execute": " ux"}.get(self.unit, "")
        origin = " made" if self.made else "" if self.operations else " none"
        return f"l{unit}{origin}{' ' if self.mark else ''}{self.mark}"


FILL = CodeLine(0, Markup(""), mark="fill")
"""A row of a difference that only the other side has."""


@dataclass(frozen=True)
class Code:
    """The lines of a text in chunks; `total` counts those left out too, which may be the ones with labels. The lines of
    `folded` are behind them, the first of which says what they are. A page that has this text calls it by its
    `version`; `patch` is what differs from an earlier version."""

    chunks: tuple[tuple[CodeLine, ...], ...]
    total: int
    has_units: bool
    has_labels: bool
    folded: tuple[CodeLine, ...] = ()
    version: str = ""
    patch: Patch | None = None

    @property
    def lines(self) -> list[CodeLine]:
        """All that are not folded."""
        return [line for chunk in self.chunks for line in chunk]

    @property
    def groups(self) -> list[tuple[tuple[CodeLine, ...], ...]]:
        """The chunks, some together."""
        return [self.chunks[at : at + GROUP] for at in range(0, len(self.chunks), GROUP)]

    @property
    def begins(self) -> int:
        """The first line's number."""
        return self.chunks[0][0].number if self.chunks else 1


@dataclass(frozen=True)
class Hunk:
    """Rows that come in the place of `cut` others, from row `at` of the text that the page has."""

    at: int
    cut: int
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True)
class Patch:
    """A text as what differs from that of the version `base`; rows of a side of a difference bring their numbers, the
    page counts all others."""

    base: str
    hunks: tuple[Hunk, ...]
    has_numbers: bool = False


def rows_of(lines: Iterable[CodeLine], has_units: bool) -> Markup:
    """Lines as the page has them, with a column for their unit where the text `has_units`.

    A page has hundreds: a template takes three times as long for them. What comes from outside is escaped, the text by
    `highlight`."""
    return Markup("".join(_row(line, has_units, str(line.number or "")) for line in lines))


def unnumbered(line: CodeLine, has_units: bool) -> str:
    """A line as the page has it, but for its number."""
    return _row(line, has_units, "")


def _row(line: CodeLine, has_units: bool, number: str) -> str:
    operations = f' data-operations="{" ".join(map(str, line.operations))}"' if line.operations else ""
    unit = _UNITS[line.unit] if has_units else ""
    source = f'<span class="from">{escape(line.of)}</span>' if line.of else ""
    made = ""
    if line.made is not None:
        made = " data-made"
        source += _maker_markup(line.made)
    return (
        f'<div class="{line.css}"{operations}{made}><span class="g">{number}</span>{unit}'
        f'<span class="t">{line.html}</span>{source}</div>\n'
    )


@lru_cache(maxsize=256)
def _maker_markup(maker: Maker) -> str:
    return _MAKER.format(**{name: escape(value) for name, value in vars(maker).items()})


_UNITS = {
    "access": '<span class="u ua">A</span>',
    "execute": '<span class="u ux">X</span>',
    "": '<span class="u "></span>',
}
_MAKER = (
    '<span class="from"><button type="button" tabindex="-1" data-act="made-by" data-stage="{stage}"'
    ' data-pass="{number}" title="no operation of its own: made by the pass {by} of {stage}">{name}</button></span>'
)


def _text(lines: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(line["text"] for line in lines)


def lines_of(
    language: str,
    lines: Sequence[Mapping[str, Any]],
    labels: Mapping[int, str],
    words: Mapping[int, Sequence[differences.Range]] | None = None,
) -> list[CodeLine]:
    """Lines of one stage with their colours; `words` are the columns to pick out, by the line's number from 0."""
    if not lines:
        return []
    text = _text(lines)
    marked = highlight_words(language, text, words) if words else highlight(language, text)
    told: dict[int, tuple[tuple[int, ...], str, Maker | None]] = {}  # by origin, of which many lines have the same
    found = []
    for number, (line, html) in enumerate(zip(lines, marked, strict=True), start=1):
        place = line["origin"]
        if place not in told:
            told[place] = tuple(line["operations"]), _of(line, labels), _maker(line)
        operations, of, maker = told[place]
        found.append(CodeLine(number, html, operations, line["unit"], of, maker))
    return found


def _of(line: Mapping[str, Any], labels: Mapping[int, str]) -> str:
    """What a line says to the operations that contribute to it: whose it is."""
    operations = line["operations"]
    return "" if line["made"] or len(operations) < 2 else f"of {labels[operations[0]]}"


PLACES = {step.__name__: (spec.name, number) for spec in STAGES for number, step in enumerate(spec.passes)}
"""By the name of a pass its stage, and its number there."""


def _maker(line: Mapping[str, Any]) -> Maker | None:
    made = line["made"]
    return None if made is None else Maker(made["name"], made["by"], *PLACES[made["by"]])


def in_chunks(lines: Sequence[CodeLine], fold: int | None = None, part: slice = FIRST_LINES) -> Code:
    """The part of a text that is shown, of its beginning what it calls folded from the line `fold` on."""
    kept = lines[part]
    at = fold if part == FIRST_LINES else None
    shown, folded = kept[:at], () if at is None else tuple(kept[at:])
    chunks = tuple(tuple(shown[start : start + CHUNK]) for start in range(0, len(shown), CHUNK))
    has_labels = any(line.of or line.made for line in lines)
    return Code(chunks, len(lines), any(line.unit for line in kept), has_labels, folded)


def folds_at(lines: Sequence[Mapping[str, Any]]) -> int | None:
    """The line from which on a text has only what its kernels call; None where there is none."""
    return next((place for place, line in enumerate(lines) if line["text"] == DEVICE_FUNCTIONS), None)


def by_unit(lines: Sequence[CodeLine]) -> tuple[Code, Code] | None:
    """A text that has first all of the access unit and then all of the execute unit, as two programs."""
    units = [line.unit for line in lines]
    if not {"access", "execute"} <= set(units):
        return None
    start = units.index("execute")
    return None if "access" in units[start:] else (in_chunks(lines[:start]), in_chunks(lines[start:]))


@lru_cache(maxsize=32)
def _rows(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[differences.Row, ...]:
    """Kept, since a page asks for the same difference with each of its panes that changes."""
    return tuple(differences.rows(before, after))


def difference(
    language: str,
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    labels: Mapping[int, str],
) -> tuple[Code, Code]:
    """Both sides line by line, filled up so that what is equal stands side by side."""
    rows = _rows(tuple(line["text"] for line in before), tuple(line["text"] for line in after))
    old = lines_of(language, before, labels, {row.old: row.old_words for row in rows if row.old is not None})
    new = lines_of(language, after, labels, {row.new: row.new_words for row in rows if row.new is not None})

    def side(lines: Sequence[CodeLine], number: int | None, mark: str) -> CodeLine:
        return FILL if number is None else lines[number]._replace(mark=mark)

    left = [side(old, row.old, "cut" if row.differs else "") for row in rows]
    right = [side(new, row.new, "add" if row.differs else "") for row in rows]
    return in_chunks(left), in_chunks(right)
