"""Several bags in one op: its sets and maps, and what is said where a text cannot mean them."""

from __future__ import annotations

import pytest

from tests.compiler.language.helpers import check, found

TWO = "op f(a: bag of item, b: bag of user)"
TENSORS = "    param T[item, D], U[user, D]\n"
SUMS = f"{TENSORS}    return sum(T[i] for i in a) + sum(U[j] for j in b)\n"


def test_each_bag_has_entries_of_its_own() -> None:
    graph = check(f"dim D = 4\n{TWO}:\n{SUMS}").graph
    assert graph is not None
    assert (graph.family, graph.structure) == ("op", "bags")
    assert [(each.name, each.domain, each.codomain) for each in graph.maps] == [
        ("a_bag", "a_entry", "bag"),
        ("a_idx", "a_entry", "item"),
        ("b_bag", "b_entry", "bag"),
        ("b_idx", "b_entry", "user"),
    ]


@pytest.mark.parametrize(("header", "where", "message"), [
    ("op f(a: bag of item, b: csr[user, item])", "2:5-41", "an op is over bags, blocks or a sparse matrix"),
    ("op f(a: bag of item, b: blocks of user)", "2:5-40", "an op is over bags, blocks or a sparse matrix"),
    ("op f(a: bag of item, a: bag of user)", "2:22-23", "the parameter 'a' is there twice"),
    ("op f(a: bag of item, b: bag of a)", "2:32-33", "'a' is what the op is over: choose another name"),
    ("op f(a: bag of item, b: bag of a_entry)", "2:32-39",
     "'a_entry' is what the bags are made of: choose another name"),
    ("op f(a: bag of item, b: bag of entry)", "2:32-37", "'entry' is an index set of ops already: choose another name"),
    ("op f(a: bag of item, a_bag: bag of user)", "2:22-27", "'a_bag' is a part of the bags: choose another name"),
    ("op f(a: bag of item, a_idx: bag of user)", "2:22-27", "'a_idx' is a part of the bags: choose another name"),
    ("op f(a_ptr: item, a: bag of item, b: bag of user)", "2:6-11",
     "'a_ptr' is a part of the bags: choose another name"),
    ("op f(h: b_entry, a: bag of item, b: bag of user)", "2:9-16",
     "'b_entry' is an index set of ops already: choose another name"),
])  # fmt: skip
def test_a_header_that_is_wrong(header: str, where: str, message: str) -> None:
    result = check(f"dim D = 4\n{header}:\n{SUMS}")
    assert (where, message) in found(result), found(result)


@pytest.mark.parametrize(("body", "where", "message"), [
    ("    return sum(sum(T[i] * U[j] for j in b) for i in a)\n", "4:41-42",
     "a loop over the entries of 'b' stands in no loop over those of another bag"),
    ("    for i in a:\n        for j in b:\n            j[\"x\"] = T[i]\n    return sum(T[i] for i in a)\n", "5:18-19",
     "a loop over the entries of 'b' stands in no loop over those of another bag"),
    ("    return sum(sum(T[i] for i in a) for j in a)\n", None, None),
    ("    return sum(U[i] for i in a)\n", "4:16-20", "U is indexed by user, but i is an item"),
    ("    map a_bag: a_entry -> item\n    return sum(T[i] for i in a)\n", "4:9-14",
     "'a_bag' is given by the bags already: choose another name"),
    ("    map c_bag: c_entry -> item\n    return sum(T[i] for i in a)\n", "4:9-14",
     "'c_bag' is a map whose ids ascend: choose another name"),
    ("    map when: entry -> item\n    return sum(T[i] for i in a)\n", "4:15-20",
     "a map of an op leads from a_entries or b_entries or bags or items or users, not from 'entry'"),
    ("    input b_weight[bag]\n    return sum(T[i] for i in a)\n", "4:11-19",
     "'b_weight' is a part of the bags: choose another name"),
    ("    for i in a:\n        i[\"x\"] = T[i]\n    return sum(j[\"x\"] for j in b)\n", "6:18-21",
     "'x' is data of an a_entry, but j is a b_entry"),
])  # fmt: skip
def test_a_body_that_is_wrong(body: str, where: str | None, message: str | None) -> None:
    result = check(f"dim D = 4\n{TWO}:\n{TENSORS}{body}")
    assert result.diagnostics
    if message is not None:
        assert (where, message) in found(result), found(result)


@pytest.mark.parametrize("text", [
    "op f(b: bag of item):\n    param T[item, 4]\n    map x_bag: x_entry -> item\n    return sum(T[i] for i in b)\n",
    "score f(h: x_entry):\n    param T[x_entry, 4], S[shop, 4]\n    map x_bag: x_entry -> shop\n"
    "    return sum(T[h] * S[h.x_bag])\n",
    "score f(h: entry):\n    param T[entry, 4], S[shop, 4]\n    map bag: entry -> shop\n"
    "    return sum(T[h] * S[h.bag])\n",
])  # fmt: skip
def test_a_map_is_not_called_as_those_of_bags(text: str) -> None:
    """Whose ids ascend, on which programs rely."""
    messages = [each.message for each in check(text).diagnostics]
    assert any(each.endswith("is a map whose ids ascend: choose another name") for each in messages), messages


def test_a_score_of_facts_with_several_bags_has_no_negatives() -> None:
    header = "score f(h: item, a: bag of item, b: bag of item, n: negatives of item)"
    result = check(f"{header}:\n    param T[item, 4]\n    return sum(T[h])\n")
    assert [each.message for each in result.diagnostics] == [
        "a score of facts that have bags has beside them ids alone, no negatives"
    ]
