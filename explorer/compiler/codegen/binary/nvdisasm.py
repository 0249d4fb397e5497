"""Runs nvdisasm, which is a package from PyPI (`nvidia-cuda-nvdisasm`) and needs no GPU.

It gets fixed arguments and a file that holds the cubin and has a name of our own; nothing of the model's reaches its
command line. Only `generate_sass` loads this: a program that runs others takes a while to import. It takes 0.4 s
for a cubin however small, so what it wrote is kept on disk.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from explorer.compiler.codegen.binary.kept import kept
from explorer.compiler.unsupported import Unsupported

PACKAGE = "nvidia-cuda-nvdisasm"
FLAGS = ("--print-code", "--print-line-info-inline", "--print-instruction-encoding")
SECONDS = 60.0
"""A file takes 0.2 to 0.6 s of a core, and where others want that core, many times as long: 10 s have been too few."""
MOST_BYTES = 32 << 20
"""Of nvdisasm's text; the largest of the examples is 0.2 MB."""


@functools.lru_cache(maxsize=16)
def disassemble(cubin: bytes) -> str:
    """What nvdisasm writes of a cubin, with source lines and inlining; raises Unsupported."""
    package = _package()

    def make() -> tuple[bytes]:
        with _file(cubin) as file:
            return (_run([str(_program(package)), *FLAGS, str(file)]).encode(),)

    (text,) = kept(("nvdisasm", package.version, *FLAGS, cubin), make)
    return text.decode()


@contextmanager
def _file(cubin: bytes) -> Iterator[Path]:
    """A file that holds a cubin for as long as it is read; raises Unsupported where there is no place for one."""
    with ExitStack() as until_read:
        try:
            file = Path(until_read.enter_context(TemporaryDirectory(prefix="explorer-")), "kernel.cubin")
            file.write_bytes(cubin)
        except OSError as error:
            raise Unsupported(f"SASS needs a temporary folder, which TMPDIR can name: {error.strerror}.") from None
        yield file


def _package() -> Distribution:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:
        raise Unsupported(f"SASS needs the package {PACKAGE}; pip installs it.") from None


def _program(package: Distribution) -> Path:
    found = [file for file in package.files or () if file.stem == "nvdisasm"]
    if not found:
        raise Unsupported(f"SASS needs the package {PACKAGE}; pip installs it.")
    return Path(str(found[0].locate()))


def _run(command: Sequence[str]) -> str:
    """A program's output, which has SECONDS to come and may be MOST_BYTES long; raises Unsupported."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
        )
    except OSError as error:
        raise Unsupported(f"nvdisasm does not start: {error.strerror}.") from None
    alarm = Timer(SECONDS, process.kill)
    alarm.start()
    try:
        assert process.stdout is not None
        output = process.stdout.read(MOST_BYTES + 1)
        if len(output) > MOST_BYTES:
            raise Unsupported(f"The SASS has more than {MOST_BYTES >> 20} MiB of text: make the kernel smaller.")
        status = process.wait()
    finally:
        alarm.cancel()
        process.kill()
        process.communicate()
    if status < 0:
        raise Unsupported(f"nvdisasm was ended before it finished, or took longer than {SECONDS:g} s.")
    if status:
        raise Unsupported(f"nvdisasm refuses the machine code, with status {status}.")
    return output.decode(errors="replace")
