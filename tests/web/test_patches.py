"""Texts that are sent as what differs from those that a page has."""

from __future__ import annotations

import json
import re

from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from explorer.web import limits
from explorer.web.panes.code import FILL, Code, CodeLine, in_chunks
from explorer.web.panes.patches import ShownTexts, differing, patched, rows_text

TEXT = """dim D = 64
score S(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return 0.5 * sum(E[h] * R[r] * E[t])
"""
PANES = json.dumps([{"stage": stage} for stage in ("graph", "loops", "slc", "cuda")])

rows = st.lists(st.integers(0, 6), max_size=30)


@given(rows, rows)
def test_what_differs_makes_one_of_the_other(before: list[int], after: list[int]) -> None:
    made = list(before)
    for at, cut, start, end in reversed(differing(before, after)):
        made[at : at + cut] = after[start:end]
    assert made == after


def test_as_many_rows_of_which_few_are_others_are_told_each_in_its_place() -> None:
    before = list(range(100, 140))
    after = [0 if place in (3, 4, 9, 30) else row for place, row in enumerate(before)]
    assert differing([1, *before, 2], [3, *after, 4]) == [
        (0, 1, 0, 1),
        (4, 2, 4, 6),
        (10, 1, 10, 11),
        (31, 1, 31, 32),
        (41, 1, 41, 42),
    ]


def test_only_what_differs_is_told() -> None:
    assert differing([1, 2, 3], [1, 2, 3]) == []
    assert differing([1, 2, 3], [1, 5, 3]) == [(1, 1, 1, 2)]
    assert differing([1, 1], [1, 1, 1]) == [(2, 0, 2, 3)]
    assert differing([1, 2, 3, 4, 5], [9, 2, 3, 8, 5]) == [(0, 1, 0, 1), (3, 1, 3, 4)]


def text(*words: str, first: int = 1, folded: str = "") -> Code:
    lines = [CodeLine(number, Markup(word)) for number, word in enumerate([*words, *folded], start=first)]
    return in_chunks(lines, len(words) if folded else None)


def test_a_text_is_a_patch_of_the_one_that_the_page_has() -> None:
    texts = ShownTexts()
    words = [f"w{number}" for number in range(500)]
    before = patched(text(*words), "", texts)
    assert before.version
    assert before.patch is None
    after = patched(text(*words[:250], "new", *words[250:]), before.version, texts)
    assert after.patch is not None
    assert after.patch.base == before.version != after.version
    assert [(hunk.at, hunk.cut, [line.html for line in hunk.lines]) for hunk in after.patch.hunks] == [
        (250, 0, ["new"])
    ]
    moved = patched(text(*words, first=7), before.version, texts)
    assert moved.patch is not None
    assert moved.patch.hunks == ()
    assert moved.begins == 7


def test_a_text_is_sent_whole_where_a_patch_would_not_do() -> None:
    texts = ShownTexts()
    base = patched(text("a", "b", "c", folded="xy"), "", texts).version
    assert patched(text("a", "b", "c", folded="xy"), base, texts).patch is not None
    assert patched(text("a", "b", "c", folded="xz"), base, texts).patch is None
    assert patched(text("n", "e", "w", folded="xy"), base, texts).patch is None
    assert patched(text("a", "b", "c", folded="xy"), "of-another-server", texts).patch is None
    side = in_chunks([CodeLine(1, Markup("a")), FILL, CodeLine(2, Markup("c"))])
    assert patched(side, base, texts).patch is None  # the page counts the rows of the one, and not of the other


def test_a_side_of_a_difference_is_a_patch_with_its_numbers() -> None:
    texts = ShownTexts()
    words = [CodeLine(number, Markup(f"w{number}")) for number in range(1, 9)]
    base = patched(in_chunks([*words[:2], FILL, *words[2:]]), "", texts).version
    fewer = patched(in_chunks([words[0], FILL, FILL, *words[2:]]), base, texts)
    assert fewer.patch is not None
    assert [(hunk.at, hunk.cut, hunk.lines) for hunk in fewer.patch.hunks] == [(1, 1, (FILL,))]
    later = [line._replace(number=line.number + 1) for line in words[6:]]
    moved = patched(in_chunks([*words[:2], FILL, *words[2:6], *later]), base, texts)
    assert moved.patch is not None
    (hunk,) = moved.patch.hunks
    assert [line.number for line in hunk.lines] == [8, 9]
    assert 'class="g">8<' in rows_text(hunk.lines, has_units=False, has_numbers=moved.patch.has_numbers)


def test_the_oldest_texts_are_forgotten() -> None:
    texts = ShownTexts()
    size = limits.ROWS_REMEMBERED // 3
    versions = [texts.keep(tuple(range(size))) for _ in range(5)]
    assert [texts.find(version) is None for version in versions] == [True, True, False, False, False]


def versions_in(answer: str) -> list[list[str]]:
    return [re.findall(r'data-text="([^"]*)"', pane) for pane in answer.split('<section class="pane"')[1:]]


def test_an_edit_is_answered_with_the_lines_that_it_changed(client: TestClient) -> None:
    first = client.post("/compile", data={"text": TEXT, "edit": 2, "panes": PANES})
    shown = versions_in(first.text)
    assert [len(each) for each in shown] == [1, 1, 1, 1]
    edit = {"text": TEXT.replace("0.5", "0.75"), "edit": 3, "panes": PANES}
    whole = client.post("/compile", data=edit)
    patch = client.post("/compile", data={**edit, "shown": json.dumps(shown)})
    assert "data-from" not in whole.text
    assert re.findall(r'data-from="([^"]*)"', patch.text) == [each for pane in shown for each in pane]
    new = re.findall(r"<template[^>]*>(.*?)</template>", patch.text, re.DOTALL)
    assert 4 <= len(new) < 20
    assert all("0.75" in rows or "0x" in rows for rows in new)
    assert patch.text.count('class="g"') < 20 < 100 < whole.text.count('class="g"')


def test_versions_that_no_page_sends_are_refused(client: TestClient) -> None:
    for shown in ("{", "[1]", '[["a", 2]]', json.dumps([["v" * 3_000]])):
        answer = client.post("/compile", data={"text": TEXT, "edit": 2, "panes": PANES, "shown": shown})
        assert answer.status_code == 422
    many = json.dumps([["no-such"] * 4] * 20)
    assert client.post("/compile", data={"text": TEXT, "edit": 2, "panes": PANES, "shown": many}).status_code == 200
