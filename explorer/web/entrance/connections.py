"""Connections to the server, with bounds that uvicorn has not: on the time and the bytes of a request's head, on how
long an answer may wait for a client that does not read it, and on how many connections there are.

A connection on which a whole request is waited for costs a file descriptor, and a process has so many. Where there are
too many, the one that has waited for longest goes, of the address that has most of those: many that never finish asking
lock nobody out, and a class behind one address may have as many as nobody else needs.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import defaultdict
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from explorer.web import limits
from explorer.web.entrance.addresses import group
from explorer.web.shared.among import Among, share


class Doorkeeper:
    """Makes the connections of one server (uvicorn's `http`), and knows on which a whole request is waited for."""

    def __init__(self, most: int, head_seconds: float = limits.HEAD_SECONDS) -> None:
        self.most = most
        self.head_seconds = head_seconds
        self._waiting: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        """By address, those that have waited for longest first."""

    def __call__(self, *args: Any, **kwargs: Any) -> Connection:
        return Connection(self, *args, **kwargs)

    def wait(self, connection: Connection) -> None:
        self._waiting[connection.address][connection] = None

    def forget(self, connection: Connection) -> None:
        own = self._waiting.get(connection.address, {})
        own.pop(connection, None)
        if not own:
            self._waiting.pop(connection.address, None)

    def make_room(self) -> bool:
        """End the connection that has waited for longest, of the address with most that wait; False if none does."""
        if not self._waiting:
            return False
        crowd = max(self._waiting.values(), key=len)
        next(iter(crowd)).abort()
        return True


class Connection(HttpToolsProtocol):
    """Uvicorn's HTTP connection, which has so long for a whole head from when it is made, and from each answer on.

    How long a body may take is the application's to say.
    """

    def __init__(self, doorkeeper: Doorkeeper, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self._doorkeeper = doorkeeper
        self._alarm: asyncio.TimerHandle | None = None
        """While a head is waited for."""
        self._head_bytes = 0

    def abort(self) -> None:
        """End it at once, whatever is still to be sent."""
        self._end_waiting()
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = group(self.client[0] if self.client else "")
        if len(self.connections) <= self._doorkeeper.most or self._doorkeeper.make_room():
            self._wait()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._alarm is not None:
            self._head_bytes += len(data)
            if self._head_bytes > limits.HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The parser's word that a head is whole."""
        self._stop_alarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The parser's word that a request is whole."""
        self._doorkeeper.forget(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Unless the next request, which came before this one's answer, is already being answered.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait()

    def _wait(self) -> None:
        self._head_bytes = 0
        self._alarm = self.loop.call_later(self._doorkeeper.head_seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT)
        self._doorkeeper.wait(self)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_waiting(self) -> None:
        self._stop_alarm()
        self._doorkeeper.forget(self)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer a head that is none, and end the connection; where nothing came, there is nothing to answer."""
        self._end_waiting()
        if self._head_bytes and not self.transport.is_closing():
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(line.encode())
        self.transport.close()


def most_connections(among: Among | None = None) -> int:
    """How many connections this process has files for, after it has asked for as many as it may have: its share, where
    it is one of several.

    What it opens besides is a few for each worker and whatever is being served.
    """
    connections = share(limits.CONNECTIONS, among)
    wanted = connections + limits.OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    may = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (may, hard))
    return max(1, may - limits.OTHER_FILES)


def drop_stalled(listener: socket.socket, seconds: float = limits.STALL_SECONDS) -> None:
    """Have the kernel end the connections of a listener whose clients take nothing of what is sent for so long: those
    that never read, and those that went away without a word. Only Linux can; elsewhere a connection waits."""
    if hasattr(socket, "TCP_USER_TIMEOUT") and listener.family in (socket.AF_INET, socket.AF_INET6):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
