"""The CUDA text of a program as C++ whose kernels are launched as the driver launches them: by the addresses of their
arguments, in this machine's memory."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

from explorer.compiler.codegen.text import Code
from tests.emulator.emulate import COMMON, HERE, as_cpp

HEADERS = Path(__file__).parents[1] / "export" / "headers"
FROM_ADDRESSES = """
template <auto kernel, class... Each, size_t... at>
void from_addresses(void (*)(Each...), std::index_sequence<at...>, unsigned blocks, unsigned columns, unsigned threads,
                    size_t shared_bytes, void** arguments) {
  emulator::launched<kernel>(blocks, columns, threads, shared_bytes,
                             *static_cast<std::remove_cv_t<Each>*>(arguments[at])...);
}
"""
LAUNCH = """
extern "C" void launch_{symbol}(unsigned blocks, unsigned columns, unsigned threads, size_t shared_bytes,
                                void** arguments) {{
  from_addresses<&{symbol}>(&{symbol}, std::make_index_sequence<{count}>(), blocks, columns, threads, shared_bytes,
                            arguments);
}}
"""


def library_of(code: Code, folder: Path) -> Any:
    """The kernels of a text, compiled in a folder of their own: a function `launch_SYMBOL` each."""
    launches = {
        launch.symbol: LAUNCH.format(symbol=launch.symbol, count=len(launch.arguments)) for launch in code.launches
    }
    source = folder / "kernels.cpp"
    source.write_text(as_cpp(code) + FROM_ADDRESSES + "".join(launches.values()))
    includes = [f"--include={each}" for each in (HERE / "cuda.hpp", HERE / "ptx.hpp", HEADERS / "launching.hpp")]
    parts = [_object(source, folder, *includes), _object(HERE / "threads.cpp", folder)]
    parts += [_object(HEADERS / "unchecked.cpp", folder)]
    target = folder / "kernels.so"
    _run("-shared", "-Wl,-Bsymbolic", *parts, "-o", str(target))
    return ctypes.CDLL(str(target))


def launched(library: Any, symbol: str, *rest: int) -> None:
    """What the driver does with a launch: of so many blocks, columns and threads, with the addresses of arguments."""
    blocks, columns, _, threads, _, _, shared_bytes, _, arguments, _ = rest
    function = getattr(library, f"launch_{symbol}")
    function(blocks, columns, threads, ctypes.c_size_t(shared_bytes), ctypes.c_void_p(arguments))


def _object(source: Path, folder: Path, *flags: str) -> str:
    target = folder / f"{source.stem}.o"
    _run(*COMMON, "-O1", "-w", f"-I{HEADERS}", *flags, "-c", str(source), "-o", str(target))
    return str(target)


def _run(*arguments: str) -> None:
    done = subprocess.run(["g++", *arguments], capture_output=True, text=True)
    assert not done.returncode, done.stderr[:4000]
