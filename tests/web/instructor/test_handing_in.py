"""Assignments: what is handed in, how it is checked, what comes of it, and how much there may be."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.instructor.checking import SESSION
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.handins import HandIn, HandInError, HandIns
from explorer.web.instructor.token import Instructor
from explorer.web.queue import RunQueue
from tests.web.instructor.classes import CODE, TOKEN, Class, teaching
from tests.web.serving import eventually, said

HOSTILE = "<script>alert(1)</script>/../anna"


class Comparer:
    """Stands in for the workers: texts are equal where they are the same; `asked` are the requests."""

    warm = True
    pids = ()

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        self.asked.append(request)
        if request["text"] == "crash":
            yield events.failed("crashed", "The worker is gone.")
        elif request["text"] == request["expected"]:
            yield events.result({"matches_reference": True})
        else:
            yield events.failed("error", "The results differ <b>.")


@pytest.fixture
def taught() -> Iterator[Class]:
    with teaching() as taught:
        yield taught


@pytest.fixture
def comparer(taught: Class) -> Comparer:
    comparer = Comparer()
    taught.served.app.state.runs = RunQueue(comparer, 1)
    return comparer


@contextmanager
def student(taught: Class, name: str = "Anna") -> Iterator[httpx.Client]:
    with taught.browser() as new:
        assert new.post("/", data={"code": CODE, "name": name}).status_code == 303
        yield new


def hands_in(who: httpx.Client, text: str, assignment: int = 1, **more: Any) -> httpx.Response:
    return who.post("/class/hand-in", json={"assignment": assignment, "text": text, **more})


def states(taught: Class) -> list[str]:
    return [each.check["state"] for each in taught.classroom.hand_ins]


def test_a_hand_in_is_stored_checked_and_downloaded(taught: Class, comparer: Comparer) -> None:
    with student(taught, HOSTILE) as anna, taught.served.page(anna.cookies["explorer-student"]) as page:
        assert said(page, "class")["assignment"] is None
        taught.does("assign", title="Score <it>", text="begin", reference="right\r\n", seeds=2)
        assert said(page, "class")["assignment"] == {"number": 1, "title": "Score <it>"}
        assert anna.get("/class/assignment/1").text == "begin"
        eventually(lambda: taught.classroom.reference_check.get("state") == "passed")
        taken = hands_in(anna, "right", sizes={"D": 4}, options={"reorder": False})
        assert taken.json()["number"] == 1
        assert "check" not in taken.json()
        assert hands_in(anna, "wrong").status_code == 200
        eventually(lambda: states(taught) == ["passed", "failed"])
    assert [(each["text"], each["seed"]) for each in comparer.asked[1:]] == [("right", 0), ("right", 1), ("wrong", 0)]
    assert all((each["on"], each["expected"]) == ("cpu", "right") for each in comparer.asked)
    page_now = taught.desk.get("/instructor/live").text
    assert "<script>" not in page_now
    assert "The results differ &lt;b&gt;." in page_now
    assert "Score &lt;it&gt;" in page_now
    one = taught.desk.get("/instructor/hand-ins/1.json")
    assert one.headers["content-disposition"] == 'attachment; filename="hand-in-00001.json"'
    kept = one.json()
    assert (kept["student"], kept["assignment"], kept["check"]["state"]) == (HOSTILE, "Score <it>", "passed")
    assert kept["work"] | {"sizes": {"D": 4}, "options": {"reorder": False}, "text": "right"} == kept["work"]
    with zipfile.ZipFile(io.BytesIO(taught.desk.get("/instructor/hand-ins.zip").content)) as archive:
        folders = ("00001-script-alert-1-script-anna", "00002-script-alert-1-script-anna")
        names = [f"{folder}/{name}" for folder in folders for name in ("model.emb", "hand-in.json")]
        assert archive.namelist() == names
        assert archive.read(names[2]) == b"wrong"


def test_hand_ins_are_for_the_instructor_alone(taught: Class, comparer: Comparer) -> None:
    taught.does("assign", title="It", text="begin")
    with student(taught) as anna, taught.browser() as other:
        hands_in(anna, "x")
        for who in (anna, other):
            for path in ("hand-ins.zip", "hand-ins/1.json"):
                assert who.get(f"/instructor/{path}").status_code == 403
            for path in ("assign", "unassign", "recheck"):
                assert who.post(f"/instructor/{path}", data={"number": 1, "title": "x"}).status_code == 403
        assert hands_in(other, "x").status_code == 403
        assert other.get("/class/assignment/1").status_code == 403
        theirs = anna.post("/class/hand-in", json={}, headers={"origin": "http://evil.example"})
        assert theirs.status_code == 403
    assert taught.desk.get("/instructor/hand-ins/2.json").status_code == 404


def test_without_a_reference_nothing_is_checked(taught: Class, comparer: Comparer) -> None:
    taught.does("assign", title="It", text="begin")
    with student(taught) as anna:
        hands_in(anna, "x")
    assert states(taught) == ["none"]
    assert comparer.asked == []


def test_what_could_not_be_checked_is_checked_again(taught: Class, comparer: Comparer) -> None:
    taught.does("assign", title="It", text="begin", reference="right", seeds=1)
    with student(taught) as anna:
        hands_in(anna, "crash")
        eventually(lambda: states(taught) == ["unchecked"])
        assert "Check again" in taught.desk.get("/instructor/live").text
        taught.does("recheck", number=1)
        eventually(lambda: [each["text"] for each in comparer.asked] == ["right", "crash", "crash"])
        taught.does("unassign")
        assert "has no reference" in taught.does("recheck", number=1)


def test_checks_take_turns_as_one(taught: Class) -> None:
    """Of many hand-ins one check waits, so students' runs are not behind all of them."""
    taught.does("pause")
    taught.does("assign", title="It", text="begin", reference="right")
    with student(taught) as anna, student(taught, "Ben") as ben:
        for _ in range(5):
            hands_in(anna, "x")
            hands_in(ben, "x")
    queue: RunQueue = taught.served.app.state.runs
    eventually(lambda: states(taught) == ["waiting"] * 10)
    assert queue.waiting == {SESSION: 1}


def test_what_is_no_hand_in_is_told_so(taught: Class, comparer: Comparer) -> None:
    with student(taught) as anna:
        assert "over" in hands_in(anna, "x").text
        taught.does("assign", title="It", text="begin")
        assert "64 KiB" in hands_in(anna, "é" * 33_000).text
        assert hands_in(anna, "x", extra=1).status_code == 422
        assert hands_in(anna, "x", name="n" * 61).status_code == 422
        taught.does("assign", title="Next", text="begin")
        assert "over" in hands_in(anna, "x", assignment=1).text
        assert anna.get("/class/assignment/1").status_code == 404
        assert hands_in(anna, "x", assignment=2, name="Anna B.").json()["student"] == "Anna B."
    assert len(taught.classroom.hand_ins) == 1


def test_what_is_no_assignment_is_not_set(taught: Class) -> None:
    assert "Nothing was set" in taught.does("assign", title=" ", text="x")
    assert "Nothing was set" in taught.does("assign", title="x", text=" ")
    assert "more than 64 KiB" in taught.does("assign", title="x", text="x", reference="x" * 66_000)
    for seeds in (0, limits.CHECK_SEEDS + 1):
        assert taught.desk.post("/instructor/assign", data={"title": "x", "seeds": seeds}).status_code == 422
    assert taught.classroom.assignment is None


def test_who_keeps_no_cookie_cannot_hand_in() -> None:
    with teaching(code=None) as taught, taught.browser() as nobody:
        taught.does("assign", title="It", text="begin")
        assert "no cookies" in hands_in(nobody, "x").text


def add(hand_ins: HandIns, owner: str = "anna", text: str = "x") -> HandIn:
    return hand_ins.add(owner, owner, "It", {"text": text})


def test_one_students_newest_take_the_place_of_the_oldest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "HAND_INS_PER_STUDENT", 2)
    hand_ins = HandIns(tmp_path)
    for owner in ("anna", "ben", "anna", "anna"):
        add(hand_ins, owner)
    assert [each.number for each in hand_ins] == [2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"hand-in-0000{n}.json" for n in (2, 3, 4)]


def test_so_many_and_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HAND_INS", 3)
    hand_ins = HandIns()
    for number in range(3):
        add(hand_ins, str(number))
    with pytest.raises(HandInError, match="no room"):
        add(hand_ins, "late")
    monkeypatch.setattr(limits, "HAND_INS", 100)
    monkeypatch.setattr(limits, "HAND_INS_BYTES", hand_ins.total + 1_000)
    with pytest.raises(HandInError, match="no room"):
        add(hand_ins, "long", "x" * 1_000)
    add(hand_ins, "short")
    assert hand_ins.total == sum(len(each.to_json().encode()) for each in hand_ins)


def test_a_folder_is_found_again(tmp_path: Path) -> None:
    before = HandIns(tmp_path / "new")
    found = add(before, text="é")
    found.check = {"state": "passed", "message": "y"}
    before.store(found)
    for name, content in (
        ("hand-in-x.json", "{"),
        ("hand-in-00007.json", "[]"),
        ("hand-in-00008.json", found.to_json()),
    ):
        (tmp_path / "new" / name).write_text(content)
    after = HandIns(tmp_path / "new")
    assert [each.to_json() for each in after] == [found.to_json()]
    assert add(after).number == 2
    assert json.loads((tmp_path / "new" / "hand-in-00002.json").read_text())["student"] == "anna"


def test_a_folder_that_takes_nothing_is_told(tmp_path: Path) -> None:
    hand_ins = HandIns(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(HandInError, match="write it down"):
        add(hand_ins)
    assert len(hand_ins) == 0
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="exists"):
        Classroom(Instructor(TOKEN), hand_ins=tmp_path / "file")
