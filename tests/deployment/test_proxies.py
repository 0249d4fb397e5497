"""The explorer behind nginx and behind Caddy, by the files that are shipped: TLS, its forms and its WebSocket."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.web.serving import PATIENCE, Served, serving

pytestmark = pytest.mark.sweep
NAME = "explorer.example.edu"
PROXIES = ("nginx", "caddy")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    from explorer.web.app import create_app

    with serving(create_app(hosts=frozenset({NAME})), proxies=["127.0.0.1"]) as server:
        yield server


@pytest.fixture(params=PROXIES)
def behind(request: pytest.FixtureRequest, served: Served, root: Path, tmp_path: Path) -> Iterator[int]:
    """The port of a proxy before the server. Where it is not installed, that is said."""
    name: str = request.param
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"no {name} on this machine: apt-get install {name}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    make: Callable[[Path, Path, int, int], list[str]] = {"nginx": _nginx, "caddy": _caddy}[name]
    arguments = make(root, tmp_path, served.port, port)
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as proxy:
        try:
            _wait_for(port, proxy)
            yield port
        finally:
            proxy.terminate()


def _nginx(root: Path, folder: Path, server: int, port: int) -> list[str]:
    subject = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-nodes", "-days", "2"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, *files], check=True, capture_output=True
    )
    site = (root / "deploy" / "nginx.conf").read_text()
    for known, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/certs/explorer.pem", str(folder / "certificate")),
        ("/etc/ssl/private/explorer.key", str(folder / "key")),
        ("127.0.0.1:8000", f"127.0.0.1:{server}"),
    ):
        assert known in site
        site = site.replace(known, here)
    (folder / "site.conf").write_text(site)
    temporary = "".join(f"{each}_temp_path {folder};" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    conf = f"daemon off; pid {folder}/pid; error_log stderr; events {{}}"
    (folder / "conf").write_text(f"{conf} http {{ access_log off; {temporary} include {folder}/site.conf; }}")
    return ["-p", str(folder), "-c", str(folder / "conf"), "-e", "stderr"]


def _caddy(root: Path, folder: Path, server: int, port: int) -> list[str]:
    """Its own certificate authority stands in for the one that it would ask."""
    site = (root / "deploy" / "Caddyfile").read_text()
    for known, here in (
        (f"\n{NAME} {{\n", f"\nhttps://{NAME}:{port} {{\n\ttls internal\n"),
        ("127.0.0.1:8000", f"127.0.0.1:{server}"),
    ):
        assert known in site
        site = site.replace(known, here)
    options = "admin off\n\tskip_install_trust\n\tauto_https disable_redirects"
    storage = f"storage file_system {folder}/storage"
    (folder / "Caddyfile").write_text(f"{{\n\t{options}\n\t{storage}\n}}\n{site}")
    return ["run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def _wait_for(port: int, proxy: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if proxy.poll() is not None:
            assert proxy.stderr is not None
            pytest.fail(f"the proxy ended: {proxy.stderr.read().decode(errors='replace')[-500:]}")
        try:
            _tls(port).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the proxy does not listen")


def _trusting() -> ssl.SSLContext:
    """Takes any certificate: it is the proxy that is looked at, and nobody has signed for it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _tls(port: int) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return _trusting().wrap_socket(plain, server_hostname=NAME)


def test_the_page_its_form_and_its_socket_come_through(behind: int) -> None:
    origin = f"https://{NAME}:{behind}"
    with httpx.Client(transport=httpx.HTTPTransport(verify=_trusting()), timeout=PATIENCE) as client:
        headers, extensions = {"Host": f"{NAME}:{behind}"}, {"sni_hostname": NAME}
        address = f"https://127.0.0.1:{behind}"
        health = client.get(f"{address}/healthz", headers=headers, extensions=extensions)
        assert health.status_code == 200, health.text
        # A write is taken from a page of the same host, and from no other.
        for source, status in ((origin, 422), ("https://elsewhere.example", 403)):
            named = {**headers, "Origin": source}
            sent = client.post(f"{address}/compile", headers=named, extensions=extensions, data={"edit": "x"})
            assert sent.status_code == status, sent.text
    plain = socket.create_connection(("127.0.0.1", behind), PATIENCE)
    trusting = _trusting()
    with connect(f"wss://{NAME}:{behind}/ws", sock=plain, ssl=trusting, origin=origin, open_timeout=PATIENCE) as page:
        page.send(json.dumps({"type": "run", "run": 1, "edit": 1, "text": "a model", "on": "cpu"}))
        assert json.loads(page.recv(PATIENCE))["run"] == 1
