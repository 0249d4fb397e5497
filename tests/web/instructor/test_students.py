"""Who is a student of a class with a code, and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed

from explorer.web import limits
from explorer.web.entrance.students import COOKIE
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.token import Instructor
from explorer.web.queue import RunQueue
from tests.web.instructor.classes import CODE, TOKEN, Class, teaching
from tests.web.serving import Gate


@pytest.fixture
def taught() -> Iterator[Class]:
    with teaching() as taught:
        yield taught


def test_the_page_asks_for_the_code_and_keeps_its_address(taught: Class) -> None:
    with taught.browser() as new:
        asked = new.get("/?example=kge/transe_l1")
        assert (asked.status_code, COOKIE in asked.cookies) == (200, False)
        assert 'name="code"' in asked.text
        assert "cm-content" not in asked.text
        wrong = new.post("/?example=kge/transe_l1", data={"code": "kettle"})
        assert (wrong.status_code, COOKIE in wrong.cookies) == (403, False)
        joined = new.post("/?example=kge/transe_l1", data={"code": f" {CODE} ", "name": "Anna"})
        assert (joined.status_code, joined.headers["location"]) == (303, "/?example=kge/transe_l1")
        assert "HttpOnly" in joined.headers["set-cookie"]


def test_nothing_else_is_for_who_has_no_code(taught: Class) -> None:
    with taught.browser() as new:
        for path in ("/compile", "/panes", "/late", "/best", "/costs"):
            answer = new.post(path, data={"edit": "1", "text": "x"})
            assert answer.status_code == 403
            assert "class" in answer.json()["diagnostics"][0]["message"]
    for cookie in (None, "made.up", "another.server"):
        with taught.served.page(cookie) as page, pytest.raises(ConnectionClosed) as closed:
            page.recv(60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403


def test_many_cookies_need_many_places(taught: Class) -> None:
    """Of one address as of many: without the code there is no cookie, and there are as many as places."""
    cookies = [taught.join() for _ in range(5)]
    assert [cookie is not None for cookie in cookies] == [True, True, True, False, False]
    with taught.browser() as late:
        assert "The class is full: it has 3 places" in late.post("/", data={"code": CODE}).text
    taught.does("remove", number=2)
    assert taught.join("Dora") is not None
    assert len(taught.classroom.rows((), RunQueue(Gate(), 1))) == 3


def test_giving_the_code_twice_takes_one_place(taught: Class) -> None:
    with taught.browser() as anna:
        for name in ("Anna", "Anna B."):
            assert anna.post("/", data={"code": CODE, "name": name}).status_code == 303
    (row,) = taught.classroom.rows((), RunQueue(Gate(), 1))
    assert row.student.name == "Anna B."


def test_codes_cannot_be_tried_out(taught: Class) -> None:
    with taught.browser() as other:
        told = [other.post("/", data={"code": f"code {number}"}).status_code for number in range(limits.WRONG_CODES)]
        assert told == [403] * (limits.WRONG_CODES - 1) + [429]
        assert other.post("/", data={"code": CODE}).status_code == 429
    assert taught.join() is None


def test_without_a_code_whoever_opens_the_page_is_a_student() -> None:
    with teaching(code=None) as taught, taught.served.page(taught.served.new_student()) as page:
        assert '"class"' in str(page.recv(60))
        (row,) = taught.classroom.rows(taught.served.app.state.sessions, taught.served.app.state.runs)
        assert (row.student.number, row.student.name, row.pages) == (1, "", 1)


def test_students_without_a_code_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STUDENTS_KNOWN", 10)
    classroom = Classroom(Instructor(TOKEN))
    for number in range(30):
        classroom.note_edit(f"student {number}")
    classroom.note_edit("address 192.0.2.1")
    rows = classroom.rows((), RunQueue(Gate(), 1))
    assert [row.student.number for row in rows] == list(range(21, 31))
