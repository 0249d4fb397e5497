"""Who is the instructor: a browser that has shown the server's token once, and keeps a cookie for it."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections import OrderedDict, deque
from pathlib import Path
from time import monotonic

from starlette.requests import HTTPConnection

from explorer.web import limits
from explorer.web.entrance.students import address

COOKIE = "explorer-instructor"
PATH = "/instructor"
SHORTEST = 16
"""Characters of a token from a file: fewer could be guessed."""


class TokenFileError(Exception):
    """A token's file is of no use; the message says why."""


def read_token(path: Path) -> str:
    """The token that a file holds, without the spaces around it. Raises TokenFileError."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise TokenFileError(f"{path}: {reason}") from None
    if len(token) < SHORTEST:
        raise TokenFileError(f"{path}: a token has at least {SHORTEST} characters")
    return token


def token_of(secret: bytes) -> str:
    """The token of the servers that have a secret in common."""
    digest = hmac.digest(secret, b"the instructor's token", "sha256")
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


class Tries:
    """Counts wrong tries by address: once there are too many, none is looked at until some are forgotten."""

    def __init__(self, most: int, seconds: float = limits.WRONG_SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def are_too_many(self, who: str) -> bool:
        """Whether an address has to wait."""
        times = self._wrong.get(who, deque())
        while times and times[0] <= monotonic() - self._seconds:
            times.popleft()
        return len(times) >= self._most

    def note(self, who: str) -> None:
        """A wrong try; of too many addresses, that whose last is oldest is forgotten."""
        times = self._wrong.setdefault(who, deque(maxlen=self._most))
        times.append(monotonic())
        self._wrong.move_to_end(who)
        if len(self._wrong) > limits.TRIED_ADDRESSES:
            self._wrong.popitem(last=False)


class Secret:
    """A word that is asked for: compared in constant time, and not at all for who was wrong too often."""

    def __init__(self, word: str, most_wrong: int = limits.WRONG_TRIES) -> None:
        self._word = word.encode()
        self._tries = Tries(most_wrong)

    def is_held_off(self, connection: HTTPConnection) -> bool:
        """Whether its address was wrong too often."""
        return self._tries.are_too_many(address(connection))

    def fits(self, connection: HTTPConnection, word: str) -> bool:
        """Whether it is the word; a wrong one is counted."""
        if self.is_held_off(connection):
            return False
        # "surrogatepass": half a surrogate pair is a wrong word, and no reason to fail.
        if hmac.compare_digest(word.encode("utf-8", "surrogatepass"), self._word):
            return True
        self._tries.note(address(connection))
        return False


class Instructor:
    """The token of one server, or of several with the same, and the cookie of who has shown it."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self.secret = Secret(self.token)
        # Of the token, so that all servers that were given the same one know the browser.
        self._key = hmac.digest(self.token.encode(), b"the instructor's cookie", "sha256").hex()

    def is_here(self, connection: HTTPConnection) -> bool:
        """Whether a request comes from the instructor's browser."""
        shown = connection.cookies.get(COOKIE, "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._key.encode())

    def cookie(self, connection: HTTPConnection) -> str:
        """The `Set-Cookie` of who has shown the token."""
        secure = "; Secure" if connection.scope["scheme"] == "https" else ""
        kept = f"Path={PATH}; Max-Age={limits.INSTRUCTOR_SECONDS}; HttpOnly; SameSite=Strict{secure}"
        return f"{COOKIE}={self._key}; {kept}"
