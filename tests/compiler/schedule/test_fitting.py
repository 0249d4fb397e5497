"""Options whose values do not fit: the nearest that do are taken, and the stage says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.compiler.schedule.fitting import lowered

EXAMPLES = Path(explorer.__file__).parents[1] / "examples"


def test_the_largest_choice_below() -> None:
    assert lowered(64, (0, 16, 32, 64), lambda each: each < 64) == 32
    assert lowered(48, (0, 16, 32, 64), lambda each: each < 100) == 48
    assert lowered(64, (0, 16, 32, 64), lambda each: False) is None


@pytest.mark.parametrize(
    ("model", "sizes", "options", "said"),
    [
        ("rgnn/rgat", {}, {"aggregate": False, "chunk": 4096}, "RGAT_3: chunk=4096: 2048, for 393,216 bytes of shared"),
        (
            "rgnn/rgat",
            {},
            {"aggregate": False, "chunk": 4096, "arch": "sm_80"},
            "RGAT_3: chunk=4096: 1024, for 393,216 bytes of shared",
        ),
        (
            "embedding/spmm",
            {"D": 192},
            {"split": "rows", "block_columns": 128},
            "SpMM_0: block_columns=128: 64 columns, for a row has 192",
        ),
        (
            "embedding/spmm",
            {"D": 512},
            {"lanes": 4},
            "SpMM_0: lanes=4: 8 lanes share a row of 128 vectors of 4, for 4 have too few registers",
        ),
        (
            "embedding/spmm",
            {"D": 512},
            {"split": "rows", "preload": 512, "block_rows": 32},
            "SpMM_0: preload=512: 128, for its elements have no scalars that 32 warps have room for",
        ),
        (
            "embedding/spmm",
            {"D": 128},
            {"split": "rows", "block_rows": 1024},
            "SpMM_0: block_rows=1024: 32, for a warp has 1 of them, and a block 32 warps",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_the_nearest_that_does(
    model: str, sizes: dict[str, int], options: dict[str, str | int | bool], said: str
) -> None:
    made = explorer.compile((EXAMPLES / f"{model}.emb").read_text(), sizes=sizes, options=options, on_demand=True)
    assert made.stages["cuda"].available, made.stages["cuda"].reason
    refusals = made.stages["kernels"].passes[-1].refusals
    assert any(each.startswith(said) for each in refusals), refusals
