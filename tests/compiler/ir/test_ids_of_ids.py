"""What maps compute of ids: random sums, products, quotients and remainders of several, printed, read back, computed
and bounded, against Python's own whole numbers."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from explorer.compiler.ir.graph import IndexMap, print_graph
from explorer.compiler.ir.index_functions import reach, rows_for
from explorer.compiler.ir.index_sets import shared_by
from explorer.compiler.ir.parse.graph import parse_graph

PATHS = ("h", "r", "t")
TEXT = """score f over batch
  map h: batch -> entity
  map r: batch -> relation
  map t: batch -> item
  map m: batch -> part = {}
  param T[part]
  %1 = gather T[m]  : batch []  {{m}}
  return %1
"""


def drawn(random: Random, depth: int) -> str:
    """An expression of ids, which begins with one."""
    made = random.choice(PATHS)
    for _ in range(random.randrange(4)):
        operator = random.choice(("+", "-", "*", "//", "%"))
        number = operator in ("//", "%") or depth == 0 or random.random() < 0.5
        other = str(random.randrange(1, 9)) if number else f"({drawn(random, depth - 1)})"
        made = f"({made}) {operator} {other}"
    return made


def read(made: str) -> IndexMap:
    return parse_graph(TEXT.format(made)).maps[-1]


@pytest.mark.parametrize("seed", range(100))
def test_ids_are_those_of_pythons_numbers_and_within_reach(seed: int) -> None:
    random = Random(seed)
    made = drawn(random, 2)
    entry = read(made)
    counts = {name: random.choice((1, 2, 3, 5)) for name in PATHS}
    ids = np.array(list(product(*(range(count) for count in counts.values())))).T
    by_name = dict(zip(PATHS, ids, strict=True))
    want = [eval(made, {}, dict(zip(PATHS, map(int, each), strict=True))) for each in ids.T]
    got = entry.lead([by_name[path] for path in entry.paths], [counts[path] for path in entry.paths])
    np.testing.assert_array_equal(got, want)
    if entry.computed:
        found = reach([counts[path] for path in entry.paths], entry.computed)
        assert found is not None
        assert found[0] <= min(want) <= max(want) <= found[1]
        assert rows_for([counts[path] for path in entry.paths], entry.computed) == max(0, found[1] + 1)


@pytest.mark.parametrize("seed", range(100))
def test_what_is_printed_is_read_back(seed: int) -> None:
    graph = parse_graph(TEXT.format(drawn(Random(seed), 2)))
    again = parse_graph("\n".join(line.text for line in print_graph(graph)))
    assert [(e.paths, e.computed) for e in again.maps] == [(e.paths, e.computed) for e in graph.maps]


@pytest.mark.parametrize(
    ("made", "counts", "rows"),
    [
        ("h + t", (5, 5), 9),
        ("h + t", (1, 1), 1),
        ("h + t", (0, 5), 0),
        ("h * 3 + t", (4, 3), 12),
        ("h - t + 2", (4, 3), 6),
        ("h * t", (4, 3), 7),
        ("(h - 3) * (t - 4)", (3, 3), 13),  # -3 times -4
        ("(h + t) % 7", (100, 100), 7),
        ("(h + t) % 7", (0, 0), 7),
        ("h % 7 + t", (0, 3), 9),
        ("t + h % 7", (3, 0), 9),
    ],
)
def test_a_table_has_rows_up_to_the_greatest_id(made: str, counts: tuple[int, int], rows: int) -> None:
    assert read(made).count(counts) == rows


@pytest.mark.parametrize(("one", "other", "facts"), [(1, 4, 1), (4, 4, 4), (4, 6, 2), (6, 4, 2)])
def test_facts_share_what_is_computed_where_they_share_all_of_it(one: int, other: int, facts: int) -> None:
    """Of chunks of 4 and of 6 the sixth and the seventh fact are in one chunk of 4, and in two of 6."""
    chunks = (("a", one), ("b", other))
    given = [IndexMap(name=n, domain="negative", codomain="e", sharing=s, origin=()) for n, s in chunks]
    sums = IndexMap(name="m", domain="negative", codomain="s", paths=("a", "b"), computed=(("+", ()),), origin=())
    assert shared_by([*given, sums], sums) == facts
    assert shared_by(given, given[1]) == other
