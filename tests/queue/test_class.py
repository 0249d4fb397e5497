"""A class of two servers with one queue: what an instructor does at one holds at the other, and is told there."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from explorer.queue.broker import Broker
from explorer.web import limits
from explorer.web.entrance.students import COOKIE
from explorer.web.instructor import token
from explorer.web.server import ClassRequest, ServeError
from tests.queue.conftest import Server
from tests.queue.teaching import Taught, servers_of
from tests.web.instructor.classes import CODE, Class, browser, figures
from tests.web.serving import ask_for_run, eventually, said

New = Callable[..., Broker]


@pytest.fixture
def taught(new_broker: New) -> Iterator[Taught]:
    with servers_of(new_broker) as taught:
        yield taught


def shown(at: Class) -> str:
    return at.desk.get("/instructor/live").text


def told(page: Any, **wanted: Any) -> dict[str, Any]:
    """The next notice of the class that says so."""
    while True:
        notice = said(page, "class")
        if all(notice[name] == value for name, value in wanted.items()):
            return notice


def test_a_pause_at_one_holds_runs_of_the_other(taught: Taught) -> None:
    here, there = taught.at
    anna, ben = here.join("Anna"), there.join("Ben")
    with here.served.page(anna) as hers, there.served.page(ben) as his:
        ask_for_run(hers)
        said(hers, "started")
        assert "Runs are paused" in there.does("pause")
        told(hers, paused=True)
        taught.runs.open()
        assert said(hers, "result")  # what runs goes on
        ask_for_run(hers, run=2)
        ask_for_run(his)
        for page in (hers, his):
            assert "The instructor has paused runs" in said(page, "queued")["message"]
        for at in taught.at:
            assert figures(shown(at))["waiting"] == "2 of 600"
            assert "runs are paused" in shown(at)
        assert len(taught.runs.asked) == 1
        here.does("resume")
        for page in (hers, his):
            assert said(page, "result")
        eventually(lambda: there.classroom.told["paused"] is False)


def test_runs_are_stopped_from_the_other(taught: Taught) -> None:
    here, there = taught.at
    anna, ben = here.join("Anna"), here.join("Ben")
    with ExitStack() as pages:
        hers, waits, his = (pages.enter_context(here.served.page(who)) for who in (anna, anna, ben))
        ask_for_run(hers)
        said(hers, "started")
        for page in (waits, his):
            ask_for_run(page)
            said(page, "queued")
        eventually(lambda: "Anna" in shown(there))
        there.does("stop", number=1)
        for page in (hers, waits):
            assert said(page, "failed")["message"] == "The instructor stopped this run."
        assert said(his, "started")


def test_so_many_of_a_student_may_wait_at_both(taught: Taught) -> None:
    here, there = taught.at
    anna = here.join("Anna")
    there.does("limit", most=1)
    assert 'id="limit-1" name="most" value="1" aria-pressed="true"' in shown(here)
    with ExitStack() as pages:
        opened = [pages.enter_context(at.served.page(anna)) for at in (here, there, here)]
        for page, event in zip(opened, ("started", "queued", "failed"), strict=True):
            ask_for_run(page)
            assert said(page, event)["event"] == event


def test_what_is_sent_and_set_reaches_the_others_pages_and_locks_them(taught: Taught) -> None:
    here, there = taught.at
    with here.browser() as student:
        assert student.post("/", data={"code": CODE, "name": "Anna"}).status_code == 303
        with here.served.page(student.cookies[COOKIE]) as hers:
            there.does("send", name="A model", text="line\r\nline")
            assert told(hers, sent={"number": 1, "name": "A model"})
            assert student.get("/class/sent/1").text == "line\nline"
            locked = {"locked_option": ["reorder"], "locked_stage": ["ptx"]}
            set_it = there.desk.post("/instructor/assign", data={"title": "It", "text": "begin", **locked})
            assert "Set &#39;It&#39;" in set_it.text
            told(hers, assignment={"number": 2, "title": "It"}, locked={"options": ["reorder"], "stages": ["ptx"]})
            assert student.get("/class/assignment/2").text == "begin"
            options = {"reorder": False, "grad": True}
            hers.send(json.dumps({"type": "run", "run": 1, "text": "x", "on": "cpu", "options": options}))
            said(hers, "started")
            assert taught.runs.asked[0]["options"] == {"grad": True}
            api = {"text": "x", "on": "cpu", "options": {"reorder": False}}
            assert "The instructor has locked reorder" in student.post("/api/run", json=api).text
            here.does("unassign")
            there.does("unsend")
            told(hers, assignment=None, sent=None, locked={"options": [], "stages": []})
            assert student.get("/class/assignment/2").status_code == 404
    here.does("send", name="Another", text="x")
    eventually(lambda: there.classroom.sent is not None and there.classroom.sent.number == 3)


def test_places_are_counted_together_and_hold_at_both(taught: Taught) -> None:
    here, there = taught.at
    cookies = [at.join(f"student at {number}") for at in taught.at for number in range(2)]
    assert [cookie is not None for cookie in cookies] == [True, True, True, False]
    for cookie in cookies[:3]:
        for at in taught.at:
            with at.served.page(cookie) as page:
                assert said(page, "class")
    eventually(lambda: "3 of 3 places" in shown(here) and "3 of 3 places" in shown(there))
    with here.served.page(cookies[0]) as hers:
        said(hers, "class")
        assert "is no longer in the class" in there.does("remove", number=1)
        with pytest.raises(ConnectionClosed):
            said(hers, "none that there is")
    with here.served.page(cookies[0]) as again, pytest.raises(ConnectionClosed) as closed:
        again.recv(60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
    assert here.join("Dora") is not None
    assert there.join("Eve") is None


def test_who_was_admitted_at_one_is_let_in_at_once_by_the_other(taught: Taught) -> None:
    """A browser's next request may come to another process, sooner than that has heard of it."""
    here, there = taught.at
    for _ in range(3):
        cookie = here.join()
        with there.browser() as student:
            student.cookies.set(COOKIE, str(cookie))
            assert student.post("/compile", data={"edit": "2", "text": "a"}).status_code == 200


def test_names_and_counts_are_those_of_all_servers(taught: Taught) -> None:
    here, there = taught.at
    with here.browser() as student:
        student.post("/", data={"code": CODE, "name": "<b>Anna"})
        cookie = student.cookies[COOKIE]
        with here.served.page(cookie) as hers, there.served.page(cookie), there.served.page(there.join("Ben")):
            for at, edits in ((here, 2), (there, 3)):
                with browser(at.served) as same:
                    same.cookies.set(COOKIE, cookie)
                    for number in range(edits):
                        assert same.post("/compile", data={"edit": str(number), "text": "a"}).status_code == 200
            ask_for_run(hers)
            said(hers, "started")
            counts = "".join(f'<td class="n">{count}</td>' for count in (2, 5, 1))
            row = f"&lt;b&gt;Anna</th>\n      <td>connected</td>{counts}"
            for at in taught.at:
                eventually(lambda at=at: row in shown(at) and figures(shown(at))["here"] == "2")
                assert "ready<small> of 2</small>" in shown(at)
                assert figures(shown(at))["running"] == "1 of 1"
                assert figures(at.desk.get("/instructor/projector").text)["here"] == "2"
        eventually(lambda: figures(shown(there))["here"] == "0")


def test_without_a_code_students_have_one_number_at_both(new_broker: New) -> None:
    with servers_of(new_broker, code=None) as taught, ExitStack() as pages:
        here, there = taught.at
        cookies = [at.served.new_student() for at in (here, there, here)]
        for cookie, at in zip(cookies, (there, here, there), strict=True):
            said(pages.enter_context(at.served.page(cookie)), "class")
        for at in taught.at:
            eventually(lambda at=at: figures(shown(at))["here"] == "3")
            assert all(f"student {number}<" in shown(at) for number in (1, 2, 3))


def test_a_students_cookie_is_good_at_every_server_of_a_queue(new_broker: New) -> None:
    """Also where nobody leads a class: each would else give the browser another, and close its page for that."""
    with servers_of(new_broker, code=None, instructor=None) as taught:
        here, there = taught.at
        taught.runs.open()
        cookie = here.served.new_student()
        for at in (here, there):
            with at.served.page(cookie) as page:
                ask_for_run(page)
                assert said(page, "result")


def test_the_instructors_browser_is_known_at_both(taught: Taught) -> None:
    here, there = taught.at
    with browser(there.served) as desk:
        desk.cookies.update(here.desk.cookies)
        assert "Who is here" in desk.get("/instructor").text
    secret = b"of one queue"
    assert token.token_of(secret) == token.token_of(secret) != token.token_of(b"of another")
    assert len(token.token_of(secret)) >= token.SHORTEST


def test_a_hand_in_at_one_is_checked_and_had_from_the_other(new_broker: New, tmp_path: Path) -> None:
    with servers_of(new_broker, hand_ins=tmp_path) as taught:
        here, there = taught.at
        with here.browser() as student:
            assert student.post("/", data={"code": CODE, "name": "Anna"}).status_code == 303
            there.does("assign", title="It", text="begin", reference="right", seeds=2)
            eventually(lambda: "the reference runs" in shown(here))
            for text in ("right", "wrong"):
                taken = student.post("/class/hand-in", json={"assignment": 1, "text": text, "sizes": {"D": 4}})
                assert taken.json()["student"] == "Anna"
            for at in taught.at:
                eventually(lambda at=at: "passed" in shown(at) and "Not equal." in shown(at))
        for number, text in ((1, "right"), (2, "wrong")):
            kept = there.desk.get(f"/instructor/hand-ins/{number}.json").json()
            assert (kept["work"]["text"], kept["work"]["sizes"]) == (text, {"D": 4})
            assert json.loads((tmp_path / f"hand-in-0000{number}.json").read_text()) == kept
        with zipfile.ZipFile(io.BytesIO(there.desk.get("/instructor/hand-ins.zip").content)) as archive:
            assert archive.read("00002-Anna/model.emb") == b"wrong"
        assert there.desk.get("/instructor/hand-ins/3.json").status_code == 404


def test_one_students_newest_hand_in_takes_the_oldests_place_at_both(
    new_broker: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HAND_INS_PER_STUDENT", 2)
    with servers_of(new_broker, hand_ins=tmp_path) as taught:
        here, there = taught.at
        cookie = here.join("Anna")
        here.does("assign", title="It", text="begin")
        eventually(lambda: there.classroom.assignment is not None)
        for number, at in enumerate((here, there, here), start=1):
            with browser(at.served) as student:
                student.cookies.set(COOKIE, str(cookie))
                taken = student.post("/class/hand-in", json={"assignment": 1, "text": f"text {number}"})
                assert taken.json()["number"] == number
        assert there.desk.get("/instructor/hand-ins/1.json").status_code == 404
        assert there.desk.get("/instructor/hand-ins/3.json").json()["work"]["text"] == "text 3"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["hand-in-00002.json", "hand-in-00003.json"]


def test_a_server_that_comes_later_or_again_finds_the_class(new_broker: New, tmp_path: Path) -> None:
    with servers_of(new_broker, count=1, hand_ins=tmp_path) as taught:
        (here,) = taught.at
        cookie = here.join("Anna")
        here.does("send", name="A model", text="x")
        here.does("assign", title="It", text="begin")
        with browser(here.served) as student:
            student.cookies.set(COOKIE, str(cookie))
            assert student.post("/class/hand-in", json={"assignment": 2, "text": "hers"}).status_code == 200
    with servers_of(new_broker, count=1, hand_ins=tmp_path) as taught:
        (again,) = taught.at
        for word in ("Anna", "A model", "It</b>", "1 of 3 places"):
            assert word in shown(again)
        with again.served.page(cookie) as hers:
            assert said(hers, "class")["sent"] == {"number": 1, "name": "A model"}
        assert again.desk.get("/instructor/hand-ins/1.json").json()["work"]["text"] == "hers"


class Outage:
    """A pretended queue that can be away, and lose what it has."""

    def __init__(self) -> None:
        import fakeredis

        self._server = fakeredis.FakeServer()

    def broker(self) -> Broker:
        import fakeredis

        return Broker(fakeredis.FakeAsyncRedis(server=self._server, decode_responses=True, protocol=2), 600, 20)

    def begin(self) -> None:
        self._server.connected = False

    def end(self) -> None:
        self._server.connected = True

    def lose_all(self) -> None:
        import fakeredis

        fakeredis.FakeRedis(server=self._server).flushall()


def test_an_outage_is_told_and_the_class_goes_on_with_what_is_known() -> None:
    queue = Outage()
    with servers_of(queue.broker) as taught:
        here, there = taught.at
        with here.served.page(here.join("Anna")) as hers:
            there.does("assign", title="It", text="begin", reference="")
            told(hers, assignment={"number": 1, "title": "It"})
            eventually(lambda: figures(shown(there))["here"] == "1")
            queue.begin()
            assert "this was perhaps not done" in there.does("send", name="x", text="x")
            eventually(lambda: "The queue cannot be reached" in shown(there))
            assert "Anna" in shown(there)
            for path, fields in (
                ("pause", {}),
                ("limit", {"most": 1}),
                ("stop", {"number": 1}),
                ("remove", {"number": 1}),
                ("send", {"name": "x", "text": "x"}),
                ("unassign", {}),
            ):
                assert "this was perhaps not done" in there.does(path, **fields), path
            assert there.classroom.assignment is not None
            assert there.classroom.sent is None
            ben = there.join("Ben")  # by what this server knows
            assert ben is not None
            with there.served.page(ben) as his, browser(there.served) as student:
                assert said(his, "class")["assignment"] == {"number": 1, "title": "It"}
                student.cookies.set(COOKIE, ben)
                assert student.get("/class/assignment/1").text == "begin"
                refused = student.post("/class/hand-in", json={"assignment": 1, "text": "x"})
                assert refused.status_code == 422
                assert "queue" in refused.text
                queue.end()
                eventually(lambda: "Ben" in shown(here) and "2 of 3 places" in shown(here))
                assert "cannot be reached" not in shown(there)
                here.does("pause")
                told(his, paused=True)
            assert there.desk.get("/instructor/hand-ins.zip").status_code == 200


def test_a_queue_that_has_lost_everything_has_the_class_again(tmp_path: Path) -> None:
    queue = Outage()
    with servers_of(queue.broker, hand_ins=tmp_path) as taught:
        here, there = taught.at
        cookie = here.join("Anna")
        here.does("send", name="A model", text="x")
        here.does("assign", title="It", text="begin")
        with browser(here.served) as student:
            student.cookies.set(COOKIE, str(cookie))
            assert student.post("/class/hand-in", json={"assignment": 2, "text": "hers"}).status_code == 200
        eventually(lambda: there.classroom.assignment is not None)
        queue.lose_all()
        eventually(lambda: all(word in shown(there) for word in ("Anna", "A model", "It</b>", "1 of 5,000")))
        assert there.desk.get("/instructor/hand-ins/1.json").json()["work"]["text"] == "hers"
        with servers_of(queue.broker, count=1) as later, later.at[0].served.page(cookie) as hers:
            told(hers, assignment={"number": 2, "title": "It"})


@contextmanager
def started_by_hand(url: str) -> Iterator[httpx.Client]:
    """A server as a user starts it, and an instructor's browser that went where it said."""
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--queue", url, "--class-code", CODE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.findall(r"http://\S+", process.stdout.readline())[0]
        desk = re.findall(r"http://\S+", process.stdout.readline())[0]
        try:
            with httpx.Client(base_url=address, timeout=60, verify=False) as browser:
                assert browser.get(desk).status_code == 303
                yield browser
        finally:
            process.terminate()
            assert process.wait(60) == -signal.SIGTERM


def test_servers_as_a_user_starts_them_have_one_token_and_one_class(server: Server) -> None:
    with started_by_hand(server.url) as one, started_by_hand(server.url) as other:
        assert one.cookies[token.COOKIE] == other.cookies[token.COOKIE]
        assert "Runs are paused" in one.post("/instructor/pause").text
        assert one.post("/", data={"code": CODE, "name": "Anna"}).status_code == 303
        eventually(lambda: "Anna" in other.get("/instructor/live").text)
        assert "runs are paused" in other.get("/instructor/live").text
        assert "1 of 100 places" in other.get("/instructor/live").text


def test_a_class_whose_queue_is_away_does_not_start_without_a_token(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/queue.sock"
    with pytest.raises(ServeError, match="does not answer: start it first, or give the token"):
        ClassRequest(wanted=True).classroom(nowhere)
    file = tmp_path / "token"
    file.write_text("0123456789abcdefghij")
    assert ClassRequest(token_file=file).classroom(nowhere).instructor is not None
