"""A process that compiles or runs models for another one: `python -m explorer.runtime.workers.worker ROLE MEMORY
NICENESS [FOLDER ...]`, which it may read besides what it computes with.

Requests come on stdin and events go to stdout, one JSON object a line. The first line out is `ready`; each request is
answered by `taken` at once, and then by events of which the last is `result` or `failed`. The process ends when stdin
closes, so it cannot outlive its parent, and the parent may kill it at any moment: it keeps nothing that it could not
compute again. It also ends itself after a run that broke its context on a GPU, since nothing can run in that any more.
"""

from __future__ import annotations

import gc
import json
import math
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from pydantic_core import to_json

from explorer.runtime.budget import stopped_after
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.runtime.workers.isolation.worker import isolate

RECORDINGS = "explorer.tuner.shipped"
"""The module that knows the recorded spaces, with `names` and `of_model`."""
FIRST_TEXT = """\
op First(b: bag of row):
    param T[row, 4]
    return sum(T[i] for i in b)
"""
"""A small model, of data besides."""
USUAL_STACK = 8 << 20
"""Bytes of a thread's, where the system sets no limit; more than it then is."""
MOST_BLAS_THREADS = 8
MOST_KERNELS = 300
"""Kernels that a process makes machine code of before another takes its place, since none of that is ever given back:
1.3 to 2.4 MB each on a CPU (measured 2026-11-30). Not sooner: a model's first run in a process takes up to thirty times
as long as its next, and others wait for it."""
RUNNING = ("run", "run-compiling", "run-once")
"""The roles that run models."""
LARGEST_ANSWER = 8 << 20
"""Bytes of a compilation's JSON, which whoever asked reads at one go: twenty times what most texts have."""


def compile_model(request: Mapping[str, Any]) -> Iterator[Event]:
    """Compile a text for its data, within the `seconds` that it may take; see `compile_for_data`."""
    from explorer.compiler.unsupported import OutOfBudget

    asked = {name: value for name, value in request.items() if name != "seconds"}
    try:
        with stopped_after(request.get("seconds")) as bound:
            for event in compile_for_data(asked):
                bound.held = True  # what is sent is sent whole, and nothing after the last
                yield event
                bound.held = events.is_last(event)
    except OutOfBudget as error:
        yield events.failed("timeout", f"{error} No stage was made by then.", "Make the model smaller.")


def compile_for_data(request: Mapping[str, Any]) -> Iterator[Event]:
    """The result event carries the compilation's JSON, and where a `first` form was asked for and the best takes long,
    an event before it that of the first one. What is stopped has the stages that were made."""
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.runs.fitting import fit
    from explorer.runtime.runs.request import ModelRequest

    how = ("stages", "snapshots", "effects", "first", "costs", "flips", "recordings", "story", "heat", "or_usual")
    model = ModelRequest(**{name: value for name, value in request.items() if name not in how})
    try:
        found = fit(model, request.get("or_usual", False))
    except InputError as error:
        yield events.failed("refused", str(error))
        return
    if request.get("costs") is not None and found.compilation.ok:
        from explorer.runtime.runs.costs import costs_json

        yield events.result({"ok": True, "costs": costs_json(found, model, request["costs"])})
        return
    if request.get("flips") and found.compilation.ok:
        from explorer.runtime.runs.flips import flips_json

        yield events.result({"ok": True, "flips": flips_json(found.compilation)})
        return
    if request.get("recordings") and found.compilation.ok:
        shipped = import_module(RECORDINGS)
        yield events.result({"ok": True, "recordings": shipped.of_model(model.text, shipped.names())})
        return
    if request.get("story") is not None and found.compilation.ok:
        from explorer.compiler.story.story import story_json

        told = story_json(found.compilation, request["story"], request["stages"])
        yield events.result({"ok": True, "story": told, "data": found.data})
        return
    if request.get("heat") and found.compilation.ok:
        from explorer.compiler.heat.heat import heat_json

        yield events.result({"ok": True, "heat": heat_json(found.compilation, request["stages"]), "data": found.data})
        return
    wanted = request["stages"], request.get("snapshots"), request.get("effects")
    for body in found.forms(*wanted) if request.get("first") else [found.to_json(*wanted)]:
        yield events.first(body) if body["first"] else events.result(body)


def run_model(request: Mapping[str, Any]) -> Iterator[Event]:
    """Compile a text and run it on a target; its arrays may take half of what the process may, where nothing else is
    said."""
    from explorer.runtime.run import RunRequest, execute

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    memory = None if limit == resource.RLIM_INFINITY else (limit - stack_bytes()) // 2
    yield from execute(RunRequest.from_json({"memory": memory, **request}))


def find_reuse(request: Mapping[str, Any]) -> Iterator[Event]:
    """The distribution of the reuse distances of data that is there, or in a folder."""
    from explorer.runtime.data.lists import load_lists
    from explorer.runtime.data.locality import reuse
    from explorer.runtime.data.triples import InputError

    folder = request["data_dir"]
    try:
        yield events.result(reuse(load_lists(request["data"], Path(folder) if folder else None).idx))
    except InputError as error:
        yield events.failed("refused", str(error))


def look_at(request: Mapping[str, Any]) -> Iterator[Event]:
    """What a data file that anyone may have brought is to each family of models."""
    from explorer.runtime.data.offered import offers_of
    from explorer.runtime.data.triples import InputError

    try:
        yield events.result({"offers": offers_of(Path(request["path"]), request["most_bytes"])})
    except InputError as error:
        yield events.failed("refused", str(error))


def warm_compile() -> None:
    """Load the compiler, whose import costs more than a small model's compilation, and what tells it of data; and
    compile a text, for what only the first one loads."""
    import explorer.compiler.to_json
    import explorer.runtime.data.lists
    import explorer.runtime.runs.fitting  # noqa: F401
    from explorer.compiler.pipeline import STAGES

    prompt = [spec.name for spec in STAGES if not spec.on_demand]
    asked = {"text": FIRST_TEXT, "stages": prompt, "snapshots": [], "effects": [], "or_usual": True}
    list(compile_for_data(asked))  # which nobody reads
    collect_rarely()


def collect_rarely() -> None:
    """Look for cycles of garbage once in a hundred thousand new objects, not in seven hundred, and never among those
    that are there now: a compilation leaves none (`tests/compiler/test_garbage.py`), an error that was raised may."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 5, 5)


def warm_run() -> None:
    """Rehearse on each target, so that the first Run answers as fast as the next.

    Where there is a GPU, it loads PyTorch besides, which runs are timed beside: another 3 s that the first run does not
    wait for.
    """
    import explorer.runtime.run  # noqa: F401
    from explorer.runtime.rehearsal import rehearse
    from explorer.runtime.targets.table import TARGETS

    rehearse(*(name for name, target in TARGETS.items() if not target.missing()))
    if not TARGETS["gpu"].missing():
        threading.Thread(target=warm_peers, name="peers", daemon=True).start()


def warm_peers() -> None:
    """Load PyTorch where it is there, and make its context on the GPU."""
    with suppress(ImportError, RuntimeError):  # a run that wants it says what is wrong with it
        import torch

        torch.zeros(1, device="cuda")


def no_warming() -> None:
    """For one request only, loading on the way is as fast."""


ROLES: dict[str, tuple[Callable[[], None], Callable[[Mapping[str, Any]], Iterator[Event]]]] = {
    "compile": (warm_compile, compile_model),
    "run": (warm_run, run_model),
    "run-compiling": (warm_run, run_model),
    "run-once": (no_warming, run_model),
    "reuse": (no_warming, find_reuse),
    "look": (no_warming, look_at),
}


def is_used_up(role: str) -> bool:
    """Whether another process should take this one's place, now that it has answered."""
    if role not in RUNNING:
        return False
    from explorer.runtime.targets.table import TARGETS

    return sum(target.made() for target in TARGETS.values()) > MOST_KERNELS


def make_way(niceness: int) -> None:
    """Leave the cores to others first: as a process, and where the system shares them out by session, as its session.

    A process that has no session of its own leaves that to whoever has."""
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # there are systems without it
            Path("/proc/self/autogroup").write_text(str(niceness))


def limit_memory(limit: int) -> None:
    """Let allocations beyond `limit` bytes fail with MemoryError instead of starving the machine.

    RLIMIT_DATA counts private writable memory; RLIMIT_AS would also count what libraries only reserve.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def stack_bytes() -> int:
    """What RLIMIT_DATA counts of the stacks of a run's threads, one a core each of Numba's and of PyTorch's, which take
    hardly any of it: on 128 cores 2 GiB."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return 2 * len(os.sched_getaffinity(0)) * (USUAL_STACK if stack == resource.RLIM_INFINITY else stack)


def limit_blas(role: str) -> None:
    """Keep NumPy's BLAS, before it is loaded, to a few threads, unless somebody says how many: each puts 32 MiB aside
    and has a stack, which on 32 cores were 1.3 GiB, and as much again of SciPy's. A compilation multiplies nothing."""
    most = MOST_BLAS_THREADS if role in RUNNING else 1
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(min(most, len(os.sched_getaffinity(0)))))


def claim_stdout() -> IO[bytes]:
    """The pipe to the parent; what libraries print goes to stderr from here on."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def listen() -> queue.SimpleQueue[dict[str, Any]]:
    """Requests as they come. A thread reads them, so that a closed stdin ends even a busy process."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            requests.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, name="requests", daemon=True).start()
    return requests


def line_of(event: Mapping[str, Any], role: str) -> bytes:
    """An event as a worker of a role sends it: a compilation that is too large as a refusal. JSON has no number for NaN
    and infinities, which are null there."""
    try:
        line = to_json(event, inf_nan_mode="null")  # in a quarter of the time that `json.dumps` takes
    except ValueError:  # names of files that are no Unicode, which that writes by their codes
        line = json.dumps(_finite(event), allow_nan=False, separators=(",", ":")).encode()
    if role != "compile" or len(line) <= LARGEST_ANSWER:
        return line
    size, most = len(line) >> 20, LARGEST_ANSWER >> 20
    told = f"The stages of this model take {size} MB, more than the {most} MB that are shown."
    return to_json(events.failed("refused", told, "Make it shorter."))


def _finite(value: Any) -> Any:
    """The value with None for what JSON has no number for: NaN and infinities."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value


def main(argv: list[str]) -> None:
    role, memory, niceness, *folders = argv
    make_way(int(niceness))
    limit_memory(int(memory) + (stack_bytes() if role in RUNNING else 0))
    limit_blas(role)
    if role != "run-once":  # which is its user's own, on files that are anywhere
        isolate(role, [Path(folder) for folder in folders])
    channel = claim_stdout()
    requests = listen()

    def send(event: Mapping[str, Any]) -> None:
        channel.write(line_of(event, role) + b"\n")
        channel.flush()

    warm, answer = ROLES[role]
    try:
        warm()
    except Exception as error:
        # A rehearsal that fails is no reason to refuse other work; the request that it bears on will say so.
        sys.excepthook(type(error), error, error.__traceback__)
    send({"event": "ready"})
    while True:
        request = requests.get()
        send({"event": "taken"})
        try:
            for event in answer(request):
                send(event)
                if events.is_end_of_worker(event):
                    os._exit(1)  # at once: what libraries do at a process's end would ask the broken device again
        except MemoryError:
            send(events.failed("memory", "The model needs more memory than a worker may use.", "Make it smaller."))
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            send(
                events.failed(
                    "error",
                    f"The explorer itself failed: {type(error).__name__}: {error}",
                    "This is a fault in the explorer, not in the model; please report it with the model's text.",
                )
            )
        if is_used_up(role):
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
