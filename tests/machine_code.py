"""What NVRTC and nvdisasm make of a text, kept in files for all processes of a run of the tests."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from explorer.compiler.codegen.binary import nvdisasm, nvrtc


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """While it lasts, the same translation unit is compiled once, and the same cubin disassembled once.

    What raises is not kept, and neither are other programs than nvdisasm on a file."""
    compile_text, run = nvrtc._compile, nvdisasm._run

    def compiled(bindings: Any, text: str, arch: str) -> nvrtc.Compiled:
        return _kept(folder, ("nvrtc", text, arch), lambda: compile_text(bindings, text, arch))

    def disassembled(command: Sequence[str]) -> str:
        file = Path(command[-1])
        if file.suffix != ".cubin":
            return run(command)
        return _kept(folder, (*command[:-1], file.read_bytes()), lambda: run(command))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "_compile", compiled)
        patch.setattr(nvdisasm, "_run", disassembled)
        yield


def _kept(folder: Path, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What was made of the key before, by any process; a file is there as a whole or not at all."""
    file = folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()}.machine-code"
    if file.exists():
        return pickle.loads(file.read_bytes())
    made = make()
    with NamedTemporaryFile(dir=folder, delete=False) as part:
        part.write(pickle.dumps(made))
    Path(part.name).replace(file)
    return made
