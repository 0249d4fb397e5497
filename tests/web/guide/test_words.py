"""Every pass, option and word that the page can show is explained, and every snippet of the language compiles."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import explorer
from explorer.compiler.ir.functions import TABLE
from explorer.compiler.ir.graph import operator_name
from explorer.compiler.ir.parse import grammars
from explorer.compiler.options import Options
from explorer.compiler.pipeline import STAGES
from explorer.lexers import INDEX_SETS
from explorer.web.examples import examples
from explorer.web.guide import language, tour, words
from explorer.web.templates import environment

GRAMMARS = sorted(Path(next(iter(grammars.__path__))).glob("*.lark"))


def keywords(grammar: str) -> set[str]:
    """The words that a grammar of a printed text has: literals, and the beginnings of its patterns."""
    text = re.sub(r"^\s*//.*$", "", grammar, flags=re.MULTILINE)
    literals = re.findall(r'"([^"\n]+)"', text)
    patterns = re.findall(r"/([^/\n]+)/", text)
    plain = [re.sub(r"\(\?[!=<][^)]*\)+|\[[^\]]*\]|\\.", " ", pattern) for pattern in patterns]
    found = re.findall(r"[A-Za-z]\w+", " ".join([*literals, *plain]))
    return {word for word in found if word not in {"slcv", "inf", "nE"}}


def test_passes_are_explained() -> None:
    assert set(words.PASSES) == {step.__name__ for spec in STAGES for step in spec.passes}


def test_options_are_explained() -> None:
    assert set(words.OPTIONS) == {field.name for field in fields(Options)}


def test_controls_are_explained_where_the_page_asks_for_it() -> None:
    pieces = Path(environment.__file__).parent.rglob("*.html")
    named = {name for piece in pieces for name in re.findall(r'data-means="(\w+)"', piece.read_text(encoding="utf-8"))}
    assert named == set(words.CONTROLS)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda path: path.stem)
def test_words_of_the_printers_are_explained(grammar: Path) -> None:
    assert keywords(grammar.read_text()) - set(words.WORDS) == set()


def test_hints_are_plain_text() -> None:
    """The page shows them as they are."""
    tables = (words.PASSES, words.OPTIONS, words.CONTROLS, words.WORDS)
    assert [name for table in tables for name, meaning in table.items() if "`" in str(meaning)] == []


def test_index_sets_are_explained() -> None:
    assert set(INDEX_SETS) <= set(words.WORDS)


def test_operators_of_all_examples_are_explained() -> None:
    shown = {function.name for function in TABLE}
    for example in examples():
        graph = explorer.compile(example.text, options={"grad": True}).stages["graph"].program
        shown |= {operator_name(value.operator, value.shape).partition("<")[0] for value in graph.values}
    assert shown - set(words.WORDS) == set()


@pytest.mark.parametrize("snippet", language.SNIPPETS, ids=lambda snippet: snippet.title)
def test_snippets_compile(snippet: language.Snippet) -> None:
    compiled = explorer.compile(snippet.text)
    assert compiled.ok, [diagnostic.message for diagnostic in compiled.diagnostics]
    assert all(stage.available for name, stage in compiled.stages.items() if name not in ("ptx", "sass"))


def test_tour_has_nine_stops_whose_passes_change_what_they_show() -> None:
    assert len(tour.STOPS) == 9
    there = {tour.key_of(example): example.text for example in examples()}
    for stop in tour.STOPS:
        compiled = explorer.compile(there[stop.example], options=dict(stop.options))
        assert compiled.ok
        for view in stop.panes:
            stage = compiled.stages[view.stage]
            report = stage.passes[-1 if view.number is None else view.number]
            assert not view.after or (report.name == view.after and report.changed), (stop.example, view)


def test_menu_has_every_example_once_with_a_sentence() -> None:
    stops, more = tour.menu()
    entries = [*stops, *more]
    assert sorted(entry.key for entry in entries) == sorted(tour.key_of(example) for example in examples())
    assert all(entry.sentence for entry in entries)
    assert [entry.number for entry in stops] == list(range(1, 10))


def test_the_default_example_is_changed_most() -> None:
    """By passes of the graph: what a first screen shows of a compiler at work."""
    changed = {
        tour.key_of(example): sum(report.changed for report in explorer.compile(example.text).stages["graph"].passes)
        for example in examples()
    }
    assert changed[tour.DEFAULT_EXAMPLE] == max(changed.values())
