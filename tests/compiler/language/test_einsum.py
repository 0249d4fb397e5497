"""What einsum refuses, with the place and why."""

from __future__ import annotations

import pytest

from tests.compiler.language.helpers import check, found

TEXT = """score f(h: entity, r: relation, t: entity):
    param E[entity, 4], W[3, 4, 5], gamma
    return {}
"""


@pytest.mark.parametrize(
    ("written", "where", "message"),
    [
        ('einsum("a,a", E[h], E[t])', "3:19-24", 'the letters of einsum are as in einsum("hd,hde->he", x, W)'),
        ('einsum("A,A->", E[h], E[t])', "3:19-26", 'the letters of einsum are as in einsum("hd,hde->he", x, W)'),
        ('einsum("...a->a", E[h])', "3:19-28", 'the letters of einsum are as in einsum("hd,hde->he", x, W)'),
        ('einsum("a,a->", E[h])', "3:19-26", "there are letters for 2 values, and 1 values"),
        ('einsum("aa->a", E[h])', "3:19-26", "'aa' has a letter twice: a diagonal is not taken"),
        ('einsum("a,b->aa", E[h], E[t])', "3:19-28", "'aa' has a letter twice: a diagonal is not taken"),
        ('einsum("a->b", E[h])', "3:19-25", "no value has the dimension 'b' of the result"),
        ('einsum("ab->", E[h])', "3:27-31", "this is [4], and 'ab' has 2 letters"),
        ('einsum("a,abc->", E[h], W)', "3:36-37", "'a' is 4 and 3: one letter is one size"),
        ("einsum(E[h], E[t])", "3:12-30",
         'einsum has its letters first, and then its values: einsum("hd,hde->he", x, W)'),
        ('einsum("a->")', "3:12-25", 'einsum has its letters first, and then its values: einsum("hd,hde->he", x, W)'),
        ('einsum("a->", h)', "3:26-27", "'h' is an index of an entity, not a value"),
        ('einsum("a->", "a->")', "3:26-31", "'\"a->\"' is a name of data, not a value"),
        (f'einsum("{"a," * 8}a->", {", ".join(["E[h]"] * 9)})', "3:19-40",
         "there are letters for 9 values, and 9 values, and at most 8"),
    ],
)  # fmt: skip
def test_einsum_is_refused(written: str, where: str, message: str) -> None:
    assert found(check(TEXT.format(written))) == [(where, message)]


def test_what_einsum_makes_is_bounded() -> None:
    values = ", ".join(["E[h]"] * 3)
    text = TEXT.format(f'sum(sum(sum(einsum("a,b,c->abc", {values}))))').replace("entity, 4]", "entity, 1024]")
    assert found(check(text)) == [
        ("3:24-62", "einsum would make 1,073,741,824 elements of a row: 1,048,576 are the most")
    ]


@pytest.mark.parametrize(
    "written", ['einsum("->", gamma)', 'einsum(",a->", 2, E[h])', 'einsum("a,b,c->", E[h], E[t], E[h])']
)
def test_einsum_of_numbers_and_of_values_that_share_nothing(written: str) -> None:
    assert check(TEXT.format(f"{written} + sum(E[h])")).graph is not None
