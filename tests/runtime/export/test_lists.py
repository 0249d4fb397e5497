"""The indices of an op in an extension: what they take, and what they do not let pass."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

from explorer.runtime.export.files.lists import Lists  # noqa: E402
from explorer.runtime.export.files.module import Declared  # noqa: E402

ROW, COL = torch.tensor([2, 0, 2]), torch.tensor([1, 3, 0])
ENDS = torch.tensor([0, 1, 1, 3])


class Sparse(Lists):
    """X's rows by the entries of a matrix, added up."""

    tensors = (
        Declared("value", ("nonzero",), (), True, False),
        Declared("X", ("col",), (8,), True, True),
        Declared("Y", ("row",), (8,), True, False),
    )
    form = 3
    owner, entry, picked, home, pick = "row", "nonzero", "col", "rows", "cols"
    home_ends, home_order = "row_ends", "row_order"


def test_the_number_of_rows_is_as_given_or_as_told_or_the_least():
    assert Sparse().prepare(ROW, COL).counts["row"] == 3
    assert Sparse().prepare(ROW, COL, num_rows=7).counts["row"] == 7
    assert Sparse(row=6).prepare(ROW, COL).counts["row"] == 6
    assert Sparse(row=6).prepare(ROW, COL, num_rows=7).counts["row"] == 7
    assert Sparse().prepare(ROW, COL, known={"row": 5}).counts["row"] == 5, "which a tensor tells"
    made = Sparse(row=6).prepare(ROW, COL)
    assert made.arrays["row_ends"].tolist() == [0, 1, 1, 3, 3, 3, 3]
    assert Sparse().prepare(rowptr=ENDS, col=COL, num_rows=3, num_cols=4).counts["row"] == 3


WRONG = {
    "takes row and col, and num_rows or num_cols": lambda: Sparse().prepare(ROW, COL, num_row=7),
    "takes row and col, and num_rows or num_cols.": lambda: Sparse().prepare(ROW, COL, COL),
    "takes row and col": lambda: Sparse().prepare(ROW),
    "takes rowptr and col": lambda: Sparse().prepare(rowptr=ENDS, col=COL, num_lists=3),
    "rowptr begins 3 lists, not num_rows=4": lambda: Sparse().prepare(rowptr=ENDS, col=COL, num_rows=4),
    "an entry is in list 2 of 2": lambda: Sparse(row=2).prepare(ROW, COL),
    "Sparse is not told how many rows there are, but col, row": lambda: Sparse(rows=3),
    "what is prepared or num_rows, not both": lambda: Sparse()(Sparse().prepare(ROW, COL), num_rows=7),
    "what is prepared or indices, not both": lambda: Sparse()(Sparse().prepare(ROW, COL), COL),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_nobody_takes_is_refused(sentence):
    with pytest.raises(ValueError, match=sentence):
        WRONG[sentence]()
