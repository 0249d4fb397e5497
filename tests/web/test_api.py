"""The JSON API as a script uses it, and what it says to requests that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from socket import gethostname
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from explorer.checkout import CHECKOUT
from explorer.compiler.pipeline import STAGES
from explorer.web import api
from explorer.web.entrance.protection import allowed_hosts
from tests.web.test_socket import LONG


def post(client: TestClient, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    response = client.post(path, json=body)
    return response.status_code, response.json()


def test_compile_answers_what_the_command_line_prints(client: TestClient, transe: str) -> None:
    status, answer = post(client, "/api/compile", text=transe, sizes={"D": 33}, options={"negatives": "head:4"})
    assert status == 200
    assert answer["ok"]
    assert answer["name"] == "TransE"
    assert answer["sizes"] == {"D": 33}
    assert answer["options"]["negatives"] == "head:4"
    assert [stage["name"] for stage in answer["stages"]] == [spec.name for spec in STAGES]


def test_what_is_answered_is_taken_back(client: TestClient, transe: str) -> None:
    """Every option and every size, by each way in; one option more than there are is one that nobody knows."""
    dims = ", ".join(f"D{number} = {number}" for number in range(1, 1_200))
    text = f"dim {dims}\n{transe}"
    _, answer = post(client, "/api/compile", text=text, stages=["graph"])
    settings = {"sizes": answer["sizes"], "options": answer["options"]}
    status, again = post(client, "/api/compile", text=text, stages=["graph"], **settings)
    assert (status, again["diagnostics"]) == (200, [])
    status, ran = post(client, "/api/run", text=text, on="cpu", data="tiny.tsv", batch=2, repeat=1, **settings)
    assert (status, ran.get("message")) == (200, "")
    assert (ran["sizes"], ran["options"]) == (answer["sizes"], answer["options"])
    form = {"edit": "1", "text": text, "sizes": json.dumps(settings["sizes"])}
    form |= {"options": json.dumps(settings["options"]), "against": json.dumps(settings)}
    assert client.post("/compile", data=form).status_code == 200
    unknown = {**answer["options"], "colour": "red"}
    status, refused = post(client, "/api/compile", text=transe, options=unknown)
    assert status == 422
    assert "'options'" in refused["diagnostics"][0]["message"]


def test_a_layers_costs_are_counted_on_the_graph_that_is_named(client: TestClient) -> None:
    text = (CHECKOUT / "examples/rgnn/rgat.emb").read_text()
    for data, told in (("aifb", "aifb (7,262 nodes, 48,810 edges"), ("", "assumed sizes")):
        _, answer = post(client, "/api/compile", text=text, stages=["graph"], data=data)
        assert any(told in report["summary"] for report in answer["stages"][0]["passes"])
    status, answer = post(client, "/api/compile", text=text, stages=["graph"], data="/etc/passwd")
    assert status == 422
    assert "There is no data '/etc/passwd' here" in answer["diagnostics"][0]["message"]


def test_compile_makes_only_the_stages_asked_for(client: TestClient, transe: str) -> None:
    _, answer = post(client, "/api/compile", text=transe, stages=["loops"])
    assert [stage["name"] for stage in answer["stages"]] == ["loops"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("E[h] +", "E[h) +"), 5),
        (("E[h]", "Emb[h]"), 5),
        (("R[relation, D]", "R[relation, 32]"), 5),
        (("E[h]", "E[r]"), 5),
        (("E[h]", "(" * 10_000 + "E[h]" + ")" * 10_000), 5),
        (("TransE(", "<script>alert(1)</script>("), 2),
    ],
    ids=["syntax", "name", "shape", "index", "parentheses", "script"],
)
def test_a_bad_model_answers_with_diagnostics(
    change: tuple[str, str], line: int, client: TestClient, transe: str
) -> None:
    status, answer = post(client, "/api/compile", text=transe.replace(*change))
    assert status == 200
    assert answer["ok"] is False
    first = answer["diagnostics"][0]
    assert first["line"] == line
    assert first["column"] >= 1
    assert first["message"]
    status, answer = post(client, "/api/run", text=transe.replace(*change), on="cpu")
    assert status == 422
    assert answer["ok"] is False
    assert answer["diagnostics"][0] == first


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"text": "\xff"}', "not UTF-8 text: byte 0xff at offset 10"),
        (b'{"text": "x"', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"null", "not a JSON object"),
        (b"{}", "'text'"),
        (b'{"text": 3}', "'text'"),
        (b'{"text": "\\ud800"}', "surrogate"),
        (b'{"text": "x", "sizes": {"D": "64"}}', "'sizes.D'"),
        (b'{"text": "x", "sizes": {"D": ' + b"9" * 5000 + b"}}", "not JSON"),
        (b'{"text": "x", "stages": ["slx"]}', "no stage 'slx'"),
        (b'{"text": "x", "colour": "red"}', "'colour'"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong(body: bytes, words: str, client: TestClient) -> None:
    response = client.post("/api/compile", content=body)
    answer = response.json()
    assert response.status_code == 422
    assert answer["ok"] is False
    assert words in answer["diagnostics"][0]["message"]
    assert "Traceback" not in response.text


def test_a_body_of_10_mb_is_refused(client: TestClient) -> None:
    response = client.post("/api/compile", content=b"x" * 10_000_000)
    assert response.status_code == 413
    assert "larger than 256 KiB" in response.json()["diagnostics"][0]["message"]


def test_a_large_body_without_a_length_is_refused(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    assert client.post("/api/compile", content=chunks()).status_code == 413


@pytest.mark.parametrize("target", ["cpu", "dae"])
def test_run_answers_one_checked_result(target: str, client: TestClient, transe: str) -> None:
    status, answer = post(client, "/api/run", text=transe, on=target, batch=64, repeat=3, data="tiny.tsv")
    assert status == 200, answer
    assert answer["ok"]
    assert answer["matches_reference"] is True
    assert answer["data"]["name"] == "tiny.tsv"
    assert answer["rows_checked"] == 64


def test_run_streams_events_where_accept_asks_for_them(client: TestClient, transe: str) -> None:
    body = {"text": transe, "on": "cpu", "batch": 64, "repeat": 4}
    with client.stream("POST", "/api/run", json=body, headers={"accept": "application/x-ndjson"}) as response:
        events = [json.loads(line) for line in response.iter_lines()]
    kinds = [event["event"] for event in events]
    assert kinds.count("sample") == 4
    assert kinds[-1] == "result"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"on": "tpu"}, "'on'"),
        ({"batch": 65_537}, "'batch'"),
        ({"batch": 0}, "'batch'"),
        ({"repeat": 1_001}, "'repeat'"),
        ({"sizes": {"D": 10**9}}, "not 1,000,000,000"),
        ({"sizes": {"D": 65_000}}, "GiB"),
        ({"data": "/etc/passwd"}, "no data set '/etc/passwd'"),
        ({"data": "../tiny.tsv"}, "no data set"),
        ({"on": "gpu"}, "GPU"),
        ({"options": {"negatives": "tail:0"}}, "negatives take 1 to"),
        ({"seed": True}, "'seed'"),
    ],
)
def test_a_run_out_of_bounds_is_refused(change: dict[str, Any], words: str, client: TestClient, transe: str) -> None:
    status, answer = post(client, "/api/run", **{"text": transe, "on": "cpu", **change})
    assert status == 422
    assert answer["ok"] is False
    assert words in answer["message"]


def test_a_run_over_its_time_is_stopped(client: TestClient, limits_of: Callable[..., None]) -> None:
    limits_of(run_seconds=0.5)
    status, answer = post(client, "/api/run", on="cpu", **LONG)
    assert status == 504
    assert answer["kind"] == "timeout"
    assert "0.5 s" in answer["message"]


def test_a_compilation_over_its_time_is_a_refusal(
    client: TestClient, transe: str, limits_of: Callable[..., None]
) -> None:
    limits_of(compile_seconds=0.001)
    status, answer = post(client, "/api/compile", text=transe)
    assert status == 200
    assert answer["ok"] is False
    assert "0.001 s" in answer["diagnostics"][0]["message"]
    assert answer["diagnostics"][0]["line"] is None


def test_stages_examples_and_data_are_listed(client: TestClient) -> None:
    stages = client.get("/api/stages").json()
    levels = ["slc", "slc.opt1", "slc.opt2", "slc.opt3"]
    assert [stage["name"] for stage in stages] == ["graph", "loops", *levels, "dlc", "kernels", "cuda", "ptx", "sass"]
    assert all(stage["title"] and stage["summary"] for stage in stages)
    examples = client.get("/api/examples").json()
    assert {"transe_l1", "transr"} <= {example["name"] for example in examples}
    names = [entry["name"] for entry in client.get("/api/data").json()]
    assert names == ["tiny.tsv", "FB15k", "FB15k-237", "BioKG", "WN18"]
    graphs = client.get("/api/data?family=layer").json()
    assert {"fb15k", "mag", "tiny.tsv"} <= {entry["name"] for entry in graphs}
    assert all(entry["edges"] > 0 for entry in graphs)
    assert client.get("/api/data?family=none").status_code == 422


def test_health_says_when_runs_are_warm(client: TestClient, transe: str) -> None:
    status, _ = post(client, "/api/run", text=transe, on="cpu", batch=8, repeat=1)
    assert status == 200
    assert client.get("/healthz").json() == {"status": "ok", "warm": True}


def test_every_answer_carries_the_policy(client: TestClient) -> None:
    for response in (client.get("/"), client.get("/healthz"), client.get("/nowhere"), client.post("/api/run")):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


def test_static_files_are_revalidated_or_kept_by_version(client: TestClient) -> None:
    plain = client.get("/static/icon.svg")
    assert plain.status_code == 200
    assert plain.headers["cache-control"] == "no-cache"
    again = client.get("/static/icon.svg", headers={"if-none-match": plain.headers["etag"]})
    assert again.status_code == 304
    assert "immutable" in client.get("/static/icon.svg?v=1").headers["cache-control"]
    for path in ("/static/../pyproject.toml", "/static/%2e%2e/pyproject.toml", "/static/none.js?v=1"):
        missing = client.get(path)
        assert missing.status_code == 404
        assert "immutable" not in missing.headers["cache-control"]


def test_the_pages_style_nonce_is_new_each_time(client: TestClient) -> None:
    policies = {client.get("/healthz").headers["content-security-policy"] for _ in range(3)}
    assert len(policies) == 3


def test_writes_from_another_site_are_refused(client: TestClient, transe: str) -> None:
    body = {"text": transe}
    refused = client.post("/api/compile", json=body, headers={"origin": "http://evil.example"})
    assert refused.status_code == 403
    own = client.post("/api/compile", json=body, headers={"origin": "http://testserver"})
    assert own.status_code == 200


def test_head_is_answered_as_get_without_a_body(client: TestClient) -> None:
    for path in ("/", "/healthz", "/api/stages", "/static/icon.svg"):
        assert client.head(path).status_code == 200, path
    assert client.head("/api/run").status_code == 405


def test_a_file_in_place_of_the_text_gets_a_sentence(client: TestClient) -> None:
    response = client.post("/compile", files={"text": ("a.emb", b"secret")}, data={"edit": "1"})
    assert response.status_code == 422
    answer = response.json()
    assert answer["diagnostics"][0]["message"] == "The field 'text' is wrong: input should be a valid string."
    assert "UploadFile" not in response.text
    assert "secret" not in response.text


def test_a_name_that_the_server_does_not_go_by_is_refused(client: TestClient) -> None:
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", ""):
        refused = client.get("/", headers={"host": host})
        assert refused.status_code == 403, host
        assert "--allow-host" in refused.json()["diagnostics"][0]["detail"]
        assert "content-security-policy" in refused.headers
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws", headers={"host": "evil.example"}):
        pass


@pytest.mark.parametrize(
    ("bound", "named", "known", "unknown"),
    [
        ("127.0.0.1", [], ["localhost", "127.0.0.1", "::1"], ["evil.example", ""]),
        ("127.0.0.2", [], ["127.0.0.2", "localhost"], ["127.0.0.3"]),
        ("localhost", ["Box.Example:80"], ["localhost", "box.example"], ["evil.example"]),
        ("0.0.0.0", ["box.example"], ["box.example", "localhost", "192.0.2.1"], ["evil.example", ""]),
        ("0.0.0.0", [], ["127.0.0.1", "2001:db8::1", gethostname().lower()], ["evil.example", "192.0.2.1.example"]),
        ("box.example", [], ["box.example"], ["evil.example"]),
    ],
)
def test_a_server_knows_its_names(bound: str, named: list[str], known: list[str], unknown: list[str]) -> None:
    hosts = allowed_hosts(bound, named)
    assert hosts is not None
    assert all(name in hosts for name in known)
    assert not any(name in hosts for name in unknown)


def test_a_server_takes_any_name_where_that_is_asked_for() -> None:
    assert allowed_hosts("0.0.0.0", ["*"]) is None


def test_a_fault_of_the_server_is_a_sentence(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setitem(api.AVAILABLE, "score", broken)
    quiet = TestClient(client.app, raise_server_exceptions=False)
    response = quiet.get("/api/data")
    assert response.status_code == 500
    assert "failed to answer" in response.json()["diagnostics"][0]["message"]
    assert "secret" not in response.text
    assert "content-security-policy" in response.headers


def test_whole_graphs_are_offered_where_there_is_a_gpu(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered() -> set[str]:
        return {entry["name"] for entry in client.get("/api/data?family=op").json()}

    assert not {"arxiv", "products", "wiki-Talk"} & offered()
    monkeypatch.setattr("explorer.web.api.TARGETS", {"gpu": SimpleNamespace(missing=lambda: "")})
    assert {"arxiv", "products", "wiki-Talk", "com-Youtube/500"} <= offered()
