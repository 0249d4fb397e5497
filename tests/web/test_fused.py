"""The boxes of a drawn graph are the kernels that `fuse` makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.to_json import with_origins
from explorer.web.panes.drawing import draw

CASES: list[tuple[str, dict[str, Any]]] = [
    ("kge/transr", {}),
    ("kge/transr", {"grad": True}),
    ("rgnn/rgat", {"grad": True}),
    ("rgnn/rgat", {"compact": False}),
    ("rgnn/hgt", {}),
    ("embedding/sls", {}),
]


def drawn(root: Path, name: str, options: dict[str, Any]) -> tuple[Compilation, dict[str, Any]]:
    compilation = explorer.compile((root / "examples" / f"{name}.emb").read_text(), options=options)
    stage = compilation.to_json(["graph"])["stages"][0]
    return compilation, draw(with_origins(stage, stage["lines"]))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_boxes_are_the_kernels_of_the_loops(root: Path, name: str, options: dict[str, Any]) -> None:
    compilation, drawing = drawn(root, name, options)
    program: Any = compilation.stages["loops"].program
    programs = getattr(program, "programs", (program,))
    assert [kernel["id"] for kernel in drawing["kernels"]] == [each.name for each in programs]
    inside = [node for kernel in drawing["kernels"] for node in kernel["nodes"]]
    values = [node["id"] for node in drawing["nodes"] if node["kind"] != "tensor"]
    assert sorted(inside) == sorted(values)  # each in one box
    of = {node: kernel["id"] for kernel in drawing["kernels"] for node in kernel["nodes"]}
    for barrier in drawing["barriers"]:
        assert [barrier["from"], barrier["to"]] in [list(edge) for edge in drawing["edges"]]
        assert of[barrier["from"]] != of[barrier["to"]]
        assert barrier["from"] in barrier["why"]


def test_forward_and_backward_are_apart(root: Path) -> None:
    _, drawing = drawn(root, "rgnn/rgat", {"grad": True})
    assert {kernel["backward"] for kernel in drawing["kernels"]} == {True, False}
    assert not any(kernel["backward"] for kernel in drawn(root, "rgnn/rgat", {})[1]["kernels"])


def test_bytes_of_all_arrays_stand_beside_those_that_are_stored(root: Path) -> None:
    _, drawing = drawn(root, "kge/transr", {})
    everything = 4 * (64 + 64 + 64 + 64 * 64 + 64 + 64 + 64 + 1)  # E[h], E[t], -, P[r], @, R[r], +, norm
    assert drawing["arrays"] == {
        "arrays": 8,
        "bytes": f"{everything:,} B a triple",
        "kernels": 1,
        "stored": 1,
        "stored_bytes": "4 B a triple",
    }
