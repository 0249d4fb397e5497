"""Frozen dataclasses of the compiler are as those of the standard library, but cheap to define."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from explorer.compiler import frozen


@frozen.dataclass(frozen=True, kw_only=True)
class Base:
    origin: tuple[int, ...] = field(compare=False)


@frozen.dataclass(frozen=True, kw_only=True)
class Load(Base):
    """A class with a default."""

    name: str
    places: tuple[str, ...] = ()


@frozen.dataclass(frozen=True, kw_only=True)
class Kept(Load):
    pass


@frozen.dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2


def test_members_are_given_by_name_and_have_defaults() -> None:
    load = Load(name="x", origin=(1,))
    assert (load.name, load.places, load.origin) == ("x", (), (1,))
    assert [entry.name for entry in fields(load)] == ["origin", "name", "places"]
    for wrong in ({"name": "x"}, {"name": "x", "origin": (), "more": 1}):
        with pytest.raises(TypeError):
            Load(**wrong)
    with pytest.raises(TypeError):
        Load((), "x")


def test_members_are_given_by_place_and_matched_by_it() -> None:
    assert Pair(1) == Pair(1, 2) == Pair(left=1, right=2)
    match Pair(3, 4):
        case Pair(left, right):
            assert (left, right) == (3, 4)


def test_no_member_is_assigned_or_deleted() -> None:
    load = Load(name="x", origin=())
    with pytest.raises(FrozenInstanceError, match="name"):
        load.name = "y"
    with pytest.raises(FrozenInstanceError):
        del load.name
    assert load.name == "x"


def test_equal_is_what_is_of_one_class_and_has_equal_members_that_compare() -> None:
    load = Load(name="x", places=("i",), origin=(1,))
    same = Load(name="x", places=("i",), origin=(2,))
    assert load == same
    assert hash(load) == hash(same)
    assert load != replace(load, name="y")
    assert load != Kept(name="x", places=("i",), origin=(1,))
    assert load != "x"
    assert len({load, same, replace(load, places=())}) == 2
    assert Base(origin=()) == Base(origin=(1,))


def test_copies_are_equal() -> None:
    load = Kept(name="x", origin=(1,))
    for other in (copy.copy(load), copy.deepcopy(load), pickle.loads(pickle.dumps(load)), replace(load)):
        assert other is not load
        assert (other, other.origin) == (load, (1,))
        assert type(other) is Kept


def test_it_is_shown_as_what_the_standard_library_makes() -> None:
    made = dataclasses.make_dataclass("Pair", [("left", int), ("right", int, 2)], frozen=True)
    assert repr(Pair(1)) == repr(made(1))


@frozen.dataclass(frozen=True)
class Counted:
    given: int
    found: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        self.twice.append(2 * self.given)


@frozen.dataclass(frozen=True, eq=False)
class Own:
    name: str


@frozen.dataclass(frozen=True)
class Lengths:
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lengths) and len(self.text) == len(other.text)

    def __hash__(self) -> int:
        return len(self.text)

    def __repr__(self) -> str:
        return f"<{len(self.text)}>"


def test_members_are_made_anew_for_each_instance_and_filled_behind_the_others() -> None:
    one, other = Counted(1), Counted(2)
    assert (one.found, one.twice, other.twice) == ([], [2], [4])
    assert one.found is not other.found
    assert Counted(1, [3]).found == [3]
    assert Counted(1) == one
    with pytest.raises(TypeError):
        Counted(1, [], [])


def test_what_a_class_says_itself_stays() -> None:
    assert Own("a") != Own("a")
    assert len({Own("a"), Own("a")}) == 2
    assert Lengths("ab") == Lengths("cd")
    assert hash(Lengths("ab")) == 2
    assert repr(Lengths("ab")) == "<2>"
    with pytest.raises(FrozenInstanceError):
        Own("a").name = "b"


def test_a_copy_with_changes_has_the_other_fields_and_nothing_that_is_kept_with_the_first() -> None:
    load = Kept(name="x", origin=(1,))
    load.__dict__["_kept"] = 1
    changed = frozen.replace(load, name="y")
    assert (type(changed), changed.name, changed.places, changed.origin) == (Kept, "y", (), (1,))
    assert "_kept" not in changed.__dict__
    assert load.name == "x"
    with pytest.raises(TypeError, match="other"):
        frozen.replace(load, other=1)
    assert frozen.replace(Counted(1), given=3).twice == [6]
