"""Who asks: a browser, known by the signed cookie that its first page sets, or else an address.

The cookie says that several pages are one student's, who takes turns as one, so a class behind one address is as many
as it has browsers. It says nothing else, and a server that starts anew gives out new ones, unless a
store has kept the secret of its signature. Where a class has a code,
nobody is a student without it, so that many cookies make nobody many students.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import HTTPConnection
from starlette.responses import Response

from explorer.web.entrance.addresses import group

COOKIE = "explorer-student"
_SECONDS = 30 * 24 * 3600


class Students:
    """The students of one server, which knows those by its own signature.

    Where there are so many `places`, a student is who was admitted to one; else, whoever asks for the page.
    """

    def __init__(self, places: int | None = None) -> None:
        self._secret = secrets.token_bytes(32)
        self._places = places
        self._admitted: set[str] = set()
        self._removed: set[str] = set()
        self._remembers = False

    def remember(self, secret: bytes) -> None:
        """Sign as servers before this one did, whose students then need no new cookie, nor to be admitted again."""
        self._secret, self._remembers = secret, True

    def of(self, connection: HTTPConnection) -> str:
        """The session that a request belongs to: its student, or without one its address."""
        return self._known(connection) or address(connection)

    def is_stale(self, connection: HTTPConnection) -> bool:
        """Whether it has a cookie that another server has signed."""
        return COOKIE in connection.cookies and self._known(connection) is None

    def may_enter(self, connection: HTTPConnection) -> bool:
        """Whether it may see the page and run: in a class with a code, its students alone."""
        return self._places is None or self._known(connection) is not None

    def admit(self, connection: HTTPConnection, response: Response) -> str | None:
        """Give a place to who has none, with a cookie: its session, or None where all are taken."""
        known = self._known(connection)
        if known is not None or self._places is None:
            return known
        if len(self._admitted) >= self._places:
            return None
        name = secrets.token_urlsafe(12)
        self._admitted.add(name)
        response.headers.append("set-cookie", self._cookie(connection, name))
        return _session(name)

    def remove(self, session: str) -> None:
        """Take a student's place, whose cookie holds no more."""
        gone = {name for name in self._admitted if _session(name) == session}
        self._admitted -= gone
        self._removed |= gone

    def new_cookie(self, connection: HTTPConnection) -> str:
        """A new student's `Set-Cookie`, where anyone is one."""
        return self._cookie(connection, secrets.token_urlsafe(12))

    def _cookie(self, connection: HTTPConnection, name: str) -> str:
        secure = "; Secure" if connection.scope["scheme"] in ("https", "wss") else ""
        kept = f"Path=/; Max-Age={_SECONDS}; HttpOnly; SameSite=Lax{secure}"
        return f"{COOKIE}={name}.{self._signature(name)}; {kept}"

    def welcome(self, connection: HTTPConnection, response: Response) -> None:
        """Give a cookie to who has none of this server's; in a class with a code, `admit` does."""
        if self._places is None and self._known(connection) is None:
            response.headers.append("set-cookie", self.new_cookie(connection))

    def _known(self, connection: HTTPConnection) -> str | None:
        name, _, signature = connection.cookies.get(COOKIE, "").partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(name).encode()):
            return None
        return _session(name) if self._places is None or self._has_place(name, self._places) else None

    def _has_place(self, name: str, places: int) -> bool:
        """Whether a student has a place, or had one at a server before this one and there is still one left."""
        if self._remembers and name not in self._removed and len(self._admitted) < places:
            self._admitted.add(name)
        return name in self._admitted

    def _signature(self, name: str) -> str:
        return hmac.digest(self._secret, name.encode(), "sha256").hex()


_STUDENT = "student "


def _session(name: str) -> str:
    return f"{_STUDENT}{name}"


def is_student(session: str) -> bool:
    """Whether a session is that of a student, not of an address."""
    return session.startswith(_STUDENT)


def address(connection: HTTPConnection) -> str:
    """The session of what has no cookie."""
    return f"address {group(connection.client.host if connection.client else '')}"
