"""Where requests go: to the last-level cache, unless a hint says otherwise (Ember §7.4, Figure 18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import dae as suite
from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.node import rewrite
from explorer.machine.parameters import MachineParameters
from explorer.runtime.run import RunRequest
from explorer.runtime.targets.dae import simulate
from tests.machine import programs as make


def memory(level: dlc.Level, rows: int) -> dict[str, Any]:
    """The traffic of bags from a table of so many rows of 512 B, all of whose loads have the hint."""

    def hint(node: Any) -> Any:
        return replace(node, level=level) if isinstance(node, dlc.MemStream) else node

    found = simulate(rewrite(make.sls(128, 3), hint), make.bags_of(16, 64, 128, rows=rows), MachineParameters())
    counts: dict[str, Any] = found.account["memory"]
    return counts


def test_without_a_hint_the_l2_is_passed_by() -> None:
    plain = memory("", rows=16)
    assert plain["l2_lookups"] == 0
    assert plain["llc_lookups"] == plain["requests"]
    assert plain == memory("LLC", rows=16)


@pytest.mark.parametrize("rows", [16, 32_768])
def test_the_l2_filters_what_it_holds(rows: int) -> None:
    plain, hinted = memory("", rows), memory("L2", rows)
    assert hinted["requests"] == plain["requests"] == hinted["l2_lookups"]
    assert hinted["llc_lookups"] == hinted["requests"] - hinted["l2_hits"]
    if rows == 16:
        assert hinted["llc_lookups"] < 0.2 * plain["llc_lookups"]
    else:
        assert hinted["llc_lookups"] > 0.9 * plain["llc_lookups"]


def test_blocks_of_keys_are_filtered_and_accesses_fall_with_the_block_size() -> None:
    """Figure 18. A line has 16 keys' elements, each in the result once for each of the block's queries: 62.5 accesses
    per kilo-element over the block size, and those of the indices. Half of what a block of queries attends to, the
    global and the neighbouring blocks, was attended to by the one before."""
    plain, hinted = [], []
    for size in (1, 2, 8):
        text = (suite.CHECKOUT / "examples" / "embedding" / "spattn.emb").read_text()
        run = suite.OnMachine(RunRequest(text=text, on="dae", data=f"BigBird:{size}"), MachineParameters())
        for hints, found in ((False, plain), (True, hinted)):
            account = run.account({"store_streams": True, "level_hints": hints})
            found.append(account["rates"]["l3_accesses_per_kiloelement"] / size)
        assert run.right
        assert plain[-1] == pytest.approx(62.5 / size, rel=0.01)
        assert 0.50 <= 1 - hinted[-1] / plain[-1] <= 0.65, "what Ember §8.2 has, indices included"
    assert plain == sorted(plain, reverse=True)
    assert hinted == sorted(hinted, reverse=True)
