"""`explorer serve`: binds the address, says where the page is, and serves until it is asked to end."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from explorer.queue.job import AwayError, Queue
from explorer.store.database import AddressError
from explorer.store.store import Store
from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.entrance.addresses import address_or_network
from explorer.web.entrance.connections import Doorkeeper, drop_stalled, most_connections
from explorer.web.entrance.protection import allowed_hosts
from explorer.web.instructor.classroom import Classroom
from explorer.web.instructor.token import PATH, Instructor, TokenFileError, read_token, token_of
from explorer.web.monitoring import logs
from explorer.web.shared.among import Among

if TYPE_CHECKING:
    from explorer.queue.broker import Broker


class ServeError(Exception):
    """The server cannot start; the message says why and what to do."""


class Server(uvicorn.Server):
    """Uvicorn's server, which SIGTERM asks to let its runs end first; SIGINT, or another signal, ends it at once."""

    def __init__(
        self, app: FastAPI, doorkeeper: Doorkeeper, proxies: Collection[str] = (), own_log: bool = True
    ) -> None:
        self._app = app
        self._at_once = False
        super().__init__(
            uvicorn.Config(
                app,
                log_level="error",  # a warning is written for each request that is none, of which anyone may send many
                access_log=False,
                log_config=uvicorn.config.LOGGING_CONFIG if own_log else None,
                server_header=False,
                http=doorkeeper,  # type: ignore[arg-type]  # whatever makes connections will do
                ws_max_size=limits.BODY_BYTES,
                ws_per_message_deflate=False,  # the page's answers are not packed either: a proxy may do both
                # Without a proxy that is named, anyone could say to be anyone.
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                timeout_graceful_shutdown=2,
            )
        )

    @property
    def classroom(self) -> Classroom:
        """The class that it is for."""
        found: Classroom = self._app.state.classroom
        return found

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came."""
        self._at_once = self.should_exit or sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let runs end and take no new ones, which `/readyz` tells as well; then close everything."""
        queue: Queue = self._app.state.runs
        queue.stop_taking()
        deadline = monotonic() + limits.STOP_SECONDS
        while queue.busy and not self._at_once and monotonic() < deadline:
            await asyncio.sleep(0.1)
        await super().shutdown(sockets)


@dataclass(frozen=True)
class ClassRequest:
    """What was asked for a class: its instructor's side, a code, places, the file of the instructor's token, and the
    folder of hand-ins. Several processes of one server are told its `token`, which the first has drawn."""

    wanted: bool = False
    code: str | None = None
    size: int | None = None
    token_file: Path | None = None
    hand_ins: Path | None = None
    token: str | None = None

    def classroom(self, queue: str = "") -> Classroom:
        """The class; without an instructor where nothing was asked for. All servers of a `queue` have the same token.

        Raises ServeError.
        """
        if self.code is not None and not self.code.strip():
            raise ServeError("--class-code takes a word, not an empty one")
        if self.size is not None and self.code is None:
            raise ServeError("--class-size is for a class with a code: give one with --class-code")
        if self.size is not None and not 1 <= self.size <= limits.MOST_PLACES:
            raise ServeError(f"--class-size takes a number from 1 to {limits.MOST_PLACES}, not {self.size}")
        asked = self.wanted, self.code is not None, self.token_file is not None, self.hand_ins is not None
        if not any(asked):
            return Classroom()
        code = None if self.code is None else self.code.strip()
        instructor = Instructor(self._token(queue))
        try:
            return Classroom(instructor, code, self.size or limits.CLASS_PLACES, self.hand_ins)
        except OSError as error:
            raise ServeError(f"--hand-ins {self.hand_ins}: {error.strerror}") from None

    def _token(self, queue: str) -> str | None:
        """None where this server is to draw one of its own."""
        try:
            if self.token or self.token_file is None:
                return self.token or (_common_token(queue) if queue else None)
            return read_token(self.token_file)
        except TokenFileError as error:
            raise ServeError(f"--instructor-token-file {error}") from None


@dataclass(frozen=True)
class Settings:
    """What `explorer serve` was asked for.

    `names` are further names that the server goes by, `proxies` the addresses of those whose word is taken for where
    a request comes from, `metrics_for` those that `/metrics` answers besides this computer's own, `queue` the address
    of the queue that workers take runs from ("" for workers of the server's own), `wanted` is what was asked for a
    class, `store` where to keep what students do ("" for nowhere), `run_memory` the bytes that a process for runs may
    take, `assistants` whether programs may ask by the Model Context Protocol, `compile_peers` whether runs may be
    timed beside torch.compile, whose compilers their processes then may start. With `json_log`, the log is lines of
    JSON.
    """

    host: str
    port: int
    data_dir: Path | None = None
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    metrics_for: tuple[str, ...] = ()
    queue: str = ""
    wanted: ClassRequest = field(default_factory=ClassRequest)
    store: str = ""
    run_memory: int = limits.RUN_MEMORY
    assistants: bool = False
    compile_peers: bool = False
    json_log: bool = False


def serve(settings: Settings) -> None:
    """Serve in this process until asked to end. Raises ServeError when an address cannot be used, or as `new_server`
    does."""
    server = new_server(settings)
    listener = listen(settings.host, settings.port)
    prepare_process()
    # A signal that comes while the server still starts is heeded once it has.
    with listener, server.capture_signals():
        say_where(settings, server, listener)
        server.run(sockets=[listener])


SWITCH_SECONDS = 0.0002
"""How long a thread may hold Python's lock that another waits for: usually 5 ms, which the loop waited for a thread
that draws at each of its steps, while compile workers had nothing to do."""


def prepare_process() -> None:
    """Set this process up for many small requests beside threads that draw.

    Cycles of garbage are looked for once in twenty thousand new objects, not in seven hundred, and never among those
    that are there now. A compilation's answer is thousands of objects without a cycle, and hundreds of answers are
    kept: looking through them took twice as long as reading one."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    sys.setswitchinterval(SWITCH_SECONDS)


def new_server(settings: Settings, among: Among | None = None) -> Server:
    """The server that was asked for, or one process of it.

    Raises ServeError when the data's folder is none, a proxy or a scraper has no address, the class is asked for in a
    way that makes no sense, or no store can be there.
    """
    if settings.data_dir is not None and not settings.data_dir.is_dir():
        raise ServeError(f"--data-dir {settings.data_dir}: no such folder")
    trusted = [_address("--proxy", named) for named in settings.proxies]
    scrapers = [_address("--metrics-for", named) for named in settings.metrics_for]
    if settings.assistants and find_spec("mcp") is None:
        raise ServeError("--mcp needs the Python package mcp: pip install -e '.[mcp]'")
    if settings.compile_peers and settings.queue:
        raise ServeError("--compile-peers goes without --queue: workers of a queue have no torch.compile")
    broker = _broker(settings.queue) if settings.queue else None
    classroom = settings.wanted.classroom(settings.queue)
    app = create_app(
        settings.data_dir,
        hosts=allowed_hosts(settings.host, settings.names),
        broker=broker,
        run_memory=settings.run_memory,
        assistants=settings.assistants,
        compile_peers=settings.compile_peers,
        draw_ahead=True,
        among=among,
        classroom=classroom,
        metrics_for=scrapers,
        store=_store(settings.store) if settings.store else None,
        quiet=settings.json_log,  # what workers write of their own faults is no JSON, and may quote a text
    )
    if settings.json_log:
        logs.write_json()
    return Server(app, Doorkeeper(most_connections(among)), trusted, own_log=not settings.json_log)


def say_where(settings: Settings, server: Server, listener: socket.socket) -> None:
    """Print where the page is, and where the instructor's."""
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{shown}:{listener.getsockname()[1]}"
    print(f"Embedding Compiler Explorer: {address}/ (Ctrl-C stops it)", flush=True)
    instructor = server.classroom.instructor
    if instructor is not None:
        token = "" if settings.wanted.token_file else f"?token={instructor.token}"
        print(f"Instructor: {address}{PATH}{token}", flush=True)


def _address(option: str, named: str) -> str:
    try:
        return address_or_network(named)
    except ValueError:
        raise ServeError(f"{option} takes an address or a network, as in 10.0.0.0/8, not '{named[:80]}'") from None


def _common_token(queue: str) -> str:
    from explorer.queue.classes import common_secret  # which needs redis-py

    try:
        return token_of(asyncio.run(common_secret(queue)))
    except AwayError:
        hint = "start it first, or give the token with --instructor-token-file"
        raise ServeError(f"--queue: the queue, by which all servers have one token, does not answer: {hint}") from None


def _broker(queue: str) -> Broker:
    try:
        from explorer.queue.broker import Broker, connect

        return Broker(connect(queue), limits.RUNS_WAITING, limits.RUNS_WAITING_PER_STUDENT)
    except ImportError:
        raise ServeError("--queue needs the Python package redis: pip install -e '.[queue]'") from None
    except ValueError as error:
        raise ServeError(f"--queue takes redis://HOST:PORT or unix:///PATH, not '{queue[:80]}': {error}") from None


def _store(address: str) -> Store:
    try:
        return Store(address)
    except AddressError as error:
        raise ServeError(f"--store: {error}") from None  # without the address, which may have a password


def listen(host: str, port: int) -> socket.socket:
    """A socket on which connections wait from now on. Raises ServeError."""
    if not 0 <= port <= 65_535:
        raise ServeError(f"--port takes a number from 0 to 65535, not {port}")
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        drop_stalled(listener)
        listener.bind(address)
        # From here on a connection waits in line; refused ones would greet whoever follows the printed address at once.
        listener.listen()
    except OSError as error:
        if listener is not None:
            listener.close()
        hint = ": choose another with --port" if listener is not None else ""
        raise ServeError(f"cannot listen on {host} port {port}: {error.strerror or error}{hint}") from None
    return listener
