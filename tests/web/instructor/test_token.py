"""Who is let in as the instructor, and what everybody else is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.instructor.token import COOKIE, Secret, TokenFileError, Tries, read_token
from explorer.web.server import ClassRequest
from tests.web.instructor.classes import TOKEN, Class, browser, teaching
from tests.web.serving import serving

OURS = {"pause", "resume", "stop", "remove", "limit", "send", "unsend"}


@pytest.fixture
def taught() -> Iterator[Class]:
    with teaching() as taught:
        yield taught


def test_the_token_is_shown_once_and_leaves_the_address(taught: Class) -> None:
    with taught.browser() as new:
        answer = new.get(f"/instructor?token={TOKEN}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/instructor")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        assert TOKEN not in cookie
        for word in ("HttpOnly", "SameSite=Strict", "Path=/instructor"):
            assert word in cookie
        page = new.get("/instructor")
        assert "Who is here" in page.text
        assert TOKEN not in page.text


def test_nobody_else_gets_anything(taught: Class) -> None:
    with taught.browser() as other:
        form = other.get("/instructor")
        assert "Who is here" not in form.text
        assert 'name="token"' in form.text
        for cookie in ("", "x", "é", TOKEN):
            other.cookies.set(COOKIE, cookie, path="/") if cookie.isascii() else None
            for path in ("live", "projector", "projector/live"):
                assert other.get(f"/instructor/{path}").status_code == 403
            for path in OURS:
                assert other.post(f"/instructor/{path}", data={"number": "1", "most": "1"}).status_code == 403
    assert not taught.served.app.state.runs.paused


def test_a_wrong_token_is_refused_and_then_not_looked_at(taught: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    with taught.browser() as other:
        for number in range(limits.WRONG_TRIES):
            path = "/instructor?token=" + ("no" * (number + 1))
            assert other.get(path).status_code in (403, 429)
        held = other.post("/instructor/enter", data={"token": TOKEN})
        assert held.status_code == 429
        assert "Wait a minute" in held.text
        assert COOKIE not in other.cookies
    assert taught.desk.get("/instructor/live").status_code == 200  # who is in stays in


def test_a_form_of_another_site_does_nothing(taught: Class) -> None:
    answer = taught.desk.post("/instructor/pause", headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    assert not taught.served.app.state.runs.paused


def test_a_server_without_a_class_has_no_such_page() -> None:
    with serving(create_app()) as served, browser(served) as other:
        assert other.get("/instructor").status_code == 404
        assert other.get("/instructor?token=").status_code == 404
        assert other.post("/instructor/pause").status_code == 404
        assert other.post("/", data={"code": "x"}).status_code == 404


def connection(address: str) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [], "client": (address, 1)})


def test_wrong_tries_are_counted_by_address_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("explorer.web.instructor.token.monotonic", lambda: now)
    secret = Secret("a word")
    one, other = connection("192.0.2.1"), connection("192.0.2.2")
    for _ in range(limits.WRONG_TRIES):
        assert not secret.fits(one, "another \udc80")
    assert not secret.fits(one, "a word")
    assert secret.fits(other, "a word")
    now += limits.WRONG_SECONDS
    assert secret.fits(one, "a word")


def test_tries_of_so_many_addresses_are_kept() -> None:
    tries = Tries(1, 60)
    for number in range(limits.TRIED_ADDRESSES + 50):
        tries.note(f"address {number}")
    assert len(tries._wrong) == limits.TRIED_ADDRESSES
    assert tries.are_too_many(f"address {limits.TRIED_ADDRESSES + 49}")


def test_a_tokens_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert read_token(file) == TOKEN
    for content in (b"", b"short", b"\xff" * 40):
        file.write_bytes(content)
        with pytest.raises(TokenFileError, match="token"):
            read_token(file)
    with pytest.raises(TokenFileError, match="No such file"):
        read_token(tmp_path / "nowhere")


def test_what_turns_the_instructors_side_on(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    assert ClassRequest().classroom().instructor is None
    for asked in (ClassRequest(wanted=True), ClassRequest(code="x"), ClassRequest(hand_ins=tmp_path)):
        assert asked.classroom().instructor is not None
    from_file = ClassRequest(token_file=file).classroom().instructor
    assert from_file is not None
    assert from_file.token == TOKEN
    one, other = (ClassRequest(wanted=True).classroom().instructor for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.token != other.token
