"""The control bits of machine instructions: known words, and what must hold of all that NVRTC makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer
from explorer.compiler.codegen.binary.control import Control, control_of
from explorer.compiler.codegen.binary.nvdisasm import disassemble
from explorer.compiler.codegen.text import Code
from explorer.compiler.options import ARCHITECTURES

WORDS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;.*?/\* 0x[0-9a-f]{16} \*/\n\s+/\* 0x([0-9a-f]{16}) \*/")
SECTION = re.compile(r"//-+ \.text\.\S+ +-+")
MODELS = ("kge/transr", "rgnn/rgat", "embedding/sls")


@pytest.mark.parametrize(
    ("upper", "control", "shown"),
    [
        (0x000FE20000000800, Control(1, False, None, None, (), 0), "------ r- w- - 01"),  # LDC R1, c[0x0][0x28]
        (0x000E620000002500, Control(1, False, 1, None, (), 0), "------ r- w1 - 01"),  # S2R R3, SR_CTAID.X
        (0x002FCA00078E0200, Control(5, True, None, None, (1,), 0), "-1---- r- w- y 05"),  # IMAD R3, R3, 0x8, R0
        (0x000FDA000BF06270, Control(13, True, None, None, (), 0), "------ r- w- y 13"),  # ISETP.GE.AND P0, PT, R3
    ],
)
def test_known_words(upper: int, control: Control, shown: str) -> None:
    """Each as nvdisasm prints it of code for sm_90; S2R and IMAD are a pair, of which one sets what the other waits
    for."""
    assert control_of(upper) == control
    assert str(control) == shown


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_decoded_fits_the_code(root: Path, name: str, arch: str) -> None:
    """Registers are kept for reuse where nvdisasm says so; what is waited for is set somewhere in the kernel; and what
    global memory answers sets a barrier. Shared memory answers in order: of several loads only the last sets one."""
    compilation = explorer.compile((root / "examples" / f"{name}.emb").read_text(), options={"arch": arch})
    code = compilation.stages["ptx"].program
    assert isinstance(code, Code)
    assert code.binary is not None
    kernels = [WORDS.findall(section) for section in SECTION.split(disassemble(code.binary.cubin))[1:]]
    assert sum(map(len, kernels)) > 100
    for instructions in kernels:
        decoded = [(text, control_of(int(upper, 16))) for text, upper in instructions]
        written = {control.written for _, control in decoded} | {control.read for _, control in decoded}
        for text, control in decoded:
            assert (control.reuse > 0) == (".reuse" in text), text
            assert set(control.waits) <= written, text
            if re.search(r"\b(LDG|S2R)\b(?!.*RZ)", text):
                assert control.written is not None, text
