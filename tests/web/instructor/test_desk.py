"""What the instructor sees, and what becomes of what the instructor does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from explorer.web import limits
from tests.web.instructor.classes import Class, figures, teaching
from tests.web.serving import ask_for_run, eventually, said

HOSTILE = "<script>alert('anna')</script>\n\x07 O'Brien & \"co\""


@pytest.fixture
def taught() -> Iterator[Class]:
    with teaching() as taught:
        yield taught


def shown(taught: Class) -> str:
    return taught.desk.get("/instructor/live").text


def test_a_class_is_told_where_the_page_is_unless_only_this_computer_reaches_it() -> None:
    with teaching(hosts=None) as taught:
        assert "Other computers do not reach http://127.0.0.1:" in shown(taught)
        printed = taught.desk.get("/instructor", headers={"Host": "0.0.0.0:8000"}).text  # with --host 0.0.0.0
        assert "Other computers do not reach http://0.0.0.0:8000" in printed
        assert "teapot" not in taught.desk.get("/instructor/projector").text
        address = {"Host": "explorer.example.edu:8000"}
        desk, wall = (taught.desk.get(f"/instructor{path}", headers=address).text for path in ("", "/projector"))
    assert "Students open <b>http://explorer.example.edu:8000</b>, code <b>teapot</b>" in desk
    assert "<h2>http://explorer.example.edu:8000<small> code teapot</small></h2>" in wall


def test_who_is_here_by_name_or_number_with_edits_and_runs(taught: Class) -> None:
    anna, ben = taught.join("Anna"), taught.join()
    with taught.served.page(anna) as hers, taught.served.page(anna), taught.served.page(ben):
        ask_for_run(hers)
        said(hers, "started")
        eventually(lambda: figures(shown(taught))["here"] == "2")
        page = shown(taught)
        assert "Anna" in page
        assert "student 2" in page
        rows = {row.student.number: row for row in taught.classroom.rows(*now(taught))}
        assert (rows[1].pages, rows[1].student.runs, rows[1].running, rows[1].state) == (2, 1, True, "connected")
        assert (rows[2].pages, rows[2].student.runs, rows[2].running) == (1, 0, False)
        assert figures(page)["running"] == "1 of 1"
    eventually(lambda: figures(shown(taught))["here"] == "0")
    assert "away" in shown(taught)


def now(taught: Class) -> tuple[Any, Any]:
    state = taught.served.app.state
    return state.sessions, state.runs


def test_edits_are_counted(taught: Class) -> None:
    with taught.browser() as student:
        student.post("/", data={"code": "teapot", "name": "Anna"})
        assert "There is no compiler" in student.post("/compile", data={"edit": "2", "text": "a"}).text
        assert student.post("/compile", data={"edit": "x"}).status_code == 422
    assert [row.student.edits for row in taught.classroom.rows(*now(taught))] == [1]


def test_who_asks_for_nothing_is_idle(taught: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    with taught.served.page(taught.join("Anna")):
        eventually(lambda: "connected" in shown(taught))
        monkeypatch.setattr(limits, "IDLE_SECONDS", 0.0)
        assert "idle 0 min" in shown(taught)


def test_hostile_names_and_texts_are_text(taught: Class, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with taught.served.page(taught.join(HOSTILE)):
        taught.does("send", name=HOSTILE.replace("\n", " ")[: limits.NAME_LENGTH], text=f"# {HOSTILE}")
        for path in ("", "/live", "/projector", "/projector/live"):
            page = taught.desk.get(f"/instructor{path}").text
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert" in page
    assert "alert" not in "".join(record.getMessage() for record in caplog.records if "explorer" in record.name)
    (row,) = taught.classroom.rows(*now(taught))
    assert row.student.name == "<script>alert('anna')</script> O'Brien & \"co\""


def test_paused_runs_wait_and_say_why_and_go_on(taught: Class) -> None:
    anna, ben = taught.join("Anna"), taught.join("Ben")
    with taught.served.page(anna) as hers, taught.served.page(ben) as his:
        assert said(hers, "class")["paused"] is False
        ask_for_run(hers)
        said(hers, "started")
        assert "paused" in taught.does("pause")
        assert said(hers, "class")["paused"] is True
        taught.served.gate.open()
        assert said(hers, "result")  # what runs goes on
        ask_for_run(his)
        assert "The instructor has paused runs" in said(his, "queued")["message"]
        assert figures(shown(taught))["waiting"] == "1 of 600"
        taught.does("resume")
        assert said(his, "class", "started")
        assert said(his, "result")


def test_one_students_runs_are_stopped(taught: Class) -> None:
    anna, ben = taught.join("Anna"), taught.join("Ben")
    with ExitStack() as pages:
        hers, waits, his = (pages.enter_context(taught.served.page(who)) for who in (anna, anna, ben))
        for page in (hers, waits, his):
            ask_for_run(page)
            said(page, "queued", "started")
        taught.does("stop", number=1)
        for page in (hers, waits):
            assert said(page, "failed")["message"] == "The instructor stopped this run."
        assert said(his, "started")
        assert taught.desk.post("/instructor/stop", data={"number": 9}).status_code == 404


def test_so_many_runs_of_a_student_may_wait(taught: Class) -> None:
    anna = taught.join("Anna")
    taught.does("limit", most=1)
    with ExitStack() as pages:
        opened = [pages.enter_context(taught.served.page(anna)) for _ in range(3)]
        for page in opened:
            ask_for_run(page)
            said(page, "queued", "started", "failed")
        ask_for_run(opened[2], run=2)
        assert "1 runs of yours wait" in said(opened[2], "failed")["message"]
    for most in (0, limits.RUNS_WAITING_PER_STUDENT + 1):
        assert taught.desk.post("/instructor/limit", data={"most": most}).status_code == 422


def test_a_text_is_offered_to_all_and_sent_to_who_asks(taught: Class) -> None:
    anna = taught.join("Anna")
    with taught.served.page(anna) as hers, taught.browser() as student:
        assert said(hers, "class")["sent"] is None
        taught.does("send", name="A model", text="line\r\nline")
        notice = said(hers, "class")
        assert notice["sent"] == {"number": 1, "name": "A model"}
        assert student.get("/class/sent/1").status_code == 403  # nobody in the class
        student.post("/", data={"code": "teapot"})
        assert student.get("/class/sent/1").text == "line\nline"
        taught.does("send", example="kge/transe_l1")
        assert said(hers, "class")["sent"] == {"number": 2, "name": "transe_l1"}
        assert student.get("/class/sent/1").status_code == 404
        assert "TransE" in student.get("/class/sent/2").text
        taught.does("unsend")
        assert said(hers, "class")["sent"] is None
        assert student.get("/class/sent/2").status_code == 404


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("op Mine(b: bags):\n    return 1", "Mine"),
        (
            "# score Not(h, r, t):\ndef f(x):\n    return x\nscore A(h, r, t):\nlayer  Größe (g):\n",
            "Größe",
        ),
        (f"score {'x' * 99}(h, r, t):\n", "x" * 60),
        ("nothing of the language", "a text"),
    ],
)
def test_a_text_without_a_name_is_called_what_it_defines(taught: Class, text: str, name: str) -> None:
    assert f"Sent &#39;{name}&#39;." in taught.does("send", text=text)
    assert taught.classroom.sent is not None
    assert taught.classroom.sent.name == name
    taught.does("send", name=" Its  own ", text=text)
    assert taught.classroom.sent.name == "Its own"


def test_what_is_no_text_is_not_sent(taught: Class) -> None:
    assert "Nothing was sent" in taught.does("send", name="x", text="  \n")
    assert "more than 64 KiB" in taught.does("send", name="x", text="é" * 33_000)
    assert "Nothing was sent" in taught.does("send", example="no/such")
    assert taught.desk.post("/instructor/send", data={"name": "x" * 61, "text": "x"}).status_code == 422
    assert taught.classroom.sent is None


def test_a_removed_student_has_to_give_the_code_again(taught: Class) -> None:
    anna = taught.join("Anna")
    with taught.served.page(anna) as hers:
        eventually(lambda: figures(shown(taught))["here"] == "1")
        taught.does("remove", number=1)
        with pytest.raises(ConnectionClosed):
            said(hers, "none that there is")
    with taught.served.page(anna) as hers, pytest.raises(ConnectionClosed) as closed:
        hers.recv(60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
    assert "Anna" not in shown(taught)
