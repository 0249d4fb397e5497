"""Encodings: whose loads become searches, what is converted, and what is said where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir import loops
from explorer.compiler.ir.kernels import Search
from explorer.compiler.ir.node import walk
from explorer.compiler.to_json import kernels_of

EXAMPLES = Path(__file__).parents[3] / "examples"


def compiled(name: str, **options: Any) -> Any:
    text = (EXAMPLES / f"{name}.emb").read_text()
    return explorer.compile(text, options={"encoding": "compressed", **options}, on_demand=True)


def read(made: Any, kernel: str) -> tuple[set[str], set[str]]:
    """The arrays that a kernel loads elements of, and those that it searches."""
    (found,) = (each for each in kernels_of(made.stages["kernels"].program) if each.name == kernel)
    nodes = list(walk(found))
    loaded = {node.buffer for node in nodes if isinstance(node, loops.Load)}
    return loaded, {node.buffer for node in nodes if isinstance(node, Search)}


def test_a_map_is_searched_and_its_array_not_read() -> None:
    made = compiled("embedding/spmm_coo")
    loaded, searched = read(made, "SpMMCoo_0")
    assert "row" not in loaded
    assert searched == {"row_ptr"}
    assert read(made, "SpMMCoo_0_compress") == (set(), {"row"})
    (conversion,) = (k for k in kernels_of(made.stages["kernels"].program) if k.name == "SpMMCoo_0_compress")
    assert conversion.once


@pytest.mark.parametrize("rows", [[], [0], [5], [0, 0, 3, 3, 3, 5]])
def test_segments_begin_behind_those_before(rows: list[int]) -> None:
    """Of six rows, some empty, the first or the last among them."""
    made = compiled("embedding/spmm_coo", **{})
    given = {"row": np.array(rows, np.int64), "col": np.zeros(len(rows), np.int64), "num_rows": 6, "num_cols": 2}
    given |= {"value": np.ones(len(rows), np.float32), "X": np.ones((2, 128), np.float32)}
    got = made.run(given, "kernels")
    np.testing.assert_array_equal(got[:, 0], np.bincount(given["row"], minlength=6))


def test_what_the_program_has_is_not_converted() -> None:
    """Where a node's edges begin, which its sums read."""
    made = compiled("rgnn/rgat", compact=False)
    loaded, searched = read(made, "RGAT_2")
    assert "dst" not in loaded
    assert searched == {"dst_ptr"}
    assert not any(kernel.name.endswith("compress") for kernel in kernels_of(made.stages["kernels"].program))


def test_a_map_is_converted_once() -> None:
    made = compiled("embedding/sddmm")
    conversions = [k.name for k in kernels_of(made.stages["kernels"].program) if k.name.endswith("compress")]
    assert conversions == ["SDDMM_0_compress"]


@pytest.mark.parametrize("name", ["kge/transr", "embedding/sls", "rgnn/gcn"])
def test_it_says_where_nothing_reads_such_a_map(name: str) -> None:
    made, plain = compiled(name), explorer.compile((EXAMPLES / f"{name}.emb").read_text(), on_demand=True)
    refused = [sentence for report in made.stages["kernels"].passes for sentence in report.refusals]
    assert any("encoding: nothing, for no kernel reads which row, destination or list" in each for each in refused)
    assert made.stages["kernels"].text == plain.stages["kernels"].text


def test_arguments_of_a_score_are_no_such_maps() -> None:
    text = (EXAMPLES / "kge" / "transe_l1.emb").read_text().replace("h:", "row:").replace("[h]", "[row]")
    made = explorer.compile(text, options={"encoding": "compressed"}, on_demand=True)
    assert made.ok
    assert "search" not in made.stages["kernels"].text
