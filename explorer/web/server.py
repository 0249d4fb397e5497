"""`explorer serve`: binds the address, says where the page is, and serves until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path

import uvicorn

from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.protection import allowed_hosts


class ServeError(Exception):
    """The server cannot start; the message says why and what to do."""


def serve(host: str, port: int, data_dir: Path | None, names: Collection[str] = ()) -> None:
    """Serve until interrupted; `names` are further names that the server goes by.

    Raises ServeError when the address cannot be used or the folder is none.
    """
    if data_dir is not None and not data_dir.is_dir():
        raise ServeError(f"--data-dir {data_dir}: no such folder")
    listener = _listen(host, port)
    app = create_app(data_dir, hosts=allowed_hosts(host, names))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=limits.BODY_BYTES,
        timeout_graceful_shutdown=2,
    )
    shown = f"[{host}]" if ":" in host else host
    print(f"Embedding Compiler Explorer: http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)", flush=True)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise ServeError(f"--port takes a number from 0 to 65535, not {port}")
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # From here on a connection waits in line; refused ones would greet whoever follows the printed address at once.
        listener.listen()
    except OSError as error:
        if listener is not None:
            listener.close()
        hint = ": choose another with --port" if listener is not None else ""
        raise ServeError(f"cannot listen on {host} port {port}: {error.strerror or error}{hint}") from None
    return listener
