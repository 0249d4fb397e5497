"""Sends requests and frames over many connections at once, from many addresses, and takes down what came back."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.sweep.hostile_drawing import KNOWN, TOO_LARGE, Drawn, frames, request

BUSY = {503, 504}
OWN_FAULTS = b"Traceback", b"The explorer itself failed", b"The server failed to answer", b"Internal Server Error"
PATIENCE = 120.0
SILENCE = 0.3
"""How long to wait for an answer to what is no whole request."""
SLOW_SECONDS = 4.0
"""How long who sends or reads slowly goes on."""
DROPS = 40
AT_ONCE = 64
SOCKETS_AT_ONCE = 12
SOCKETS = 0.02
"""The share of connections that are WebSockets, each of which sends some fifteen frames."""
ADDRESSES = 150
"""Clients, each with an address of this computer's own."""
HOST = "127.0.0.1"


@dataclass
class Found:
    """What was sent, by kind, and what came back."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    busy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    pages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SOCKETS_AT_ONCE))

    @property
    def sent(self) -> int:
        """Requests and frames."""
        return self.answers.total()


@dataclass(frozen=True)
class Server:
    """Where to send, and what the instructor's cookie holds."""

    port: int
    instructor: str = ""


def address(seed: int) -> str:
    return f"127.0.1.{1 + seed % ADDRESSES}"


async def send(server: Server, seed: int, found: Found) -> None:
    """One request, or a WebSocket's frames, of that number."""
    source = random.Random(seed)
    if source.random() < SOCKETS:
        async with found.pages:
            await try_socket(server, seed, source, found)
    else:
        async with found.busy:
            await try_request(server, seed, request(source), found)


async def try_request(server: Server, seed: int, drawn: Drawn, found: Found) -> None:
    sent = drawn.sent.replace(KNOWN.encode(), server.instructor.encode(), 1)
    try:
        came = await answer(server, seed, sent, drawn.manner)
    except TimeoutError:
        if drawn.manner == "whole":
            found.faults.append(f"seed {seed}: no answer in {PATIENCE:.0f} s to {sent[:200]!r}")
        found.answers[drawn.kind, drawn.manner] += 1
        return
    status = int(came.split(b" ", 2)[1]) if came.startswith(b"HTTP/1.") else 0
    is_silent = drawn.manner == "whole" and not status
    found.answers[drawn.kind, str(status) if status else "no answer" if is_silent else drawn.manner] += 1
    if is_silent and drawn.kind != TOO_LARGE:  # of which no more is read than the server has patience for
        found.faults.append(f"seed {seed}: closed without an answer to {sent[:300]!r}")
    if (status >= 500 and status not in BUSY) or any(fault in came for fault in OWN_FAULTS):
        found.faults.append(f"seed {seed}: {came[-400:]!r} to {sent[:300]!r}")


async def answer(server: Server, seed: int, sent: bytes, manner: str) -> bytes:
    """All that comes back until the server closes. Raises TimeoutError."""
    reader, writer = await asyncio.open_connection(HOST, server.port, local_addr=(address(seed), 0))
    try:
        if manner == "unread":
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            if manner == "drip":
                await _drip(writer, sent)
                return b""
            writer.write(sent)
            await writer.drain()
        if manner in ("leave", "unread"):
            await asyncio.sleep(SLOW_SECONDS if manner == "unread" else 0)
            return b""
        async with asyncio.timeout(SILENCE if manner == "part" else PATIENCE):
            return await _rest(reader)
    finally:
        writer.transport.abort()


async def _drip(writer: asyncio.StreamWriter, sent: bytes) -> None:
    """The first bytes, one by one, as long as the server takes them."""
    for byte in sent[:DROPS]:
        if writer.is_closing():
            return
        writer.write(bytes([byte]))
        await asyncio.sleep(SLOW_SECONDS / DROPS)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while part := await reader.read(1 << 18):
            found += part
    return found


async def try_socket(server: Server, seed: int, source: random.Random, found: Found) -> None:
    """Sends frames, then one that is refused for sure: by that answer all of them have been read."""
    said, how = bytearray(), "answered"
    uri = f"ws://{HOST}:{server.port}/ws"
    try:
        async with (
            asyncio.timeout(PATIENCE),
            connect(uri, local_addr=(address(seed), 0), open_timeout=PATIENCE, max_size=None, proxy=None) as page,
        ):
            for frame in frames(source):
                await page.send(frame)
                found.answers["frame", "sent"] += 1
            if source.random() < 0.1:  # something that is no frame
                page.transport.write(source.randbytes(40))
            await _hear(page, said)
    except TimeoutError:
        found.faults.append(f"seed {seed}: a socket was silent for {PATIENCE:.0f} s after {bytes(said[-200:])!r}")
    except ConnectionClosed as closed:
        how = f"closed: {closed.rcvd.code if closed.rcvd else 'without a word'}"
    except (InvalidHandshake, OSError) as refused:  # of a handshake: too many pages at once
        how = type(refused).__name__
    found.answers["WebSocket", how] += 1
    if any(fault in said for fault in OWN_FAULTS):
        found.faults.append(f"seed {seed}: {bytes(said[-600:])!r}")


async def _hear(page: ClientConnection, said: bytearray) -> None:
    """All that a page is told until the last frame is refused."""
    await page.send(json.dumps({"type": "the last"}))
    while b"'run', 'resume' or 'cancel'" not in said[-300:]:
        said += str(await page.recv()).encode("utf-8", "replace")
