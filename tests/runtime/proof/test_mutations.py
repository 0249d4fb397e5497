"""Texts with one thing wrong, of every kind of line: each is refused with a place, proven wrong with a value, or runs
and matches, and what is made of it onward is verified or says why not; never a traceback, and never for long."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

import pytest

import explorer
from explorer.compiler.edited.reading import EDITABLE
from explorer.runtime.proof.prove import SECONDS, prove
from tests.runtime.proof.mutations import mutant

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "transr": ("kge/transr", {}),
    "rgat": ("rgnn/rgat", {"grad": True}),
    "sls": ("embedding/sls", {"opt": 3}),
}
EACH = 500
"""Mutations of a model, over its eight stages."""
EACH_ONWARD = 40
"""Mutations of a stage of which the stages onward are run too."""
LONGEST = 5 * SECONDS
"""A text is read and run within their own limits, and what follows is made of it on a busy machine."""


def checked(plain: explorer.Compilation, stage: str, pick: random.Random) -> str:
    """What became of one mutation; all that is promised of it is asserted."""
    text, what = mutant(plain.stages[stage].text, pick)
    began = process_time()
    found = plain.with_edited({stage: text})
    onward = [found.stages[spec] for spec in found.stages if spec not in ("ptx", "sass")]
    told = f"{stage}: {what}"
    assert process_time() - began < LONGEST, told
    (edit,) = found.edits
    lines = text.split("\n")
    assert edit.verdict.message, told
    assert 1 <= edit.line <= len(lines) + 1, told
    assert edit.column >= 1, told
    match edit.verdict.status:
        case "refused":
            assert found.stages[stage] is plain.stages[stage], told
        case "wrong":
            assert edit.verdict.difference or "outside" in edit.verdict.message, told
            assert all(s.reason for s in onward if s.fork and s.name != stage), told
        case "matches":
            assert edit.verdict.inputs >= 1, told
            assert all(s.available or s.reason for s in onward), told
    return edit.verdict.status


def wrong_onward(plain: explorer.Compilation, stage: str, pick: random.Random) -> list[str]:
    """Of a mutation that matches, the stages that are made of it and do not."""
    text, what = mutant(plain.stages[stage].text, pick)
    found = plain.with_edited({stage: text})
    if found.edits[0].verdict.status != "matches":
        return []
    made = [found.stages[name] for name in EDITABLE if found.stages[name].fork == stage and name != stage]
    programs = [(each.name, each.program) for each in made if each.program is not None]
    verdicts = [(name, prove(found, name, lambda program=program: program)[1]) for name, program in programs]
    return [f"{name}: {verdict}: {what}" for name, verdict in verdicts if verdict.status != "matches"]


def seen(model: str, count: int) -> Counter[str]:
    """How often each verdict came of so many mutations of each stage."""
    name, options = MODELS[model]
    plain = explorer.compile((EXAMPLES / f"{name}.emb").read_text(), options=options, on_demand=True)
    pick = random.Random(model)
    return Counter(checked(plain, stage, pick) for stage in EDITABLE for _ in range(count))


@pytest.mark.parametrize("model", MODELS)
def test_a_few_mutations(model: str) -> None:
    assert sum(seen(model, 3).values()) == 3 * len(EDITABLE)


@pytest.mark.swept(3)
@pytest.mark.parametrize("model", MODELS)
def test_mutations_of_every_kind_of_line(model: str) -> None:
    found = seen(model, -(-EACH // len(EDITABLE)))
    assert min(found[status] for status in ("refused", "wrong", "matches")) > 0


@pytest.mark.swept(3)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_made_onward_of_a_mutation_that_matches_does_so_too(model: str) -> None:
    name, options = MODELS[model]
    plain = explorer.compile((EXAMPLES / f"{name}.emb").read_text(), options=options, on_demand=True)
    pick = random.Random(f"{model} onward")
    assert [line for stage in EDITABLE for _ in range(EACH_ONWARD) for line in wrong_onward(plain, stage, pick)] == []
