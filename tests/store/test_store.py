"""What is kept, by SQLite and, where one is named in EXPLORER_TEST_POSTGRES, by PostgreSQL: both by the same tests."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from explorer.store.database import AWAY_SECONDS, AddressError, StoreError
from explorer.store.store import Bounds, Store, TooLongError

T = TypeVar("T")
POSTGRES = "EXPLORER_TEST_POSTGRES"


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "kept" / "store.db")
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")
    if POSTGRES not in os.environ:
        pytest.skip(f"no PostgreSQL is named in {POSTGRES}")
    import psycopg

    with psycopg.connect(os.environ[POSTGRES], autocommit=True) as found:
        found.execute("DROP TABLE IF EXISTS items, texts, about")
    return os.environ[POSTGRES]


def using(address: str, work: Callable[[Store], Awaitable[T]], bounds: Bounds | None = None) -> T:
    """What comes of work with a store that is opened for it and closed after it."""

    async def run() -> T:
        store = Store(address, bounds, Clock())
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


HOSTILE = "'; DROP TABLE items; -- \0 \ud800 % ? ../../etc/passwd \N{SNOWMAN}"


def test_a_store_that_is_opened_again_has_everything(address: str) -> None:
    async def fill(store: Store) -> tuple[bytes, str]:
        await store.note_text("student a", HOSTILE, {"data": HOSTILE})
        await store.accept("1", "student a", "a model", {"on": "cpu"})
        await store.end("1", {"event": "result", "ms": 3})
        return await store.secret(), await store.share("student a", HOSTILE, {"data": HOSTILE})

    secret, name = using(address, fill)

    async def read(store: Store) -> None:
        assert await store.secret() == secret
        link = await store.link(name)
        assert link is not None
        assert (link.text, link.body) == (HOSTILE, {"data": HOSTILE})
        assert [item.text for item in await store.items("student a", "history")] == ["a model", HOSTILE]
        (run,) = await store.items("student a", "run")
        assert (run.state, run.text, run.body["last"]) == ("ended", "a model", {"event": "result", "ms": 3})

    using(address, read)


def test_names_that_lead_nowhere_and_those_of_others(address: str) -> None:
    async def ask(store: Store) -> None:
        await store.accept("1", "student a", "a model", {})
        for name in ("", "2", "' OR '1'='1", "\0", "\ud800", "é", "%", "x" * 100_000, "1"):
            assert await store.link(name) is None
            assert await store.item("student b", "run", name) is None
        assert await store.items("student b", "run") == []
        await store.forget("student b")
        assert await store.item("student a", "run", "1") is not None
        await store.forget("student a")
        assert await store.item("student a", "run", "1") is None

    using(address, ask)


def test_a_text_that_is_being_written_is_entered_once(address: str) -> None:
    async def write(store: Store) -> list[tuple[str, str]]:
        for end in range(1, 6):
            await store.note_text("student a", "model"[:end], {})
        await store.accept("1", "student a", "model", {})
        await store.note_text("student a", "another", {})
        return [(item.text, item.state) for item in await store.items("student a", "history")]

    assert using(address, write) == [("another", ""), ("model", "ran")]


def test_a_text_that_another_process_enters_late_takes_no_newer_ones_place(address: str) -> None:
    async def work(store: Store) -> list[str]:
        await store.note_text("a", "older", {}, 1e9 + 10)
        await store.note_text("a", "newer", {}, 1e9 + 12)
        await store.note_text("a", "between", {}, 1e9 + 11)
        await store.note_text("b", "of another student", {}, 1e9 + 11)
        return [item.text for item in await store.items("a", "history")]

    assert using(address, work) == ["newer"]


def test_a_student_has_so_many_links_and_so_many_bytes(address: str) -> None:
    async def share(store: Store) -> list[str]:
        for number in range(9):
            await store.share("student a", f"{number}" * 100, {})
        await store.share("student b", "other", {})
        assert [item.text for item in await store.items("student b", "link")] == ["other"]
        with pytest.raises(TooLongError):
            await store.share("student b", "x" * 400, {})
        return [item.text[0] for item in await store.items("student a", "link")]

    assert using(address, share, Bounds(item_bytes=400, of_student=3)) == ["8", "7", "6"]
    assert using(address, share, Bounds(item_bytes=400, student_bytes=210)) == ["8", "7"]


def test_the_oldest_of_all_go_first_and_the_same_is_kept_once(address: str) -> None:
    async def share(store: Store) -> list[str]:
        names = [await store.share(f"student {number}", "text" * 20, {}) for number in range(6)]
        assert names[5] == await store.share("student 5", "text" * 20, {})
        return [name for name in names if await store.link(name) is not None]

    assert len(using(address, share, Bounds(total_bytes=260))) == 3


def test_what_is_too_old_goes(address: str) -> None:
    async def wait(store: Store) -> tuple[bool, bool]:
        old, new = await store.share("student a", "old", {}), await store.share("student a", "new", {})
        await store.tidy()
        return await store.link(old) is None, await store.link(new) is None

    assert using(address, wait, Bounds(seconds=1.5)) == (True, False)


def test_two_students_at_once(address: str) -> None:
    async def both(store: Store) -> list[int]:
        other = Store(address, clock=Clock())
        turns = [
            each.share(student, f"{student} {number}", {})
            for number in range(20)
            for each, student in ((store, "student a"), (other, "student b"))
        ]
        await asyncio.gather(*turns)
        await other.close()
        return [len(await store.items(student, "link")) for student in ("student a", "student b")]

    assert using(address, both) == [20, 20]


def test_a_new_file_that_another_process_is_writing_to_is_waited_for(tmp_path: Path) -> None:
    """SQLite waits for what is written to it, but not to change how it is written, as the first who opens it does."""
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE other (x)")
    other.execute("BEGIN IMMEDIATE")
    ending = threading.Timer(0.2, other.execute, ["COMMIT"])
    ending.start()
    assert using(str(tmp_path / "store.db"), lambda store: store.items("a", "run")) == []
    ending.join()
    other.close()


def test_runs_of_a_server_that_was_killed_are_lost_and_none_is_forgotten(address: str) -> None:
    program = """
import asyncio, sys
from explorer.store.store import Store
async def accept():
    store = Store(sys.argv[1])
    for number in range(100_000):
        await store.accept(f"run{number}", "student a", f"model {number}", {})
        store.begin(f"run{number}") if number % 2 else await store.end(f"run{number}", {"event": "result"})
        print(number, flush=True)
asyncio.run(accept())
"""
    command = [sys.executable, "-c", program, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while server.stdout.readline().strip() != "30":
            assert server.poll() is None
        server.kill()
        told = 30 + len(server.stdout.read().split())

    async def read(store: Store) -> dict[str, str]:
        await store.lose_open_runs()
        return {item.id: item.state for item in await store.items("student a", "run")}

    states = using(address, read)
    newest = range(max(0, told + 2 - 100), told + 1)
    assert {name: states[name] for name in (f"run{number}" for number in newest[:-1])} == {
        f"run{number}": "lost" if number % 2 else "ended" for number in newest[:-1]
    }
    assert set(states.values()) == {"lost", "ended"}


def test_a_version_that_is_not_known_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    using(str(path), Store.secret)
    with sqlite3.connect(path) as found:
        found.execute("UPDATE about SET value = '99' WHERE name = 'version'")
    with pytest.raises(StoreError, match="another version"):
        using(str(path), Store.secret)


def test_a_file_that_cannot_be_used_is_told_and_used_once_it_can(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"no database at all, " * 100)

    async def ask(store: Store) -> None:
        with pytest.raises(StoreError, match="no database"):
            await store.secret()
        assert "no database" in store.trouble
        path.unlink()
        await asyncio.sleep(AWAY_SECONDS)
        await store.secret()
        assert store.trouble == ""

    using(str(path), ask)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await store.secret()
        await store._database.do(lambda found: found.run("PRAGMA max_page_count = 1"))
        with pytest.raises(StoreError, match="full"):
            await store.share("student a", "x" * 100_000, {})

    using(str(tmp_path / "store.db"), fill)


def test_what_the_store_tells_has_no_password() -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")

    async def ask(store: Store) -> None:
        with pytest.raises(StoreError) as told:
            await store.secret()
        assert "hunter2" not in str(told.value)

    using("postgresql://somebody:hunter2@127.0.0.1:1/nothing", ask)


@pytest.mark.parametrize("address", ["http://x", "sqlite://x", "", "/", "a\0b", "mysql://x"])
def test_addresses_of_no_store(address: str) -> None:
    with pytest.raises(AddressError):
        Store(address)


def test_a_run_that_nobody_ended_is_lost_after_a_while_and_one_that_ended_still_says_what_was_asked(
    address: str,
) -> None:
    async def work(store: Store) -> None:
        for name in ("killed", "ended"):
            await store.accept(name, "student a", "model", {"on": "cpu"})
        await store.end("ended", {"event": "result"})
        for _ in range(10):
            await store.items("student b", "run")
        assert await store.item("student a", "run", "killed")
        states = {item.id: item for item in await store.items("student a", "run")}
        assert states["killed"].state == "queued"
        for _ in range(40):
            await store.accept("newer", "student a", "model", {})
        states = {item.id: item for item in await store.items("student a", "run")}
        assert (states["killed"].state, states["newer"].state) == ("lost", "queued")
        assert states["ended"].state == "ended"
        assert states["ended"].body == {"asked": {"on": "cpu"}, "last": {"event": "result"}}

    using(address, work, Bounds(run_seconds=30))
