"""Ids that stand beside a bag in a header, of an op or a score: what is said where they cannot."""

from __future__ import annotations

import pytest

from explorer.compiler.options import Negatives
from tests.compiler.language.helpers import check, found

BODY = """
    param E[entity, D], T[row, D]
    return sum(T[i] for i in l) * E[h]
"""


@pytest.mark.parametrize(("header", "where", "message"), [
    ("op f(h: entity, l: bag of row, m: blocks of row)", "2:5-49", "an op is over bags, blocks or a sparse matrix"),
    ("op f(h, l: bag of row)", "2:5-23", "an op is over bags, blocks or a sparse matrix"),
    ("op f(h: entity)", "2:9-15", "an op is over bags, blocks or a sparse matrix, not over 'entity'"),
    ("op f(h: time, l: bag of row)", "2:9-13", "unknown index set 'time': no tensor is over it"),
    ("op f(h: entry, l: bag of row)", "2:9-14", "'entry' is an index set of ops already: choose another name"),
    ("op f(h: entity, ptr: entity, l: bag of row)", "2:17-20", "'ptr' is a part of the bags: choose another name"),
    ("op f(h: entity, A: csr[row, col])", "2:6-7", "ids stand beside a bag: of a matrix, where a row or a column leads"
     " to is a map"),
    ("score f(h: entity, n: negatives of entity, l: bag of row)", "2:8-58",
     "a score of facts that have bags has beside them ids alone, no negatives"),
    ("op f(l: entity, l: bag of row)", "2:17-18", "the parameter 'l' is there twice"),
    ("score f(l: entity, l: bag of row)", "2:20-21", "the parameter 'l' is there twice"),
    ("op f(h: entity, h: entity, l: bag of row)", "2:17-18", "the parameter 'h' is there twice"),
])  # fmt: skip
def test_a_header_that_is_wrong(header: str, where: str, message: str) -> None:
    result = check(f"dim D = 4\n{header}:{BODY}")
    assert (where, message) in found(result), found(result)


@pytest.mark.parametrize("kind", ["score", "op"])
def test_an_id_is_a_map_from_the_bag(kind: str) -> None:
    graph = check(f"dim D = 4\n{kind} f(h: entity, l: bag of row):{BODY}").graph
    assert graph is not None
    assert (graph.family, graph.structure) == ("op", "bags")
    assert [(each.name, each.domain, each.codomain) for each in graph.maps][2:] == [("h", "bag", "entity")]


def test_a_score_over_bags_has_no_negatives() -> None:
    result = check(f"dim D = 4\nscore f(h: entity, l: bag of row):{BODY}", negatives=Negatives("tail", 3))
    assert [each.message for each in result.diagnostics] == ["'f' is over bags, and has no negatives"]
