"""Extensions built without nvcc and run without a GPU: their CUDA as C++ on the emulator's threads, their host
functions with what they use of CUDA's headers, as operators for tensors of the CPU."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

from explorer.compiler.codegen.text import Code
from explorer.compiler.ir.node import Line
from tests.emulator.emulate import COMMON, HERE, as_cpp

HEADERS = Path(__file__).parent / "headers"
LAUNCH = re.compile(r"(\w+)<<<(?:dim3\(blocks, (\d+)\)|blocks), (\d+), (\d+), stream>>>\((.*?)\);")
KERNEL = re.compile(r"__global__ void.*? (\w+)\(")
TORCH = Path(torch.__file__).parent


def build(folder: Path, package: str) -> None:
    """Compiles an extension in its folder. Raises AssertionError with what the compiler says."""
    objects = [_compiled(HERE / "threads.cpp", folder), _compiled(HEADERS / "unchecked.cpp", folder)]
    for kernels in (folder / "csrc").glob("*.cu"):
        source = kernels.with_suffix(".cpp")
        source.write_text(as_threads(kernels.read_text()))
        flags = [f"--include={each}" for each in (HERE / "cuda.hpp", HERE / "ptx.hpp", HEADERS / "launching.hpp")]
        objects.append(_compiled(source, folder, *flags, "-w"))
    host = folder / "csrc" / "host.cpp"
    host.write_text(host.read_text().replace(f"({package}, CUDA, m)", f"({package}, CPU, m)"))
    python = sysconfig.get_paths()["include"]
    include = [TORCH / "include", TORCH / "include/torch/csrc/api/include", python]
    flags = [*(f"-isystem{path}" for path in include), "-DTORCH_EXTENSION_NAME=_C", "-Wall", "-Wextra", "-Werror"]
    objects.append(_compiled(host, folder, *flags, standard="c++20"))
    libraries = [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-ltorch", "-lc10", "-ldl", f"-Wl,-rpath,{TORCH / 'lib'}"]
    _run("-shared", "-Wl,-Bsymbolic", *objects, *libraries, "-o", str(folder / package / "_C.so"))


def tried(folder: Path) -> subprocess.CompletedProcess[str]:
    """An extension's own test, on tensors of the CPU."""
    test = folder / "test_extension.py"
    test.write_text(test.read_text().replace('DEVICE = "cuda"', 'DEVICE = "cpu"'))
    return subprocess.run([sys.executable, test.name], cwd=folder, capture_output=True, text=True, check=False)


def as_threads(text: str) -> str:
    """A file of kernels as C++: each launch goes to the emulator."""
    code = Code(tuple(Line(line) for line in text.splitlines()), ())
    text = as_cpp(code)

    def launch(found: re.Match[str]) -> str:
        kernel, columns, threads, shared, arguments = found.groups()
        return f"emulator::launched<&{kernel}>(blocks, {columns or 1}, {threads}, {shared}, {arguments});"

    return LAUNCH.sub(launch, text)


def _compiled(source: Path, folder: Path, *flags: str, standard: str = "") -> str:
    target = folder / f"{source.stem}.o"
    common = COMMON if not standard else (f"-std={standard}", *COMMON[1:])
    _run(*common, "-O0" if standard else "-O1", f"-I{HEADERS}", *flags, "-c", str(source), "-o", str(target))
    return str(target)


def _run(*arguments: str) -> None:
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True)
    assert not done.returncode, done.stderr[:8000]
