"""The interpreter's machine code is kept, and not kept too long."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba.core import caching

from explorer.machine.assembly import opcodes
from explorer.machine.compiled import entry, fingerprint
from explorer.machine.core import core_memory
from explorer.machine.memory.cache import set_of
from explorer.machine.units import access, interpreter
from explorer.machine.units.arithmetic import SOURCES
from explorer.runtime.targets.dae import simulate
from tests.machine import programs as make


def test_code_is_compiled_even_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])

    def double(number: int) -> int:
        return number + number

    assert entry(double)(21) == 42


def test_kept_code_belongs_to_these_sources() -> None:
    """Numba's key includes what a function closes over: a change to any source of the machine, or to a function's text
    in the compiler's table, is a new key."""
    closed_over = [cell.cell_contents for cell in interpreter.advance.py_func.__closure__]
    assert closed_over == [fingerprint(*SOURCES.values())]


def test_the_hash_is_of_the_sources_in_every_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """An opcode's number and the parts of both units are frozen into the machine code from folders of their own."""
    read: list[str | None] = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(str(path)) or b"")
    fingerprint()
    assert {opcodes.__file__, access.__file__, core_memory.__file__} <= set(read)


def test_nothing_is_compiled_for_a_program() -> None:
    """One machine code for programs of different shapes, with and without buffers."""
    simulate(make.sls(4), make.sls_inputs())
    simulate(make.transr(2, 3), make.transr_inputs(4, 2, 3))
    simulate(
        make.program(
            {},
            [make.buffer("out", "output")],
            [make.loop("b_tr", None, 0, 3), make.callback("b_tr", "ite", "b_ite")],
            make.case("b_ite", make.store("out", (), "copy", 2.0)),
        ),
        {},
    )
    assert len(interpreter.advance.signatures) == 1


@pytest.mark.parametrize("sets", [1, 2, 3, 48, 64, 100, 256])
def test_a_line_is_in_the_set_of_its_remainder(sets: int) -> None:
    lines = np.zeros((sets, 2), np.int64)
    assert [set_of(lines, line) for line in range(600)] == [line % sets for line in range(600)]
