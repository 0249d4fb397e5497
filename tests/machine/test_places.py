"""Where in the data a record's rows are from: the list and the entry that are told have that very row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.module import Module
from explorer.runtime.targets.dae import simulate

PTR = np.array([0, 3, 3, 4, 9], np.int32)
IDX = np.array([5, 2, 7, 1, 1, 0, 6, 3, 4], np.int32)


def records_of(text: str, inputs: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    program = explorer.compile(text, options=options).stages["dlc"].program
    assert isinstance(program, Module | DlcProgram)
    records: list[dict[str, Any]] = simulate(program, inputs).account["pushed_first"]
    assert all(len(record["held"]) == len(record["sources"]) for record in records)
    return records


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("grouping", [True, False])
def test_of_bags_the_entry_that_is_told_picks_the_row(root: Path, level: int, grouping: bool) -> None:
    text = (root / "examples" / "embedding" / "sls.emb").read_text()
    table = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    inputs = {"T": table, "idx": IDX, "bag_ptr": PTR}
    seen = []
    for record in records_of(text, inputs, opt=level, vlen=16 if grouping else 4):
        for name, source in zip(record["held"], record["sources"], strict=True):
            row = int(name.removeprefix("T[").split(",")[0].rstrip("]"))
            found = re.fullmatch(r"bag (\d+), entry (\d+), idx\[(\d+)\]", source)
            assert found, source
            bag, entry, at = map(int, found.groups())
            assert PTR[bag] + entry == at < PTR[bag + 1]
            assert IDX[at] == row
            seen.append(at)
    assert seen == sorted(seen)
    assert seen


def test_of_a_batch_the_triple_that_is_told_picks_the_row(root: Path) -> None:
    text = (root / "examples" / "kge" / "transe_l1.emb").read_text()
    random = np.random.default_rng(3)
    ids = {"h": [4, 0, 2], "t": [1, 3, 0], "r": [1, 1, 0]}
    tables = {"E": random.random((5, 64), np.float32), "R": random.random((2, 64), np.float32)}
    inputs = {**{name: np.array(values, np.int32) for name, values in ids.items()}, **tables}
    told = set()
    for record in records_of(text, inputs, opt=3):
        for name, source in zip(record["held"], record["sources"], strict=True):
            found = re.fullmatch(r"triple (\d+), ([hrt])\[(\d+)\]", source)
            assert found, source
            assert found[1] == found[3]
            row = int(name.partition("[")[2].partition("]")[0].split(",")[0])
            assert ids[found[2]][int(found[1])] == row
            assert name[0] == ("R" if found[2] == "r" else "E")
            told.add(found[2])
    assert told >= {"h", "r"}


def test_of_a_set_without_segments_the_element_that_is_told_is_the_row() -> None:
    """`T[kind]` of each user of a graph between two sets, no edge of which is read."""
    text = "dim F = 8\nlayer f(g: graph[user, item]):\n    param T[kind, F]\n    map kind: user -> kind\n"
    text += '    for u in g.src_nodes():\n        u["h"] = 2 * T[u.kind]\n    return user["h"]\n'
    kinds = np.array([2, 0, 1], np.int32)
    inputs = {"T": np.arange(24, dtype=np.float32).reshape(3, 8), "kind": kinds}
    seen = []
    for record in records_of(text, inputs, opt=3):
        for name, source in zip(record["held"], record["sources"], strict=True):
            found = re.fullmatch(r"user (\d+), kind\[(\d+)\]", source)
            assert found, source
            assert found[1] == found[2]
            assert int(name.removeprefix("T[").split(",")[0].rstrip("]")) == kinds[int(found[1])]
            seen.append(int(found[1]))
    assert sorted(set(seen)) == [0, 1, 2]
