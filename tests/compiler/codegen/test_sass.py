"""SASS: every example disassembled, each instruction led back to an operation, and what happens where it cannot be."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
from pathlib import Path

import pytest

import explorer
from explorer.compiler.codegen.binary import nvdisasm
from explorer.compiler.codegen.binary.kept import VARIABLE
from explorer.compiler.codegen.binary.nvrtc import compile_text
from explorer.compiler.codegen.binary.sass import generate_sass
from explorer.compiler.codegen.text import Binary, Code, Launch
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.node import Line, Span, operations_of
from explorer.compiler.options import ARCHITECTURES, Options
from explorer.compiler.report import Report
from explorer.compiler.stages import Stage
from explorer.compiler.unsupported import Unsupported
from tests.compiler.codegen.elf import sections

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*/*.emb"))
CONTROL = r"/\*[-0-5]{6} r[-0-5] w[-0-5] [-y] \d\d\*/"
INSTRUCTION = re.compile(rf" {{4}}/\*[0-9a-f]{{4,}}\*/ {CONTROL} (     |[ @!UPT0-9]{{5}}) [A-Z][A-Z0-9_.x]*( .*)?;.*")
COMPUTES = re.compile(r"\*/ .{5} (F(ADD|MUL|FMA)|MUFU|LDG|STG|LDS|STS|SHFL|RED|ATOM)\b")

CHAIN = """
__device__ __forceinline__ float inner(float x) { return x * x + 1.0f; }
__device__ __forceinline__ float outer(float x) {
  return inner(x) * 3.0f;
}
extern "C" __global__ void chain(float* out) {
  out[threadIdx.x] = outer(out[threadIdx.x]);
}
"""


def spans(stage: Stage) -> set[Span]:
    return operations_of(*(line.origin for line in stage.lines))


def binary(text: str, arch: str = "sm_90", source: tuple[Line, ...] | None = None) -> Binary:
    lines = tuple(Line(line) for line in text.splitlines()) if source is None else source
    return Binary(compile_text(text, arch).cubin, lines, ())


def generate(made: Binary | None, *symbols: str) -> Code:
    launches = tuple(Launch(symbol, (), Count(((1, 1),)), 32) for symbol in symbols)
    return generate_sass(Code((), launches, binary=made), Report(Options()))


# nvdisasm takes about a second an example: every one for the default, every fourth for the other.
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("path", "arch"),
    [(path, arch) for arch in ARCHITECTURES for path in EXAMPLES[:: 1 if arch == Options().arch else 4]],
    ids=lambda value: getattr(value, "stem", value),
)
def test_every_instruction_belongs_to_an_operation_or_to_none(path: Path, arch: str) -> None:
    compilation = explorer.compile(path.read_text(), options={"arch": arch}, on_demand=True)
    cuda, stage = compilation.stages["cuda"], compilation.stages["sass"]
    assert stage.available, stage.reason
    kernels = re.findall(r"\b(\w+_kernel)\($", cuda.text, re.MULTILINE)
    assert [line.text.rstrip(":") for line in stage.lines if re.fullmatch(r"\w+_kernel:", line.text)] == kernels
    assert [each.kernel for each in stage.resources] == kernels
    operations = {operation.span for operation in compilation.operations}
    assert spans(stage) <= operations
    # What computes is led back, but for copies that ptxas places where it likes.
    for line in stage.lines:
        assert re.match(r"(//|\.L_|\S+:$|$)", line.text) or INSTRUCTION.fullmatch(line.text), line.text
        if COMPUTES.search(line.text):
            assert line.origin, line.text
        if not INSTRUCTION.fullmatch(line.text):
            assert not line.origin
    loads = operations_of(*(line.origin for line in cuda.lines if not re.match(r"    \S.*\* ", line.text)))
    assert len(spans(stage)) >= 0.8 * len(loads)


def test_a_backward_pass_has_sass_too() -> None:
    text = next(path for path in EXAMPLES if path.stem == "transr").read_text()
    stage = explorer.compile(text, options={"grad": True}, on_demand=True).stages["sass"]
    assert stage.available
    assert len(stage.resources) > 1


def test_what_kernels_take_stands_above_them() -> None:
    stage = explorer.compile(next(path for path in EXAMPLES if path.stem == "transe_l2").read_text()).stages["sass"]
    (resources,) = stage.resources
    head = [line.text for line in stage.lines[: stage.text.split("\n").index("TransE_L2_kernel:")]]
    assert head[0] == "// sm_90"
    assert all(part.strip() in "\n".join(head) for part in str(resources).split(";"))


def test_a_label_stands_only_where_an_instruction_names_it() -> None:
    stage = explorer.compile((EXAMPLES[-1]).read_text()).stages["sass"]
    labels = {line.text.rstrip(":") for line in stage.lines if line.text.startswith(".L_")}
    assert labels == set(re.findall(r"`\((\.L_\w+)\)", stage.text))


def test_inlined_code_belongs_to_the_line_that_calls_it() -> None:
    lines = tuple(Line(line, (Span(number, 1, number, 2),)) for number, line in enumerate(CHAIN.splitlines(), start=1))
    call = next(line.origin for line in lines if "= outer(" in line.text)
    for arch in ARCHITECTURES:
        code = generate(binary(CHAIN, arch, lines), "chain")
        computing = [line for line in code.lines if re.search(r"\b(FFMA|FMUL)\b", line.text)]
        assert computing
        assert all(line.origin == call for line in computing)


def test_a_function_that_is_called_belongs_to_its_callers() -> None:
    text = 'extern "C" __global__ void f(float* x) {\n  x[0] = x[1] / x[2];\n  x[3] = x[4] + 1;\n}\n'
    lines = tuple(Line(line, (Span(n, 1, n, 2),)) for n, line in enumerate(text.splitlines()))
    code = generate(binary(text, source=lines), "f")
    at = next(number for number, line in enumerate(code.lines) if "slowpath:" in line.text)
    after = [line for line in code.lines[at:] if "*/" in line.text and "NOP" not in line.text]
    assert after
    assert {line.origin for line in after} == {lines[1].origin}


@pytest.mark.parametrize("path", EXAMPLES[::4], ids=lambda path: path.stem)
def test_the_cubin_is_whole(path: Path) -> None:
    program = explorer.compile(path.read_text()).stages["ptx"].program
    assert isinstance(program, Code)
    assert program.binary is not None
    assert sections(program.binary.cubin)
    with pytest.raises(Unsupported, match="nvdisasm refuses the machine code, with status"):
        nvdisasm.disassemble(program.binary.cubin[: len(program.binary.cubin) // 2])


def test_without_the_package_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(nvdisasm, "distribution", not_found)
    nvdisasm.disassemble.cache_clear()
    compilation = explorer.compile(next(path for path in EXAMPLES if path.stem == "transr").read_text())
    stage = compilation.stages["sass"]
    assert not stage.available
    assert stage.reason == "SASS needs the package nvidia-cuda-nvdisasm; pip installs it."
    assert compilation.stages["ptx"].resources  # known all the same


def test_without_a_temporary_folder_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setenv(VARIABLE, "")  # what was made before is of no use
    nvdisasm.disassemble.cache_clear()
    compilation = explorer.compile(next(path for path in EXAMPLES if path.stem == "transr").read_text())
    stage = compilation.stages["sass"]
    assert not stage.available
    assert stage.reason == "SASS needs a temporary folder, which TMPDIR can name: No such file or directory."
    assert compilation.stages["ptx"].available


def test_a_program_that_does_not_start_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"nvdisasm does not start: No such file"):
        nvdisasm._run([str(tmp_path / "nvdisasm")])


def test_time_and_output_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvdisasm, "SECONDS", 0.3)
    with pytest.raises(Unsupported, match=r"took longer than 0\.3 s"):
        nvdisasm._run([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(nvdisasm, "SECONDS", 250)
    monkeypatch.setattr(nvdisasm, "MOST_BYTES", 1 << 20)
    with pytest.raises(Unsupported, match="more than 1 MiB"):
        nvdisasm._run([sys.executable, "-c", "while True: print('x' * 1000)"])


def test_a_text_that_lacks_a_kernel_is_refused() -> None:
    with pytest.raises(Unsupported, match="did not show every kernel"):
        generate(binary(CHAIN), "chain", "another")
    with pytest.raises(Unsupported, match="there is none"):
        generate(None, "chain")
