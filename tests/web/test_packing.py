"""What goes over the wire compressed: static files as they were packed, answers as they are made."""

from __future__ import annotations

import gzip
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from explorer.web.entrance.static import PackedFiles

TEXT = b"export const answer = 42;\n"


def files(folder: Path) -> TestClient:
    (folder / "a.js").write_bytes(TEXT)
    (folder / "a.js.gz").write_bytes(gzip.compress(TEXT))
    (folder / "alone.css").write_bytes(b"a {}")
    return TestClient(Starlette(routes=[Mount("/static", PackedFiles(directory=folder))]))


def test_a_file_is_sent_packed_where_the_client_takes_that(tmp_path: Path) -> None:
    client = files(tmp_path)
    packed = client.get("/static/a.js?v=1", headers={"accept-encoding": "br, gzip"})
    assert packed.content == TEXT
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-type"].startswith("text/javascript")
    assert packed.headers["vary"] == "Accept-Encoding"
    assert "immutable" in packed.headers["cache-control"]
    again = client.get("/static/a.js", headers={"accept-encoding": "gzip", "if-none-match": packed.headers["etag"]})
    assert again.status_code == 304


def test_any_other_file_and_client_gets_it_as_it_is(tmp_path: Path) -> None:
    client = files(tmp_path)
    for path, taken in (("a.js", "identity"), ("alone.css", "gzip"), ("a.js", "br")):
        plain = client.get(f"/static/{path}", headers={"accept-encoding": taken})
        assert plain.status_code == 200
        assert "content-encoding" not in plain.headers
    assert client.get("/static/../a.js", headers={"accept-encoding": "gzip"}).status_code == 404


def test_an_answer_is_packed(client: TestClient) -> None:
    packed = client.get("/", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(packed.content) / 4
    plain = client.get("/", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
