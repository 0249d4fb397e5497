"""A server with a class, without workers, and what its students and its instructor do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from explorer.web.app import create_app
from explorer.web.entrance.students import COOKIE
from explorer.web.instructor import token
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.token import Instructor
from tests.web.serving import PATIENCE, Served, serving

CODE, TOKEN = "teapot", "0123456789abcdefghij"


@dataclass
class Class:
    """A class that is served, and the instructor's browser."""

    served: Served
    desk: httpx.Client

    @property
    def classroom(self) -> Classroom:
        found: Classroom = self.served.app.state.classroom
        return found

    def browser(self) -> httpx.Client:
        """A browser that nobody knows."""
        return browser(self.served)

    def join(self, name: str = "", code: str = CODE) -> str | None:
        """The cookie of a new student; None who is not let in."""
        with self.browser() as new:
            new.post("/", data={"code": code, "name": name})
            return new.cookies.get(COOKIE)

    def does(self, path: str, **fields: str | int) -> str:
        """What the instructor's page shows after a POST."""
        answer = self.desk.post(f"/instructor/{path}", data=fields)
        assert answer.status_code == 200, answer.text
        return answer.text


def browser(served: Served) -> httpx.Client:
    # Without `verify=False` each reads the certificates of the world first.
    return httpx.Client(base_url=f"http://127.0.0.1:{served.port}", timeout=PATIENCE, verify=False)


@contextmanager
def teaching(
    code: str | None = CODE, places: int = 3, classroom: Classroom | None = None, **settings: Any
) -> Iterator[Class]:
    classroom = classroom or Classroom(Instructor(TOKEN), code, places)
    with serving(create_app(classroom=classroom, **settings)) as served, browser(served) as desk:
        assert desk.get(f"{token.PATH}?token={TOKEN}").status_code == 303
        yield Class(served, desk)


def figures(page: str) -> dict[str, str]:
    """The instructor's figures by what they are called."""
    found = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", page)
    return {name: re.sub(r"<.*?>", "", value) for name, value in found}
