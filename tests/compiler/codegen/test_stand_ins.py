"""Kernels under names that stand for theirs: what NVIDIA's tools make is kept for all, and is what they would make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.compiler.codegen.binary import nvdisasm, nvrtc
from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.binary.ptx import generate_ptx
from explorer.compiler.codegen.binary.stand_ins import stand_ins
from explorer.compiler.codegen.text import Code, text_of
from explorer.compiler.ir.node import Line
from explorer.compiler.options import Options
from explorer.compiler.report import Report
from explorer.compiler.unsupported import Unsupported

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path))
    for known in (nvrtc.compile_text, nvdisasm.disassemble):
        known.cache_clear()
    yield
    for known in (nvrtc.compile_text, nvdisasm.disassemble):
        known.cache_clear()


def example(name: str, called: str, by: str) -> explorer.Compilation:
    text = (EXAMPLES / f"{name}.emb").read_text()
    assert called in text
    return explorer.compile(text.replace(called, by), on_demand=True)


@pytest.mark.parametrize(
    ("name", "called", "by"),
    [("embedding/sls", "SLS", "Sum"), ("kge/transr", "TransR", "Kernel"), ("embedding/spmm", "SpMM", "text")],
)
def test_another_name_takes_no_tool(name: str, called: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {stage: example(name, called, called).stages[stage].text for stage in ("ptx", "sass")}
    assert called in first["ptx"]
    assert called in first["sass"]

    def refuse(*_: Any) -> Any:
        raise AssertionError("it is made again")

    monkeypatch.setattr(nvrtc, "_compile", refuse)
    monkeypatch.setattr(nvdisasm, "_run", refuse)
    other = example(name, called, by)
    for stage, text in first.items():
        assert other.stages[stage].text == text.replace(f"{called}_", f"{by}_")
        assert "zK0" not in text


@pytest.mark.parametrize("name", ["embedding/sls", "embedding/sddmm", "kge/distmult", "kge/transh"])
def test_what_is_made_is_what_the_text_itself_gives(name: str) -> None:
    """Of texts of one kernel, for which NVRTC numbers registers alike each time."""
    compilation = explorer.compile((EXAMPLES / f"{name}.emb").read_text(), on_demand=True)
    code = compilation.stages["cuda"].program
    assert isinstance(code, Code)
    made = compilation.stages["ptx"].program
    assert isinstance(made, Code)
    assert made.binary is not None
    own = compile_text(text_of(code.lines), "sm_90")
    assert [line.text for line in made.lines] == [line.expandtabs(8).rstrip() for line in own.ptx.splitlines()]
    assert made.binary.cubin == own.cubin


def test_a_text_that_has_such_names_keeps_its_own() -> None:
    cuda = "// A: one kernel.\nvoid A_kernel(float* zK000zzz, float* A) {}\n"
    assert stand_ins(["A_kernel"], cuda).of == {}
    assert stand_ins(["A"], "void A() {}").of == {}  # too short for one
    names = stand_ins(["A_kernel", "AA_kernel", "A_kernel"], "void A_kernel(), AA_kernel();\n")
    assert names.text("// A_kernel\n  // A\nvoid A_kernel(), AA_kernel(), A_kernel_too(); // A_kernel\n") == (
        "\n\nvoid zK000zzz(), zK001zzzz(), A_kernel_too(); // zK000zzz\n"
    )
    machine_code = b"\x00_ZZ8A_kernelE4rows\x00AA_kernel_param_0\x00"
    assert names.hide(machine_code) == b"\x00_ZZ8zK000zzzE4rows\x00zK001zzzz_param_0\x00"
    assert names.show(names.hide(machine_code)) == machine_code


def test_what_nvrtc_refuses_is_told_by_its_own_name() -> None:
    code = example("embedding/sls", "SLS", "SLS").stages["cuda"].program
    assert isinstance(code, Code)
    (symbol,) = (launch.symbol for launch in code.launches)
    wrong = replace(code, lines=(*code.lines, Line(f"int {symbol} = nothing;")))
    with pytest.raises(Unsupported, match=rf"NVRTC refuses the kernel: .*{symbol}"):
        generate_ptx(wrong, Report(Options()))
