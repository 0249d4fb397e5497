"""A server of two processes, as a user starts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.calling import called
from tests.web.conftest import TRANSE
from tests.web.processes.starting import NO_QUEUE, Several, all_gone, several
from tests.web.serving import eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    folder = tmp_path_factory.mktemp("several")
    with several(folder) as served:
        yield served
        assert ends(served, folder, signal.SIGTERM) == (-signal.SIGTERM, ["a web process ended (SIGKILL): another one"])


def ends(served: Several, folder: Path, signalled: signal.Signals) -> tuple[int, list[str]]:
    """The status and the log, but for what it says of its queue, of a server that is ended so. It leaves no process and
    no file."""
    tree = served.tree
    assert len(tree) >= 5
    served.process.send_signal(signalled)
    _, error = served.process.communicate(timeout=60)  # of its processes too, which have the same stderr
    eventually(lambda: all_gone(tree))
    assert list(folder.iterdir()) == []
    log = [line.partition(" in ")[0] for line in error.splitlines() if "queue" not in line]
    return served.process.returncode, log


def compiled(served: Several, text: str, cookie: str = "") -> None:
    with served.client(cookie) as client:
        answer = client.post("/compile", data={"edit": "1", "text": text, "panes": '[{"stage": "loops"}]'})
    assert answer.status_code == 200
    assert "TransE" in answer.text


def new_cookie(served: Several) -> str:
    with served.client() as client:
        return client.get("/").headers["set-cookie"].partition(";")[0]


def knows(served: Several, cookie: str) -> bool:
    with served.client(cookie) as client:
        return "set-cookie" not in client.get("/").headers


def test_what_one_has_compiled_another_answers(served: Several) -> None:
    one, other = served.pids
    before = served.numbers()
    with served.only(one):
        compiled(served, TRANSE)
    with served.only(other):
        compiled(served, TRANSE)
    after = served.told()
    done = ("explorer_compilations_total", "ok"), ("explorer_compile_shared_hits_total",)
    assert [after[key] - before.get(key, 0) for key in done] == [1, 1]
    key = "explorer_requests_total", "/compile", "200"
    assert after[key] - before.get(key, 0) == 2


def test_a_student_of_one_is_a_student_of_the_other(served: Several) -> None:
    one, other = served.pids
    with served.only(one):
        cookie = new_cookie(served)
        assert knows(served, cookie)
    with served.only(other):
        assert knows(served, cookie)
        assert not knows(served, cookie[:-4] + "0000")


def test_one_that_is_killed_is_replaced_and_requests_go_on(served: Several) -> None:
    killed, other = served.pids
    text = TRANSE.replace("D = 64", "D = 48")
    with served.only(killed):
        cookie = new_cookie(served)
        compiled(served, text, cookie)
    before = served.told()
    workers = [pid for pid in served.tree if pid not in (served.process.pid, killed, other)]
    os.kill(killed, signal.SIGKILL)
    for _ in range(20):
        compiled(served, text, cookie)
    served.come_up()
    (newer,) = set(served.pids) - {killed, other}
    with served.only(newer):
        assert knows(served, cookie)
        compiled(served, text, cookie)
        after = served.numbers()
    # What it had compiled and counted is there still.
    assert after["explorer_compilations_total", "ok"] == before["explorer_compilations_total", "ok"]
    assert after["explorer_compile_shared_hits_total",] >= before["explorer_compile_shared_hits_total",] + 1
    assert not all_gone(workers), "the other's"
    assert len(set(workers) & set(served.tree)) < len(workers), "the killed one's"


def test_memory_is_that_of_all(served: Several) -> None:
    told = served.numbers()
    assert told["explorer_memory_bytes", "server"] > 3 * 20 << 20
    assert told["explorer_memory_bytes", "workers"] > 2 * 20 << 20


def test_workers_may_not_write_to_what_is_shared(served: Several) -> None:
    """A worker that a text has taken over could else answer for others: it may write where temporary files are."""
    folders = set()
    for pid in set(served.tree) - {served.process.pid, *served.pids}:
        names = dict(each.split("=", 1) for each in Path(f"/proc/{pid}/environ").read_text().split("\0") if each)
        folders.add(Path(names["TMPDIR"]))
    (folder,) = folders
    assert folder.name == "tmp"
    assert (folder.parent / "shared.db").exists()
    assert not list(folder.glob("shared.db*"))


def test_an_address_that_is_in_use_is_said_once(served: Several, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "serve", "--port", str(served.port), "--queue", NO_QUEUE, "--web-processes", "2"
    status, _, error = called(capsys, *arguments)
    assert (status, error.count("\n")) == (2, 1)
    assert f"cannot listen on 127.0.0.1 port {served.port}" in error


@pytest.mark.sweep
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with several(tmp_path) as served:
        assert ends(served, tmp_path, signal.SIGINT) == (130, ["explorer: stopped"])


def test_none_outlives_the_first_process_when_that_is_killed(tmp_path: Path) -> None:
    with several(tmp_path) as served:
        compiled(served, TRANSE)
        assert ends(served, tmp_path, signal.SIGKILL) == (-signal.SIGKILL, [])
