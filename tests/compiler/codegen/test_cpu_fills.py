"""Rows that only a loop over a segment reads are filled where it has elements, and all others always."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import explorer
from explorer.compiler.codegen.cpu.program import generate_host
from explorer.runtime.arrays import kernels_of
from explorer.runtime.targets.cpu import prepare

TRANSE = Path(__file__).resolve().parents[3] / "examples" / "kge" / "transe_l2.emb"


def test_kept_rows_are_filled_where_their_segment_has_elements() -> None:
    compilation = explorer.compile(TRANSE.read_text(), options={"grad": True}, on_demand=True)
    lines = [line for each in kernels_of(compilation.stages["loops"].program) for line in generate_host(each).lines]
    guards = [place for place, line in enumerate(lines) if line.lstrip().startswith("if begin")]
    assert len(guards) == 3  # of R for the relations, of E for the heads and for the tails
    assert all("range(one * " in lines[place + 1] and " in range(begin" in lines[place + 4] for place in guards)


def test_gradients_with_empty_segments_are_the_formulas() -> None:
    compilation = explorer.compile(TRANSE.read_text(), sizes={"D": 5}, options={"grad": True}, on_demand=True)
    random = np.random.default_rng(0)
    E, R = random.standard_normal((9, 5), np.float32), random.standard_normal((4, 5), np.float32)
    h, r, t = (np.array(ids, np.int32) for ids in ([1, 1, 4, 8], [0, 3, 3, 0], [4, 2, 1, 1]))
    inputs = {"h": h, "r": r, "t": t, "E": E, "R": R, "upstream": np.ones(4, np.float32)}
    for name, ids, count in (("h", h, 9), ("r", r, 4), ("t", t, 9)):
        inputs[f"{name}_order"] = np.argsort(ids, kind="stable").astype(np.int32)
        inputs[f"{name}_ptr"] = np.searchsorted(np.sort(ids), np.arange(count + 1)).astype(np.int32)
    _, gradients = prepare(compilation.stages["loops"].program).bind(inputs).run()
    e = E[h].astype(np.float64) - E[t] + R[r]
    slope = e / np.linalg.norm(e, axis=1, keepdims=True)
    want = {"E": np.zeros((9, 5)), "R": np.zeros((4, 5))}
    np.add.at(want["E"], h, slope)
    np.add.at(want["E"], t, -slope)
    np.add.at(want["R"], r, slope)
    for name, exact in want.items():
        np.testing.assert_allclose(gradients[name], exact, rtol=1e-4, atol=1e-6)
