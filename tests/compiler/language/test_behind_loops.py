"""Data that a loop reads of other elements and writes: the change that has all read what was there before."""

from __future__ import annotations

import pytest

from tests.compiler.language.helpers import check, found
from tests.compiler.language.test_fixes import applied

LAYER = """layer f(g: graph):
    input x[node, 4]
    for n in g.nodes():
        n["h"] = x[n]
    for n in g.nodes():
        {}
    return n["h"]
"""
READ = 'sum(e.src["h"] for e in n.incoming_edges())'


@pytest.mark.parametrize(
    "lines", [f'n["h"] = {READ}', f'y = {READ}\n        n["h"] = tanh(y) * x[n]  # of the step before']
)
def test_it_is_written_in_a_loop_behind(lines: str) -> None:
    text = LAYER.format(lines)
    (diagnostic,) = check(text).diagnostics
    (fix,) = diagnostic.fixes
    assert fix.label == 'Write "h" behind the loop'
    mended = applied(text, fix)
    assert found(check(mended)) == []
    assert '    for n in g.nodes():\n        n["h"] = n["new_h"]\n    return n["h"]\n' in mended


@pytest.mark.parametrize(
    "lines",
    [
        f'n["h"] = {READ}\n        n["y"] = n["h"]',
        f'n["y"] = {READ}\n        n["h"] *= 2',
        f'n["new_h"] = x[n]\n        n["h"] = {READ} + n["new_h"]',
    ],
)
def test_what_reads_it_behind_or_has_that_name_is_left(lines: str) -> None:
    diagnostics = check(LAYER.format(lines)).diagnostics
    assert [each.message for each in diagnostics][:1] == [
        "'h' of other nodes is read in this same loop: the order would count"
    ]
    assert not any(each.fixes for each in diagnostics)


def test_a_loop_at_the_end_of_a_text_without_a_line_end_has_the_fix() -> None:
    text = LAYER.format(f'n["h"] = {READ}').rstrip("\n").rpartition("\n")[0]
    (fix,) = next(each for each in check(text).diagnostics if each.fixes).fixes
    assert fix.label == 'Write "h" behind the loop'
    assert applied(text, fix).endswith('    for n in g.nodes():\n        n["h"] = n["new_h"]')


def test_a_comment_behind_the_line_stays_there() -> None:
    text = LAYER.format(f'n["h"] = {READ}  # as in PageRank')
    (fix,) = check(text).diagnostics[0].fixes
    assert found(check(applied(text, fix))) == []
    assert "# as in PageRank\n    for n in g.nodes():\n" in applied(text, fix)
