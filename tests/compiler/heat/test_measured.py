"""Recorded samples belong to the very instructions that they were measured at, and sum up to operations."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.heat.heat import heat_json
from explorer.compiler.heat.machine_code import kernels_in
from explorer.compiler.heat.measured import measured
from explorer.compiler.heat.recordings import FOLDER, Recording, has_recordings, recording_of
from explorer.compiler.ir.node import Line, Span

CASES = ["kge/transr", "embedding/sls"]


@pytest.fixture(scope="module", params=CASES)
def compilation(request: pytest.FixtureRequest) -> Compilation:
    text = (Path(__file__).parents[3] / "examples" / f"{request.param}.emb").read_text()
    return explorer.compile(text, on_demand=True)


def written(folder: Path, digest: str, samples: dict[str, dict[str, int]], date: str = "2026-01-02") -> None:
    kernel = {"model": "kge/transr", "data": "FB15k", "samples": samples}
    body = {"device": "a device of this test", "date": date, "tool": "ncu 0", "kernels": {digest: kernel}}
    (folder / f"test-{date}.json.gz").write_bytes(gzip.compress(json.dumps(body).encode()))


def test_the_text_of_sass_is_read_back(compilation: Compilation) -> None:
    stage = compilation.stages["sass"]
    kernels = kernels_in(stage.lines)
    assert [kernel.symbol for kernel in kernels] == [launch.symbol for launch in stage.program.launches]
    for kernel in kernels:
        addresses = [each.address for each in kernel.instructions]
        assert addresses == list(range(0, 16 * len(addresses), 16))  # none is left out
        assert "EXIT" in {each.opcode for each in kernel.instructions}
        for each in kernel.instructions:
            assert each.text in " ".join(stage.lines[each.line - 1].text.split())
            assert len(each.control) == 17


def test_any_other_instruction_is_another_kernel(compilation: Compilation) -> None:
    lines = compilation.stages["sass"].lines
    kernel = kernels_in(lines)[0]
    for place in (0, len(kernel.instructions) // 2):
        number = kernel.instructions[place].line - 1
        for before, after in (("R1", "R3"), ("01*/", "02*/"), ("05*/", "06*/"), (";", ", R0;")):
            changed = Line(lines[number].text.replace(before, after, 1))
            if changed.text != lines[number].text:
                others = kernels_in([*lines[:number], changed, *lines[number + 1 :]])
                assert others[0].digest != kernel.digest
    named = [Line(line.text.replace("_kernel:", "_other:")) for line in lines]
    assert kernels_in(named)[0].digest == kernel.digest


def test_samples_sum_up_to_operations(compilation: Compilation, tmp_path: Path) -> None:
    lines = compilation.stages["sass"].lines
    kernel = kernels_in(lines)[0]
    counts = {f"{each.address:x}": 3 + place % 7 for place, each in enumerate(kernel.instructions)}
    written(tmp_path, kernel.digest, {"long_sb": counts, "selected": {"0": 5}})
    found = measured(lines, lambda digest: recording_of(digest, tmp_path))
    assert found is not None
    assert found.total == sum(counts.values()) + 5
    assert found.lines[kernel.instructions[0].line] == Counter(long_sb=3, selected=5)
    of_operations = sum(reasons.total() for reasons in found.operations.values())
    assert of_operations + found.rest.total() == found.total
    for span, reasons in found.operations.items():
        own = [each for each in kernel.instructions if lines[each.line - 1].origin[:1] == (span,)]
        assert isinstance(span, Span)
        assert reasons["long_sb"] == sum(counts[f"{each.address:x}"] for each in own) > 0


def test_what_was_measured_of_another_kernel_is_not_said(compilation: Compilation, tmp_path: Path) -> None:
    lines = compilation.stages["sass"].lines
    written(tmp_path, "0" * 64, {"long_sb": {"0": 9}})
    assert measured(lines, lambda digest: recording_of(digest, tmp_path)) is None


def test_the_newest_recording_counts(tmp_path: Path) -> None:
    written(tmp_path, "ab", {"wait": {"10": 2}}, "2026-03-01")
    written(tmp_path, "ab", {"wait": {"10": 1}}, "2026-02-01")
    found = recording_of("ab", tmp_path)
    assert isinstance(found, Recording)
    assert (found.at(16), found.at(0)) == ({"wait": 2}, {})
    assert found.label == "measured on a device of this test with ncu 0, 2026-03-01, at FB15k"


def test_nothing_is_said_where_nothing_is_recorded(compilation: Compilation, tmp_path: Path) -> None:
    assert not has_recordings(tmp_path)
    if not any(recording_of(kernel.digest) for kernel in kernels_in(compilation.stages["sass"].lines)):
        assert heat_json(compilation, ["sass"])["measured"] is None
    assert heat_json(compilation)["measured"] is None


def test_what_is_shipped_says_where_it_is_from() -> None:
    for file in FOLDER.glob("*.json.gz"):
        body = json.loads(gzip.decompress(file.read_bytes()))
        assert body["device"]
        assert body["tool"].startswith("ncu ")
        assert all(len(digest) == 64 for digest in body["kernels"])
        silent = [kernel for kernel in body["kernels"].values() if not kernel["samples"]]
        assert all(kernel["launches"] == 0 for kernel in silent)  # which the usual data give nothing to do
        assert len(silent) < len(body["kernels"]) / 4
