"""torch.compile beside a run: eager PyTorch's operations as one program of TorchInductor's, compiled here and now.

Inductor writes C++ for a CPU and Triton for a GPU, and starts a compiler for either, so a process that may start none
has no such peer, and says so. It compiles anew for each run, in a folder of its own that goes with it: the time told is
that of a first compilation, and no process loads what another one wrote.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType

from explorer.runtime import leftovers
from explorer.runtime.peers.timed import Peer, unchecked
from explorer.runtime.runs.request import Outcome, Setup

NAME = "torch.compile"
FOLDER = "explorer-inductor-"
"""What the folders begin with, before the number of the process."""
_COMPILERS = {"cpu": ("CXX", "g++", "C++"), "cuda": ("CC", "gcc", "C")}
"""By device: the variable that names the compiler, the usual one, and its language; of Triton, which builds its own
launchers."""
_ANSWERS_WITHIN = 20.0
_AGAIN = 1.0
_LONGEST_REASON = 200


class _Late(BaseException):
    """The time is over. No Exception, for what compiles catches those and goes on."""


def setting_up(seconds: float) -> str:
    """What a run says while it compiles."""
    return f"compiling with {NAME} (at most {seconds:g} s)"


def hindrance(device: str) -> str:
    """Why this process cannot compile with it, in words; "" where it seems to be able to."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed here"
    variable, usual, language = _COMPILERS[device]
    compiler = shutil.which(os.environ.get(variable) or usual)
    if compiler is None:
        return f"it needs a {language} compiler, and there is no {usual} here"
    try:
        subprocess.run([compiler, "--version"], check=True, capture_output=True, timeout=_ANSWERS_WITHIN)
    except PermissionError:
        return "it starts a compiler, and the processes that run models here may start no program"
    except (OSError, subprocess.SubprocessError):
        return f"the {language} compiler {usual} does not start here"
    return ""


def compiled_peer(setup: Setup, device: str, seconds: float) -> Peer:
    """The peer, compiled within so many seconds and checked; one with a reason where that fails, whatever it is: what
    runs beside a model never loses its run."""
    reason = hindrance(device)
    if reason:
        return _without(reason)
    try:
        _load()
        with _at_most(seconds), _own_folder():
            peer = unchecked(setup, device, NAME)
            began = perf_counter()
            peer.outcome()  # compiles both directions
            peer.compile_ms = (perf_counter() - began) * 1e3
        return peer.checked(setup)
    except (_Late, Exception) as error:
        if _is_late(error):
            return _without(f"it was still compiling after {seconds:g} s, the most that it may take")
        return _without(f"it failed: {_in_short(error)}")


def _is_late(error: BaseException) -> bool:
    """Whether the time was over: also where what was stopped fails at clearing up, and that is what is raised."""
    found, rest = dict[int, BaseException](), [error]
    while rest:
        each = rest.pop()
        found[id(each)] = each
        before = each.__cause__, each.__context__  # mostly one and the same
        rest += [other for other in before if other is not None and id(other) not in found]
    return any(isinstance(each, _Late) for each in found.values())


def _load() -> None:
    """Has imports over before the time begins: one that is interrupted cannot be made again in this process."""
    import torch._inductor.utils  # noqa: F401


def _without(reason: str) -> Peer:
    def nothing() -> Outcome:
        raise RuntimeError(reason)

    return Peer(NAME, lambda: None, nothing, reason=reason)


def _in_short(error: BaseException) -> str:
    """The first line of a message, which may be a compiler's whole output."""
    line = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {line}"[:_LONGEST_REASON].rstrip(".")


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises _Late in the main thread once the time is over, and every second from then on until it is heeded: what is
    raised while an object is deleted is lost."""

    def late(number: int, frame: FrameType | None) -> None:
        raise _Late

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _own_folder() -> Iterator[None]:
    """Has what is compiled, and all that it is made of, written to a folder that is deleted, by one thread of this
    process; what was compiled before is forgotten. Precompiled headers would go to a folder of all processes."""
    import torch
    from torch._inductor import config
    from torch._inductor.utils import fresh_cache

    leftovers.sweep(FOLDER)
    torch._dynamo.reset()
    with (
        tempfile.TemporaryDirectory(prefix=leftovers.own_prefix(FOLDER), ignore_cleanup_errors=True) as folder,
        config.patch(compile_threads=1, cpp_cache_precompile_headers=False),
        fresh_cache(dir=folder),
    ):
        yield
