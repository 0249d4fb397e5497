"""Who asks: a browser, known by the signed cookie that its first page sets, or else an address.

The cookie says that several pages are one student's, who takes turns as one, so a class behind one address is as many
as it has browsers. It says nothing else, and a server that starts anew gives out new ones, unless a
store has kept the secret of its signature, or a queue, whose servers all have the same. Where a class has a code,
nobody is a student without it, so that many cookies make nobody many students.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response

from explorer.web.entrance.addresses import group

COOKIE = "explorer-student"
_SECONDS = 30 * 24 * 3600


class Students:
    """The students of one server, or of several with one secret, known by its signature.

    Where there are so many `places`, a student is who was admitted to one; else, whoever asks for the page.
    """

    def __init__(self, places: int | None = None) -> None:
        self._secret = secrets.token_bytes(32)
        self._places = places
        self._admitted: set[str] = set()
        self._removed: set[str] = set()
        self._common: frozenset[str] = frozenset()
        """Those of the admitted that other servers know of."""
        self._remembers = False

    def remember(self, secret: bytes) -> None:
        """Sign as other servers do or did, whose students then need no new cookie, nor to be admitted again."""
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

    def is_signed(self, connection: HTTPConnection) -> bool:
        """Whether its cookie was signed by this secret, whatever has become of its place."""
        return self._signed(connection) is not None

    def known_or_new(self, connection: HTTPConnection) -> str:
        """The session of a student, or of one who is to become one."""
        return self._known(connection) or _session(secrets.token_urlsafe(12))

    def seat(self, session: str) -> bool:
        """Give a place to a student who has none; False where all are taken."""
        name = _name(session)
        if self._places is None or name in self._admitted:
            return True
        if len(self._admitted) >= self._places:
            return False
        self._admitted.add(name)
        return True

    def has_place(self, session: str) -> bool:
        """Whether a student has a place, where there are places."""
        return self._places is None or _name(session) in self._admitted

    def keep(self, connection: HTTPConnection, response: Response, session: str) -> None:
        """Have a browser keep that it is this student."""
        response.headers.append("set-cookie", self._cookie(connection, _name(session)))

    def remove(self, session: str) -> None:
        """Take a student's place, whose cookie holds no more."""
        name = _name(session)
        if name in self._admitted:
            self._admitted.remove(name)
            self._removed.add(name)

    def document(self) -> dict[str, Any]:
        """Who has a place and whose was taken, for servers with the same secret."""
        return {"admitted": sorted(self._admitted), "removed": sorted(self._removed)}

    def merge(self, admitted: Collection[str], removed: Collection[str]) -> None:
        """Take over what such servers know; who has come here alone keeps a place as far as there is one."""
        here_alone = sorted(self._admitted - self._common)
        self._common = frozenset(admitted)
        self._removed |= set(removed)
        self._admitted = set(admitted) - self._removed
        for name in here_alone:
            if name not in self._removed:
                self.seat(_session(name))

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
        name = self._signed(connection)
        return _session(name) if name is not None and self._may_come(name) else None

    def _signed(self, connection: HTTPConnection) -> str | None:
        name, _, signature = connection.cookies.get(COOKIE, "").partition(".")
        return name if hmac.compare_digest(signature.encode(), self._signature(name).encode()) else None

    def _may_come(self, name: str) -> bool:
        """Whether a student has a place, or was given one by another server and there is still one left."""
        if self._remembers and name not in self._removed:
            return self.seat(_session(name))
        return self.has_place(_session(name))

    def _signature(self, name: str) -> str:
        return hmac.digest(self._secret, name.encode(), "sha256").hex()


_STUDENT = "student "


def _session(name: str) -> str:
    return f"{_STUDENT}{name}"


def _name(session: str) -> str:
    return session.removeprefix(_STUDENT)


def is_student(session: str) -> bool:
    """Whether a session is that of a student, not of an address."""
    return session.startswith(_STUDENT)


def address(connection: HTTPConnection) -> str:
    """The session of what has no cookie."""
    return f"address {group(connection.client.host if connection.client else '')}"
