"""What NVRTC and nvdisasm made, kept on disk: found again by any process, bounded, made again where it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.compiler.codegen.binary import kept as kept_module
from explorer.compiler.codegen.binary.kept import OWN, VARIABLE, folder, is_kept, kept
from explorer.compiler.codegen.binary.nvrtc import compile_text, is_compiled

KERNEL = 'extern "C" __global__ void doubled(float *x) { x[threadIdx.x] *= 2.0f; }  // kept\n'
RESTARTED = """
import sys
from cuda.bindings import nvrtc
nvrtc.nvrtcCompileProgram = None  # it cannot compile
from explorer.compiler.codegen.binary.nvrtc import compile_text
sys.stdout.write(compile_text(sys.argv[1], "sm_90").ptx)
compile_text(sys.argv[1], "sm_80")
"""
WRITERS = """
import sys
sys.path.insert(0, sys.argv[2])  # the module alone: the package takes longer to load
import kept
kept.MOST_BYTES = 5_000
for number in range(300):
    name = str(number * int(sys.argv[1]) % 11)
    assert kept.kept(("entry", name), lambda: (name.encode() * 1_000, b"", name.encode())) == (
        name.encode() * 1_000, b"", name.encode())
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this test's, with nothing in it, and nothing kept in the process."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    compile_text.cache_clear()
    yield tmp_path / OWN
    compile_text.cache_clear()


def made(name: str, size: int = 100) -> bool:
    """Whether an entry had to be made."""
    calls: list[str] = []

    def make() -> tuple[bytes, ...]:
        calls.append(name)
        return name.encode(), bytes(size)

    assert kept(("entry", name), make) == (name.encode(), bytes(size))
    return bool(calls)


def test_a_new_process_finds_what_another_compiled(own: Path) -> None:
    assert not is_compiled(KERNEL, "sm_90")
    compiled = compile_text(KERNEL, "sm_90")
    assert is_compiled(KERNEL, "sm_90")
    assert not is_compiled(KERNEL, "sm_80")
    command = [sys.executable, "-c", RESTARTED, KERNEL]
    other = subprocess.run(command, check=False, capture_output=True, text=True)
    assert other.stdout == compiled.ptx
    assert "'NoneType' object is not callable" in other.stderr  # what was not kept is compiled


def test_forms_architectures_and_texts_are_kept_apart(own: Path) -> None:
    for text, arch, first in ((KERNEL, "sm_90", True), (KERNEL, "sm_80", False), (KERNEL + "\n", "sm_90", False)):
        before = len(list(own.iterdir())) if own.exists() else 0
        compile_text(text, arch, first)
        assert len(list(own.iterdir())) == before + 1
    assert not is_compiled(KERNEL, "sm_90")  # of which there is the first form alone
    assert made("ab")
    assert not is_kept(("entrya", "b"))


@pytest.mark.parametrize("broken", [b"", b"cut", None], ids=["empty", "cut", "changed"])
def test_a_broken_entry_is_made_again(own: Path, broken: bytes | None) -> None:
    assert made("a")
    assert not made("a")
    (file,) = own.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"?" if broken is None else whole[: -len(broken)] if broken else b"")
    assert made("a")
    assert file.read_bytes() == whole
    assert not made("a")


def test_what_was_not_used_for_longest_goes_when_there_is_too_much(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_module, "MOST_BYTES", 1_000)
    files: dict[str, Path] = {}
    for age, name in enumerate("abc"):
        assert made(name, 250)
        (files[name],) = set(own.iterdir()) - set(files.values())
        os.utime(files[name], (age, age))
    half = own / "half written"  # by a process that was killed
    half.write_bytes(bytes(10))
    os.utime(half, (0, 0))
    assert not made("a", 250)  # used now: the oldest is b
    assert made("d", 250)
    assert {files["a"], files["c"]} < set(own.iterdir())
    assert not {files["b"], half} & set(own.iterdir())
    assert made("far too large", 1_000)
    assert made("far too large", 1_000)
    assert sum(file.stat().st_size for file in own.iterdir()) <= 1_000


def test_several_processes_write_read_and_make_room_at_a_time(own: Path) -> None:
    alone = str(Path(kept_module.__file__).parent)
    commands = [[sys.executable, "-c", WRITERS, step, alone] for step in ("3", "4", "7")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [writer.communicate(timeout=250)[1] for writer in writers]
    assert errors == ["", "", ""]
    names = [file.name for file in own.iterdir()]
    assert names
    assert all(len(name) == 64 for name in names)  # and nothing half written


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert folder() is None
    assert made("a")
    assert made("a")
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))  # which no folder can be made in
    assert made("a")
    assert made("a")


def test_the_folder_is_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / OWN
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder() == tmp_path / ".cache" / OWN
    assert made("a")
    assert (tmp_path / ".cache" / OWN).stat().st_mode & 0o077 == 0
