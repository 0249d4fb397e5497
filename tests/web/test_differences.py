"""Differences of two texts: what is marked has changed, what has changed is marked, names stand side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

import explorer
from explorer.checkout import CHECKOUT
from explorer.web.panes.differences import Row, rows

EXAMPLES = sorted((CHECKOUT / "examples").glob("*/*.emb"))


def plain(line: str) -> tuple[int, tuple[str, ...]]:
    """A line as a reader takes it: how deep it stands, and its words."""
    return len(line) - len(line.lstrip()), tuple(line.split())


def check(before: Sequence[str], after: Sequence[str]) -> list[Row]:
    """The rows, which show every line of both sides once and in order, and leave unmarked only what is alike."""
    found = list(rows(before, after))
    assert [row.old for row in found if row.old is not None] == list(range(len(before)))
    assert [row.new for row in found if row.new is not None] == list(range(len(after)))
    for row in found:
        if not row.differs:
            assert row.old is not None
            assert row.new is not None
            assert plain(before[row.old]) == plain(after[row.new])
        elif row.old is not None and row.new is not None:
            assert plain(before[row.old]) != plain(after[row.new])
    return found


def sides_of(name: str, stage: str, step: str) -> tuple[list[str], list[str]]:
    compilation = explorer.compile((CHECKOUT / f"examples/{name}.emb").read_text(), on_demand=True)
    (report,) = [report for report in compilation.stages[stage].passes if report.name == step]
    return [line.text for line in report.before], [line.text for line in report.after]


def test_compact_of_rgat_marks_what_it_changed() -> None:
    before, after = sides_of("rgnn/rgat", "graph", "compact")
    found = check(before, after)
    counted = [Counter(map(plain, side)) for side in (before, after)]
    cut, added = counted[0] - counted[1], counted[1] - counted[0]
    assert sum(row.differs and row.old is not None for row in found) == cut.total() == 8
    assert sum(row.differs and row.new is not None for row in found) == added.total() == 17
    together = [(before[row.old], after[row.new]) for row in found if row.differs and None not in (row.old, row.new)]
    names = [[re.findall(r"%\d+", line)[0] for line in pair] for pair in together]
    assert names == [["%3", "%3"], ["%8", "%8"], ["%10", "%10"]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_pass_of_the_graph_marks_what_it_changed(path) -> None:
    """As many lines as are in one side only: graphs keep the order of what stays."""
    compilation = explorer.compile(path.read_text(), options={"grad": True}, on_demand=True)
    for report in compilation.stages["graph"].passes:
        before, after = ([line.text for line in side] for side in (report.before, report.after))
        found = check(before, after)
        only = Counter(map(plain, before)) - Counter(map(plain, after))
        assert sum(row.differs and row.old is not None for row in found) == only.total(), report.name


def test_words_that_changed_are_picked_out_and_blanks_are_none() -> None:
    before, after = (
        ["  %1 = add %2, %3    : edge []", "  for d in 0..D"],
        ["  %1 = add %2, %4  : edge []", "for d in 0..D"],
    )
    first, second = check(before, after)
    assert [before[0][slice(*word)] for word in first.old_words] == ["3"]
    assert [after[0][slice(*word)] for word in first.new_words] == ["4"]
    assert second.differs


def test_names_are_paired_across_what_is_added_between() -> None:
    before = ["a = x + y", "b = a * 2"]
    after = ["c = x - y", "a = x + c", "d = c", "b = a * 3"]
    assert [(row.old, row.new) for row in check(before, after)] == [(None, 0), (0, 1), (None, 2), (1, 3)]
