"""How much memory a run may take: what there is, or less where somebody says so; what does not fit is told."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from explorer import cli
from explorer.runtime.data.triples import InputError
from explorer.runtime.run import execute
from explorer.runtime.runs import footprint as memory
from explorer.runtime.runs.request import RunRequest
from explorer.runtime.workers import worker
from explorer.values import BadInput, read_memory

SPMM = "dim D = 8\nop S(A: csr[row, col]):\n    param X[col, D]\n    for i in A.rows():\n" + (
    '        i["y"] = sum(a * X[j] for j, a in A.row(i))\n    return i["y"]\n'
)
LAYER = """layer L(g: graph):
    input x[node]
    for n in g.nodes():
        n["h"] = x[n]
    return n["h"]
"""


@pytest.mark.parametrize(
    ("word", "size"),
    [
        ("8GiB", 8 << 30),
        ("8gib", 8 << 30),
        ("8G", 8 << 30),
        ("8 GB", 8_000_000_000),
        ("1.5GiB", 3 << 29),
        ("500MB", 500_000_000),
        ("64KiB", 1 << 16),
        ("1TiB", 1 << 40),
        ("4096", 4_096),
        ("4096B", 4_096),
    ],
)
def test_sizes_are_read_as_people_write_them(word: str, size: int) -> None:
    assert read_memory(word) == size


@pytest.mark.parametrize("word", ["", "much", "8XB", "-1GiB", "0", "8iB", "8 Gi B", "1e9", "GiB", "9" * 30])
def test_what_is_no_size_is_told(word: str) -> None:
    with pytest.raises(BadInput, match=r"--memory takes a size, as in 8GiB, 500MB or 2000000000"):
        read_memory(word)


def test_there_is_as_much_as_is_free_or_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 8 << 30)
    assert memory.room_for("cpu", None).target == 6 << 30
    assert memory.room_for("dae", 1 << 30).target == 1 << 30
    assert memory.room_for("cpu", 100 << 30).target == 6 << 30
    with pytest.raises(
        InputError,
        match=r"it would take 7\.00 GiB, more than the 6\.00 GiB that may be used of this machine's memory: x",
    ):
        memory.room_for("cpu", None).check(7 << 30, 0, "it", "x")


def test_what_is_drawn_for_a_gpu_must_fit_here_too() -> None:
    room = memory.Room(80 << 30, 4 << 30, "the 80.00 GiB that are free on the GPU")
    room.check(70 << 30, 3 << 30, "it", "x")
    with pytest.raises(
        InputError, match=r"5\.00 GiB of this machine's memory to draw and to check, more than the 4\.00"
    ):
        room.check(70 << 30, 5 << 30, "it", "x")


def test_this_machine_has_some_memory_free() -> None:
    assert 0 < memory.free_bytes() < 1 << 50


@pytest.mark.parametrize("text", [SPMM, SPMM.replace("csr", "coo")])
def test_a_run_that_does_not_fit_says_what_it_needs_and_what_there_is(text: str) -> None:
    (last,) = list(execute(RunRequest(text=text, on="cpu", data="com-Youtube/5000", memory=100_000)))[-1:]
    assert last["event"] == "failed"
    assert last["kind"] == "refused"
    assert "would take" in last["message"] or "might take" in last["message"]
    assert "more than the limit of 0.00 GiB" in last["message"]


def test_the_page_keeps_its_limit() -> None:
    assert RunRequest(text=SPMM, on="cpu").memory == 2 << 30


@pytest.mark.parametrize(
    ("text", "why"), [(SPMM, "an op goes over all lists of its data"), (LAYER, "a layer goes over its whole graph")]
)
def test_a_batch_is_a_scores(
    text: str, why: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path_factory.mktemp("model") / "model.emb"
    path.write_text(text, encoding="utf-8")
    assert cli.main(["run", str(path), "--on", "cpu", "--batch", "7"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert f"--batch 7: only a score has a batch; {why}" in said


def test_a_run_gets_the_memory_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def stream(request: dict[str, object], **_: object) -> list[dict[str, object]]:
        asked.append(request["memory"])
        return [{"event": "failed", "kind": "refused", "message": "", "hint": ""}]

    monkeypatch.setattr("explorer.runtime.workers.pool.stream_here", stream)
    monkeypatch.setattr("explorer.models.read_model", lambda _: SPMM)
    for words in ([], ["--memory", "3GiB"]):
        cli.main(["run", "model.emb", "--on", "cpu", *words])
    assert asked == [None, 3 << 30]


THREADS_OF = """\
import os, sys
from explorer.runtime.workers.worker import limit_blas
limit_blas(sys.argv[1])
import numpy
print(len(os.listdir("/proc/self/task")))
"""
"""The threads of a process of a role that has loaded NumPy."""


@pytest.mark.parametrize(("role", "said", "threads"), [("compile", "", 1), ("run", "", 8), ("run", "1", 1)])
def test_a_worker_has_few_threads_for_products(role: str, said: str, threads: int) -> None:
    """Each puts memory aside that counts: with a thread a core a worker on 64 cores had none left."""
    own = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    own |= {"OPENBLAS_NUM_THREADS": said} if said else {}
    command = [sys.executable, "-c", THREADS_OF, role]
    found = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    assert int(found.stdout) == min(threads, len(os.sched_getaffinity(0)))


def test_the_arrays_of_a_run_take_half_of_what_a_worker_may_on_any_host(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int | None] = []
    monkeypatch.setattr("explorer.runtime.run.execute", lambda request: iter([given.append(request.memory)]))
    stack = 8 << 20
    for cores in (2, 128):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        limits = {resource.RLIMIT_STACK: stack, resource.RLIMIT_DATA: (4 << 30) + 2 * cores * stack}
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: (limits[which],) * 2)
        list(worker.run_model({"text": LAYER, "on": "cpu"}))
    assert given == [2 << 30, 2 << 30]
