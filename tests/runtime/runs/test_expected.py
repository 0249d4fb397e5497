"""Runs that are held against another text: equal in other words, unequal in one place, and what cannot be compared."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.checkout import CHECKOUT
from explorer.runtime.run import RunRequest, execute

SCORE = """dim D = 8
score One(h: entity, r: relation, t: entity):
    param E[entity, D]
    param P[relation, D, D]
    return sum((E[h] - E[t]) @ P[r])
"""
SAME = """dim K = 8
score Another(h: entity, r: relation, t: entity):
    param E[entity, K]
    param P[relation, K, K]
    return sum(E[h] @ P[r]) - sum(E[t] @ P[r])
"""
EXAMPLES = ("rgnn/rgcn", "embedding/spmm", "embedding/sls")


def held(text: str, expected: str, **changes: Any) -> dict[str, Any]:
    request = RunRequest(text=text, expected=expected, on="cpu", data="", batch=64, repeat=1, **changes)
    return list(execute(request))[-1]


def example(name: str) -> str:
    return (CHECKOUT / "examples" / f"{name}.emb").read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("options", [{}, {"negatives": "tail:3"}])
def test_the_same_in_other_words_is_equal(seed: int, options: dict[str, str]) -> None:
    for text, expected in ((SCORE, SAME), (SAME, SCORE)):
        assert held(text, expected, seed=seed, options=options)["matches_reference"] is True


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_family_equals_itself(name: str) -> None:
    assert held(example(name), example(name))["matches_reference"] is True


@pytest.mark.parametrize(
    ("text", "expected", "changed"),
    [
        (SCORE, SAME, ("- E[t]", "+ E[t]")),
        (SCORE, SAME, ("(E[h] - E[t])", "1.0001 * (E[h] - E[t])")),
        (SCORE, SAME, ("sum((E[h] - E[t]) @ P[r])", "sum(E[h] @ P[r])")),
        (example("embedding/spmm"), example("embedding/spmm"), ("a * X[j]", "X[j]")),
        (example("embedding/spmm").replace("a * X[j]", "X[j]"), example("embedding/spmm"), ("X[j]", "3 * X[j]")),
        (example("embedding/spmm"), example("embedding/spmm").replace("a * X[j]", "X[j]"), ("a * X[j]", "X[j] * a")),
        (example("embedding/sls"), example("embedding/sls"), ("T[i]", "2 * T[i]")),
    ],
)
def test_another_meaning_is_told(text: str, expected: str, changed: tuple[str, str]) -> None:
    assert changed[0] in text
    last = held(text.replace(*changed), expected)
    assert (last["event"], last["kind"]) == ("failed", "error")
    assert "elements do" in last["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SCORE.replace("D = 8", "D = 1"), "'E' is ['entity', 1], where it is to be ['entity', 8]"),
        (SCORE.replace("E[", "Ent["), "'E' is not there"),
        (SCORE.replace("h: entity", "head: entity").replace("[h]", "[head]"), "'h' is not there"),
        (SCORE.replace("    return", "    param Q[D]\n    return sum(Q) +"), "'Q' is ['8'"),
        (SCORE.replace("return", "retrun"), "does not compile"),
        (example("rgnn/rgcn"), "layer, where score is expected"),
    ],
)
def test_what_cannot_be_compared_is_told(text: str, words: str) -> None:
    last = held(text, SAME)
    assert (last["event"], last["kind"]) == ("failed", "error")
    assert words.replace("'8'", "8") in last["message"]


def test_a_problem_that_ends_in_a_question_ends_there() -> None:
    assert held(SCORE.replace("P[r]", "Pr[r]"), SAME)["message"].endswith("unknown name 'Pr': did you mean 'P'?")
    assert held(SCORE.replace("P[r]", "Nothing[r]"), SAME)["message"].endswith("unknown name 'Nothing'.")


def test_the_sizes_are_those_that_are_expected() -> None:
    """A text cannot choose sizes for which something else is equal, nor can a request."""
    one = SCORE.replace("D = 8", "D = 1")
    for sizes in ({}, {"D": 1}):
        assert held(one, SCORE, sizes=sizes)["sizes"] == {"D": 8}


def test_an_expected_text_that_is_broken_is_no_fault_of_the_other() -> None:
    last = held(SCORE, SAME.replace("return", "retrun"))
    assert last["kind"] == "refused"
    assert "The expected text is of no use" in last["message"]
