"""What servers of one class take over from one another, and what each keeps of its own."""

from __future__ import annotations

import json

import pytest

from explorer.web import limits
from explorer.web.instructor.classroom import Classroom, Locks
from explorer.web.instructor.handins import HandIns
from explorer.web.instructor.token import Instructor
from tests.web.instructor.classes import CODE, TOKEN


def server(places: int = 4, code: str | None = CODE) -> Classroom:
    return Classroom(Instructor(TOKEN), code, places)


def tell(one: Classroom, other: Classroom) -> None:
    """What one writes into the queue reaches the other."""
    written = json.loads(json.dumps(one.roll()))
    one.merge_roll(written)
    other.merge_roll(written)


def names(classroom: Classroom) -> dict[int, str]:
    return dict(classroom.roll()["students"].values())


def test_who_came_while_servers_were_apart_is_in_the_class_of_both() -> None:
    one, other = server(), server()
    assert one.join("student a", "Anna")
    tell(one, other)
    assert one.join("student b", "Ben")
    assert other.join("student c", "Cleo")
    other.note_edit("student c")
    tell(one, other)
    tell(other, one)
    assert names(one) == names(other) == {1: "Anna", 2: "Ben", 3: "Cleo"}
    assert one.roll() == other.roll()
    assert other.tallies([])["student c"].edits == 1
    assert list(one.tallies([])) == ["student a", "student b"]  # of Cleo the other tells


def test_no_more_have_a_place_than_there_are() -> None:
    one, other = server(places=2), server(places=2)
    for classroom, who in ((one, "a"), (one, "b"), (other, "c"), (other, "d")):
        assert classroom.join(f"student {who}", who)
    tell(one, other)
    assert set(names(other).values()) == {"a", "b"}
    assert not other.admission.has_place("student c")


def test_who_was_removed_at_one_is_not_brought_back_by_the_other() -> None:
    one, other = server(), server()
    one.join("student a", "Anna")
    tell(one, other)
    one.remove("student a")
    other.note_edit("student a")
    tell(one, other)
    tell(other, one)
    assert names(one) == names(other) == {}
    assert not other.admission.has_place("student a")
    one.join("student b", "Ben")  # and no number is given twice
    assert names(one) == {2: "Ben"}


def test_so_many_are_known_where_there_is_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STUDENTS_KNOWN", 10)
    one, other = server(code=None), server(code=None)
    for number in range(8):
        one.note_edit(f"student at one {number}")
        other.note_edit(f"student at the other {number}")
    tell(one, other)
    assert len(other.roll()["students"]) == 10
    tell(other, one)
    assert one.roll()["students"] == other.roll()["students"]


def test_what_is_set_is_the_same_after_json() -> None:
    one, other = server(), server()
    one.send("A model", "text")
    one.assign("It", "begin", "right", 2, Locks(frozenset({"reorder"}), frozenset({"ptx"})))
    one.reference_check = {"state": "passed", "message": ""}
    other.take_desk(json.loads(json.dumps(one.desk())))
    assert (other.sent, other.assignment, other.reference_check) == (one.sent, one.assignment, one.reference_check)
    one.unassign()
    other.take_desk(one.desk())
    assert other.assignment is None
    other.send("Another", "text")
    assert other.sent is not None
    assert other.sent.number == 3


def test_the_list_of_hand_ins_has_no_works_and_keeps_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HAND_INS_PER_STUDENT", 2)
    one, other = HandIns(), HandIns()
    for number in (1, 2):
        assert one.add("anna", "Anna", "It", {"text": "x" * 1000}).number == number
    other.take(json.loads(json.dumps(one.document())))
    assert "xxx" not in json.dumps(one.document())
    assert other.total == one.total > 2000
    assert other.add("anna", "Anna", "It", {"text": "y"}).number == 3
    assert list(other.numbers) == [2, 3]
    assert not other.note_check(1, {"state": "passed", "message": ""})
