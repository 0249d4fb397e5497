"""Texts that one compiler is given in turn, as when somebody types: nests that are still the same are not scheduled
again, and every text comes out as where it was the first."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.decisions import Value
from explorer.compiler.ir.exactly import Exactly, exactly_equal
from explorer.compiler.ir.loops import Compute
from explorer.compiler.ir.node import Span
from explorer.compiler.kept import Kept
from tests.compiler.schedule.test_reuse import outcome
from tests.compiler.schedule.typed_texts import TEXTS, edited, ways

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/*.emb"))
COUNTS = {"nodes": 900, "edges": 7_000, "etypes": 9}
CONSTANT = re.compile(r"(?<=[ (*])\d+\.\d+")


def edits_of(text: str) -> list[str]:
    """A text as it is typed: another constant, the same moved right and moved down, and as it was."""
    constant = CONSTANT.search(text)
    other = (
        text[: constant.end()] + "3" + text[constant.end() :] if constant else text.replace("return ", "return 0.5 * ")
    )
    return [text, other, text.replace("= ", "=  "), text.replace("return ", "return  "), f"\n{text}", text]


def compiled(text: str, kept: Kept[Any] | None = None, **how: Any) -> Compilation:
    return explorer.compile(text, on_demand=True, kept=kept, **how)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
@pytest.mark.parametrize("grad", [False, True])
def test_every_text_is_as_if_it_were_the_first(file: Path, grad: bool) -> None:
    kept, texts = Kept[Any](), edits_of(file.read_text())
    first = {text: outcome(compiled(text, options={"grad": grad})) for text in texts}
    for text in texts:
        assert outcome(compiled(text, kept, options={"grad": grad})) == first[text]
    assert kept.reused, "the first text came twice"


def test_other_options_and_counts_are_other_nests() -> None:
    text, kept = (EXAMPLES[0].parents[1] / "rgnn/rgat.emb").read_text(), Kept[Any]()
    ways: list[dict[str, Any]] = [
        {},
        {"options": {"inspect": "false"}},
        {"counts": COUNTS},
        {"counts": {**COUNTS, "edges": 7_000_000}},
        {"options": {"arch": "sm_80"}},
        {"schedule": {"RGAT_1.strategy": "rows"}},
        {"sizes": {"F": 32}},
    ]
    for how in (*ways, *reversed(ways)):
        assert outcome(compiled(text, kept, **how)) == outcome(compiled(text, **how)), how


def test_a_digit_schedules_again_what_reads_it() -> None:
    text, kept = (EXAMPLES[0].parents[1] / "rgnn/rgat.emb").read_text(), Kept[Any]()
    first = compiled(text, kept, options={"grad": True})
    nests = len(first.stages["kernels"].nests)
    assert (kept.made, kept.reused) == (nests, 0)
    typed = compiled(text.replace("0.2)", "0.25)"), kept, options={"grad": True})
    programs = [compilation.stages["loops"].program.programs for compilation in (first, typed)]  # type: ignore[union-attr]
    changed = sum(one != other for one, other in zip(*programs, strict=True))
    assert 0 < changed < nests / 2
    outcome(typed)
    assert (kept.made, kept.reused) == (nests + changed, nests - changed)


def test_what_is_equal_may_come_from_elsewhere() -> None:
    def node(origin: Span, number: float = 0.0) -> Compute:
        return Compute(result="a", function="neg", operands=(number,), origin=(origin,))

    here, there = Span(1, 1, 1, 2), Span(2, 1, 2, 2)
    assert node(here) == node(there)
    assert not exactly_equal((1, node(here)), (1, node(there)))
    assert exactly_equal((1, node(here)), (1, node(here)))
    assert Exactly(node(here)) != Exactly(node(there))
    assert {Exactly(node(here)): 1} == {Exactly(node(here)): 1}
    assert not exactly_equal(node(here), node(here, -0.0))
    assert not exactly_equal(1, 1.0)


def all_of(text: str, kept: Kept[Any] | None, how: dict[str, Any]) -> object:
    """What somebody is told of a text: its kernels and choices, or why there are none."""
    try:
        compilation = compiled(text, kept, **how)
    except ValueError as error:  # of options that do not fit the model
        return str(error)
    if not compilation.ok:
        return [diagnostic.to_json(text) for diagnostic in compilation.diagnostics]
    choices = [
        (each.key, each.value, each.wanted, each.refused, tuple(each.fitting()))
        for nest in compilation.stages["kernels"].nests
        for each in nest.choices
    ]
    return outcome(compilation), choices


def chosen(compilation: Compilation, draw: random.Random) -> dict[str, Value]:
    """A decision of some kernel with any of its values."""
    choice = draw.choice([each for nest in compilation.stages["kernels"].nests for each in nest.choices])
    return {choice.key: draw.choice(choice.decision.domain)}


def hold_texts_in_turn(seed: int, steps: int) -> int:
    """Compiles texts, each an edit of one before, with what is kept and without; how many nests were had again."""
    draw, kept = random.Random(seed), Kept[Any](most_keys=64)
    text, some = draw.choice(TEXTS), [ways(draw) for _ in range(2)]
    for _ in range(steps):
        typed, how = edited(text, draw), dict(draw.choice(some))
        if draw.random() < 0.4:  # one that is there, with another choice
            typed, how["schedule"] = text, chosen(compiled(text), draw)
        fresh = all_of(typed, None, how)
        assert all_of(typed, kept, how) == fresh, (seed, how, typed)
        if isinstance(fresh, tuple):
            text = typed
    return kept.reused


def test_texts_at_random_are_each_as_if_they_were_the_first() -> None:
    assert sum(hold_texts_in_turn(seed, 10) for seed in range(5)) > 5


@pytest.mark.parametrize(
    "count", [pytest.param(20, marks=pytest.mark.sweep), pytest.param(80, marks=pytest.mark.exhaustive)]
)
def test_many_texts_at_random_are_each_as_if_they_were_the_first(count: int) -> None:
    assert sum(hold_texts_in_turn(seed, 12) for seed in range(1_000, 1_000 + count)) > count
