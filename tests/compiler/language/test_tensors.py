"""Sparse tensors of three dimensions and more: what is said of headers that are wrong."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.graph import IndexMap
from tests.compiler.language.helpers import check, found

BODY = """
    param B[b, D], C[c, D]
    for z in X.nonzeros():
        z.a["m"] += z.value * B[z.b] * C[z.c]
    return a["m"]
"""


def text(header: str) -> str:
    return f"dim D = 4\nop f(X: {header}):{BODY}"


@pytest.mark.parametrize(("header", "where", "message"), [
    ("coo[a, b, c, a]", "2:22-23", "'a' is there twice: of a nonzero z, z.a is where it lies in one of them"),
    ("coo[a, b, time]", "2:19-23", "unknown index set 'time': no tensor is over it"),
    ("coo[a, b, value]", "2:19-24", "'value' is a part of the matrix: choose another name"),
    ("coo[a, b, num_rows]", "2:19-27", "'num_rows' is a part of the matrix: choose another name"),
    ("coo[a, b, D]", "2:19-20", "'D' is a size: choose another name"),
    ("csr[a, b, c]", "2:9-21", "'csr' is followed by what it is of: csr[row, col]"),
    ("coo[a]", "2:9-15", "'coo' is followed by what it is of: coo[row, col]"),
])  # fmt: skip
def test_a_header_that_is_wrong(header: str, where: str, message: str) -> None:
    assert (where, message) in found(check(text(header))), found(check(text(header)))


def test_the_maps_are_those_of_a_matrix_and_one_for_each_further_dimension() -> None:
    graph = check(text("coo[a, b, c]")).graph
    assert graph is not None
    assert [(each.name, each.codomain) for each in graph.maps if isinstance(each, IndexMap)] == [
        ("row", "a"),
        ("col", "b"),
        ("c", "c"),
    ]


def test_a_matrix_is_asked_by_its_sets_too() -> None:
    body = """
    param U[user, D], I[item, D]
    for z in A.nonzeros():
        z["e"] = z.value - dot(U[z.user], I[z.item]) + dot(U[z.row], I[z.col])
    return z["e"]
"""
    assert check(f"dim D = 4\nop f(A: csr[user, item]):{body}").graph is not None
    turned = body.replace("user", "col").replace("item", "row").replace("U[z.row], I[z.col]", "U[z.col], I[z.row]")
    assert check(f"dim D = 4\nop f(A: csr[col, row]):{turned}").graph is None, (
        "a row is a row whatever its set is called"
    )
