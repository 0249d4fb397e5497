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
    return compilation, draw(with_origins(stage, stage["lines"]), compilation.to_json([])["counted"])


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


def test_at_cuke_s_sizes_a_framework_materialises_what_its_paper_says(root: Path) -> None:
    """cuKE §II-C: at B = 4096 and Dim = 1024 the projection matrices take B * Dim * Dim * 4 bytes, 16 GB."""
    text = (root / "examples" / "kge" / "transr.emb").read_text()
    compilation = explorer.compile(text, sizes={"D": 1024, "K": 1024})
    found = compilation.to_json(["graph"])
    stage = found["stages"][0]
    made = draw(with_origins(stage, stage["lines"]), found["counted"])["materialised"]
    assert made["largest"].endswith("P[r]")
    assert 4096 * made["largest_bytes"] == 4096 * 1024 * 1024 * 4 == 16 * 2**30
    assert 16 * 2**30 < 4096 * made["bytes"] < 17 * 2**30
    assert made["stored_bytes"] == 4
    assert made["is_a_triple"]


def test_an_op_is_counted_on_the_lists_that_it_is_compiled_for(root: Path) -> None:
    text = (root / "examples" / "embedding" / "sls.emb").read_text()
    counts = {"bags": 10, "entries": 640, "rows": 1000}
    found = explorer.compile(text, counts=counts).to_json(["graph"])
    stage = found["stages"][0]
    made = draw(with_origins(stage, stage["lines"]), found["counted"])["materialised"]
    assert made["bytes"] == 4 * 128 * (640 + 10)  # T[idx], and its sums
    assert made["stored_bytes"] == 4 * 128 * 10
    assert not made["is_a_triple"]


def test_barriers_have_their_bytes_and_their_operations(root: Path) -> None:
    text = (root / "examples" / "rgnn" / "rgat.emb").read_text()
    counts = {"nodes": 100, "edges": 700, "etypes": 3, "ntypes": 2, "src_pairs": 50, "dst_pairs": 60}
    found = explorer.compile(text, counts=counts).to_json(["graph"])
    stage = found["stages"][0]
    made = draw(with_origins(stage, stage["lines"]), found["counted"])["materialised"]
    rows = {"node": 100, "edge": 700, "etype": 3, "src_pair": 50, "dst_pair": 60}
    shapes = {line["text"].split()[0]: line["text"] for line in stage["lines"] if line["text"].lstrip().startswith("%")}
    assert made["cuts"]
    for cut in made["cuts"]:
        declared = shapes[cut["from"]].split(":")[-1].split()
        elements = 1
        for extent in declared[1].strip("[]").split(","):
            elements *= found["sizes"].get(extent, 1) if not extent.isdigit() else int(extent)
        assert cut["bytes"] == 4 * rows[declared[0]] * elements
        assert cut["operation"] in {operation["id"] for operation in found["operations"]}
    assert made["cut_bytes"] <= made["bytes"]
