"""Threads that write a row's vector, and others its scalars: apart only where their columns are known to be."""

from __future__ import annotations

import pytest

from explorer.compiler.ir.node import VerificationError
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled

ROWS = """scheduled Rows  template rows  threads 64
  size G = {size}
  output out[N, {stride}]
  for n in 0..N @block
    for g in 0..{extent}{step} @thread
{where}
    for w in 0..2 @warp, l in 0..32 @lane
      where w == 0
        where l == 0
          out[n, {column}] = 1.0
"""
WHERE = """      where g < G
        out[n, g] = 2.0"""
ALL = "      out[n, g] = 2.0"


def rows(size: int, column: int, extent: str = "G", where: str = ALL, step: str = "") -> str:
    return ROWS.format(size=size, column=column, extent=extent, where=where, step=step, stride=128)


@pytest.mark.parametrize(
    "text",
    [rows(64, 64), rows(60, 60, "64", WHERE), rows(60, 60, "64", WHERE, " step 4")],
    ids=["a loop ends", "a condition", "a condition on vectors"],
)
def test_columns_behind_the_vector(text: str) -> None:
    verify_scheduled(parse_scheduled(text))


@pytest.mark.parametrize(
    "text",
    [rows(64, 63), rows(60, 59, "64", WHERE), rows(60, 60, "64"), rows(58, 59, "64", WHERE, " step 4")],
    ids=["its last", "its last under a condition", "no condition", "in its last vector"],
)
def test_columns_of_the_vector(text: str) -> None:
    with pytest.raises(VerificationError, match="written by other threads"):
        verify_scheduled(parse_scheduled(text))
