"""The part of a test's cases that plain pytest runs."""

from itertools import product

import pytest

from tests.sampling import sample

pytest_plugins = ["pytester"]
CASES = [(example, setting, size) for example, setting, size in product("abcdefgh", "wxyz", "12")]


@pytest.mark.parametrize("apart", [1, 2, 4, 8])
def test_every_value_is_drawn_as_often_as_the_others(apart: int) -> None:
    drawn = [CASES[number] for number in sample(CASES, apart, "any")]
    assert len(drawn) == len(CASES) // apart
    for place, values in enumerate(("abcdefgh", "wxyz", "12")):
        counts = [sum(case[place] == value for case in drawn) for value in values]
        assert max(counts) - min(counts) <= 2
        assert min(counts) > 0


def test_the_draw_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert sample(CASES, 4, "one") == sample(CASES, 4, "one") != sample(CASES, 4, "two")


def test_a_single_case_is_run() -> None:
    assert sample([("a",)], 4, "any") == {0}


def test_sweep_and_exhaustive_run_the_rest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n"
        "from tests.sampling import mark_the_rest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_collection_modifyitems(items):\n    mark_the_rest(items)\n"
    )
    pytester.makeini("[pytest]\nmarkers = sampled\n  swept\n  sweep\n  exhaustive\n")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.sampled(3)\n@pytest.mark.parametrize('case', range(27))\n"
        "def test_it(case):\n    pass\n\ndef test_other():\n    pass\n\n"
        "@pytest.mark.swept(4)\n@pytest.mark.parametrize('case', range(8))\ndef test_long(case):\n    pass\n"
    )
    for marker, passed in (("not sweep and not exhaustive", 9 + 1), ("sweep", 3 + 2), ("exhaustive", 15 + 6)):
        done = pytester.runpytest_inprocess("-m", marker, "-p", "no:cacheprovider")
        done.assert_outcomes(passed=passed, deselected=36 - passed)
