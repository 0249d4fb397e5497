"""What is kept by content: told apart by all that it depends on, and bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.compiler.kept import ByContent, content

ONES = np.ones(4, np.float32)
DIFFERENT: list[tuple[Any, ...]] = [
    (),
    (None,),
    ((),),
    ("",),
    (1,),
    (1.0,),
    (True,),
    ("1",),
    (b"1",),
    (-0.0,),
    (0.0,),
    (0,),
    (1, 2),
    (12,),
    ((1, 2),),
    ("a", "b"),
    ("ab",),
    ({"a": 1},),
    ({"a": 1.0},),
    ({"b": 1},),
    ({},),
    (ONES,),
    (ONES.astype(np.float64),),
    (ONES.view(np.int32),),
    (ONES.reshape(2, 2),),
    (ONES[:0],),
    (ONES[:0].astype(np.int32),),
    (ONES * 2,),
    (ONES, ONES),
    ({"a": ONES},),
    ({"a": ONES, "b": ONES},),
]


def test_all_of_a_content_tells_it_apart() -> None:
    assert len({content(*parts) for parts in DIFFERENT}) == len(DIFFERENT)


def test_the_same_content_is_known_in_any_order_of_names_and_layout_of_memory() -> None:
    assert content({"a": 1, "b": ONES}) == content({"b": ONES.copy(), "a": 1})
    numbers = np.arange(12.0).reshape(3, 4)
    assert content(numbers.T) == content(np.ascontiguousarray(numbers.T)) != content(numbers)


@pytest.mark.parametrize("part", [object(), {1, 2}, np.array([None, "a"]), np.array])
def test_what_may_not_show_all_that_it_holds_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match="is not known"):
        content(part)


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    kept = ByContent[bytes](10, len)
    kept.put(b"a", b"1234")
    kept.put(b"b", b"5678")
    assert kept.get(b"a") == b"1234"
    kept.put(b"c", b"90")
    assert kept.nbytes == 10
    kept.put(b"d", b"1")
    assert [kept.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1234", None, b"90", b"1"]
    assert kept.nbytes == 7


def test_what_is_too_large_is_made_each_time_and_nothing_goes_for_it() -> None:
    kept, made = ByContent[bytes](7, len), []

    def make() -> bytes:
        made.append(1)
        return b"1234"  # more than half

    kept.put(b"a", b"123")
    assert kept.made(b"b", make) == kept.made(b"b", make) == b"1234"
    assert (len(made), kept.get(b"a"), kept.nbytes) == (2, b"123", 3)


def test_a_key_that_is_put_again_counts_once() -> None:
    kept = ByContent[bytes](10, len)
    for value in (b"1234", b"12", b"12345"):
        kept.put(b"a", value)
    assert (kept.get(b"a"), kept.nbytes) == (b"12345", 5)
    kept.clear()
    assert (kept.get(b"a"), kept.nbytes) == (None, 0)
