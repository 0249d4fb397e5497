"""Sums along a map, `e.dst["h"] += ...`, and tensors of coordinates: what is refused, with its place."""

from __future__ import annotations

import pytest

from tests.compiler.language.helpers import check, found

LAYER = """layer f(g: graph):
    input x[node, 4], w[edge]
    for n in g.nodes():
        n["h"] = x[n]
    for e in g.edges():
        {}
    return {}
"""


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ('e.dst["h"] += e.src["h"]', "6:9-19", "'h' of other nodes is read in this same loop: the order would count"),
        ('e.dst["h"] += 2 * e.dst["h"]', "6:9-19",
         "'h' of other nodes is read in this same loop: the order would count"),
        ('e.dst["s"] += w[e]\n        e["y"] = e.dst["s"]', "7:18-28",
         "'s' is summed in this loop: its value is known behind the loop"),
    ],
)  # fmt: skip
def test_a_sum_along_a_map_is_refused(line: str, where: str, message: str) -> None:
    assert (where, message) in found(check(LAYER.format(line, 'n["h"]')))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("X: coo[i]", "'coo' is followed by what it is of: coo[row, col]"),
        ("X: csr[i, j, k]", "'csr' is followed by what it is of: csr[row, col]"),
    ],
)
def test_coordinates_of_other_dimensions_are_refused(header: str, message: str) -> None:
    text = f'op f({header}):\n    for z in X.nonzeros():\n        z.row["m"] += z.value\n    return i["m"]\n'
    assert message in [each for _, each in found(check(text))]
