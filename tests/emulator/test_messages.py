"""Every message function under every reduction on the emulator, with its gradients."""

from __future__ import annotations

import pytest

import explorer
from benchmarks.gpu_check import Setting
from tests.message_cases import SOURCES, TARGETS, Case, check, every_case


@pytest.mark.sampled(32)
@every_case
def test_a_message_under_a_reduction(emulated: Setting, message: str, reduce: str) -> None:
    def run(case: Case):
        compilation = explorer.compile(case.text, options={"grad": "true"}, on_demand=True)
        given = {"row": case.target, "col": case.source, "num_rows": TARGETS, "num_cols": SOURCES, **case.rows}
        arrays, finish = compilation.encode(compilation, given, case.upstream)
        return finish(*emulated.launch(compilation, arrays))

    check(message, reduce, run)
