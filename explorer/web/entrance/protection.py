"""What stands between the network and the application: response headers, body limit, same origin, known host."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
import socket
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorer.web import limits
from explorer.web.compiling import refusal

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""What a browser on this computer calls a server that listens to this computer alone."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def content_security_policy(nonce: str) -> str:
    """Everything from this server only, nothing inline but a style element that carries the nonce.

    `connect-src 'self'` covers the WebSocket of the same host (CSP level 3).
    """
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def security_headers(nonce: str) -> dict[str, str]:
    """The headers that every response carries."""
    return {
        "Content-Security-Policy": content_security_policy(nonce),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from this server's own page, or from no page at all (a script, `curl`).

    The scheme is not compared: behind a proxy that ends TLS the two sides see different ones.
    """
    origin = headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


ANY_NAME = "*"
"""What takes the place of a name where the server goes by any."""


@dataclass(frozen=True)
class NamesAndAddresses:
    """The names that a server goes by, and every address."""

    names: frozenset[str]

    def __contains__(self, host: object) -> bool:
        return host in self.names or _is_address(str(host))


def allowed_hosts(bound: str, named: Collection[str]) -> Container[str] | None:
    """The hosts that requests may name where the server listens on `bound`; None for any.

    A server must know its names: else a page of another site, whose own name is made to lead here (DNS rebinding),
    would be of the same origin as the server. One that listens to others too is also reached by its addresses, which
    it need not know, since no site has an address for a name.
    """
    if ANY_NAME in named:
        return None
    names = LOOPBACK_NAMES | {_host_name(name) for name in named}
    if bound in LOOPBACK_NAMES or _is_loopback(bound):
        return names | {bound.lower()}
    return NamesAndAddresses(names | {bound.lower(), socket.gethostname().lower()})


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """A Host header's name without port and brackets; empty where it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class KnownHosts:
    """Refuses requests and WebSockets whose Host is not one of `hosts`; None lets all pass."""

    def __init__(self, app: ASGIApp, hosts: Container[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = scope["type"] not in ("http", "websocket") or self._hosts is None
        if known or _host_name(Headers(scope=scope).get("host", "")) in (self._hosts or ()):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            hint = "Open it by the address that `explorer serve` printed, or allow the name with --allow-host."
            await _refuse(send, 403, "This server does not go by the name in the address.", hint)


class SecurityHeaders:
    """Adds the policy headers to every response; templates find the nonce in `request.state.csp_nonce`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["csp_nonce"] = nonce

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(security_headers(nonce))
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self._app(scope, receive, send_with_headers)


class RequestLimits:
    """Refuses writes from other origins and bodies that are too large or too slow, before anything reads them. Those of
    the `streamed` paths are left to who answers there, as they come."""

    def __init__(
        self, app: ASGIApp, body_bytes: int = limits.BODY_BYTES, streamed: Collection[str] = frozenset()
    ) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        if not same_origin(Headers(scope=scope)):
            hint = "Open the explorer's own page; a proxy before it must forward the Host header with its port."
            await _refuse(send, 403, "This request comes from a page of another site.", hint)
            return
        if scope["path"] in self._streamed:
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(limits.BODY_SECONDS):
                body = await self._read(receive)
        except TimeoutError:
            await _refuse(send, 408, f"The request's body took more than {limits.BODY_SECONDS:.0f} s to arrive.")
            return
        if body is None:
            kib = self._body_bytes // 1024
            await _refuse(
                send, 413, f"The request is larger than {kib} KiB.", "A program may have 64 KiB: send a shorter one."
            )
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large, after reading a good part of the rest.

        A client that is still sending when the connection closes would see a broken pipe, not the answer.
        """
        body = bytearray()
        total = 0
        more = True
        while more and total <= limits.DRAIN_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            chunk = message.get("body", b"")
            total += len(chunk)
            if total <= self._body_bytes:
                body += chunk
            more = message.get("more_body", False)
        return bytes(body) if total <= self._body_bytes else None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once and then whatever the server says next."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, status: int, message: str, detail: str = "") -> None:
    body = json.dumps(refusal(message, detail)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
