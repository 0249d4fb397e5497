"""What a caller may pass as a score's arrays, and the sentence for what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret.inputs import InputsError, check_inputs

MODEL = """dim D = 4
score Bilinear(h: entity, r: relation, t: entity):
    param E[entity, D]
    param M[relation, D, D]
    param B[entity, relation]
    param Unused[entity, D]
    return dot(E[h] @ M[r], E[t]) + B[h, r]
"""


def ids(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def arrays(**changes: Any) -> dict[str, Any]:
    """Arrays that fit for 5 entities and 3 relations, with some changed; None leaves one out."""
    fitting = {
        "h": ids(0, 4),
        "r": ids(2, 0),
        "t": ids(1, 1),
        "E": np.ones((5, 4), np.float32),
        "M": np.ones((3, 4, 4), np.float32),
        "B": np.ones((5, 3), np.float32),
    }
    return {name: array for name, array in (fitting | changes).items() if array is not None}


def check(inputs: dict[str, Any], negatives: int = 0) -> None:
    options = {"negatives": f"tail:{negatives}"} if negatives else {}
    check_inputs(explorer.compile(MODEL, options=options).stages["graph"].program, inputs, negatives)


def test_arrays_that_fit_pass() -> None:
    check(arrays())
    check(arrays(h=ids(), r=ids(), t=ids()))
    check(arrays(t=np.array([[0, 1, 2], [4, 4, 4]])), negatives=3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"E": None}, "There is no array for E."),
        ({"r": None}, "There is no array for r."),
        ({"E": np.ones((5, 3))}, "E has the shape [5, 3], but is declared [entity, D = 4]."),
        ({"E": np.ones(5)}, "E has the shape [5], but is declared [entity, D = 4]."),
        ({"B": np.ones((6, 3))}, "B has the shape [6, 3], but is declared [entity = 5, relation = 3]."),
        ({"E": np.full((5, 4), "x")}, "E holds <U1 where values are numbers."),
        ({"h": np.ones(2)}, "h holds float64 where indices are whole numbers."),
        ({"t": ids(1, 1, 1)}, "t has the shape [3], but is declared [batch = 2]."),
        ({"t": ids(1, -1)}, "t[1] is -1, but E has 5 rows, one for each entity."),
        ({"h": ids(5, 0)}, "h[0] is 5, but E has 5 rows, one for each entity."),
        # Flat, B[3, 3] is B[4, 0]: each index is checked by itself.
        ({"r": ids(0, 3)}, "r[1] is 3, but M has 3 rows, one for each relation."),
    ],
)
def test_what_does_not_fit_is_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputsError) as told:
        check(arrays(**changes))
    assert str(told.value) == sentence


@pytest.mark.parametrize(
    ("tails", "sentence"),
    [
        (ids(1, 1), "t has the shape [2], but is declared [batch = 2, 3]."),
        (np.array([[0, 1, 2], [4, 9, 4]]), "t[1, 1] is 9, but E has 5 rows, one for each entity."),
    ],
)
def test_negatives_have_ids_of_their_own(tails: np.ndarray[Any, Any], sentence: str) -> None:
    with pytest.raises(InputsError) as told:
        check(arrays(t=tails), negatives=3)
    assert str(told.value) == sentence
