"""What the API says of itself holds for what it answers: models that describe are used for nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from explorer.checkout import CHECKOUT
from explorer.runtime.runs import events
from explorer.store.store import Store
from explorer.tuner import shipped
from explorer.web import api, health, limits, runs
from explorer.web.app import create_app
from explorer.web.description import answers
from explorer.web.description.events import AnyEvent, PageEvent
from explorer.web.instructor.classroom import Classroom
from explorer.web.keeping import routes as keeping
from explorer.web.messages import CompileMessage, RunMessage, RunOrder
from tests.web.serving import Gate

REFERENCES = "#/components/schemas/"


@pytest.fixture(scope="session")
def described(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/openapi.json").json()
    return found


def hold(described: dict[str, Any], path: str, status: int, answer: Any, method: str = "post") -> None:
    """The answer is what the description says of one of this status."""
    content = described["paths"][path][method]["responses"][str(status)]["content"]["application/json"]
    # As JSON, where numbers are what they are when they arrive.
    schema = {**content["schema"], "components": described["components"]}
    jsonschema.validate(json.loads(json.dumps(answer)), schema)


def test_every_route_is_described_once(described: dict[str, Any]) -> None:
    routers = (api, runs, health, keeping)
    routes = [route for each in routers for route in each.router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} <= set(described["paths"])
    assert {path for path in described["paths"] if not path.startswith("/api/")} == {"/healthz", "/readyz", "/metrics"}
    operations = [operation for path in described["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all("403" in operation["responses"] for operation in operations)
    assert not any("HTTPValidationError" in name for name in described["components"]["schemas"])


def test_every_reference_leads_somewhere(described: dict[str, Any], client: TestClient) -> None:
    for document in (described, client.get("/api/messages.json").json()):
        text = json.dumps(document)
        named = {part.partition('"')[0] for part in text.split('"$ref": "#')[1:]}
        assert named
        for each in named:
            found = document
            for step in each.strip("/").split("/"):
                found = found[step]


def test_limits_are_in_the_description(described: dict[str, Any]) -> None:
    of_run = described["components"]["schemas"]["RunMessage"]["properties"]
    assert of_run["text"]["maxLength"] == limits.BODY_BYTES
    assert (of_run["batch"]["minimum"], of_run["batch"]["maximum"]) == (1, limits.MAX_BATCH)
    assert of_run["repeat"]["maximum"] == limits.MAX_REPEAT
    assert described["components"]["schemas"]["CompileMessage"]["additionalProperties"] is False


@pytest.mark.parametrize(("path", "kind"), [("/api/compile", CompileMessage), ("/api/run", RunMessage)])
def test_what_is_given_as_an_example_is_taken(
    path: str, kind: type[Any], described: dict[str, Any], client: TestClient
) -> None:
    body = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    jsonschema.validate(body["example"], {**body["schema"], "components": described["components"]})
    assert kind.model_validate(body["example"])
    response = client.post(path, json=body["example"])
    assert response.json()["ok"]
    hold(described, path, 200, response.json())


@pytest.mark.parametrize(
    ("example", "stages"),
    [("kge/transe_l1", None), ("rgnn/rgat", ["graph", "dlc"]), ("embedding/spmm", ["loops", "kernels"])],
)
def test_a_compilation_is_as_described(
    example: str, stages: list[str] | None, described: dict[str, Any], client: TestClient
) -> None:
    text = (CHECKOUT / f"examples/{example}.emb").read_text()
    response = client.post("/api/compile", json={"text": text, "stages": stages, "options": {"grad": True}})
    assert response.json()["ok"]
    hold(described, "/api/compile", 200, response.json())
    answers.Compilation.model_validate(response.json(), strict=True)
    broken = client.post("/api/compile", json={"text": f"{text}\n)"}).json()
    assert not broken["ok"]
    hold(described, "/api/compile", 200, broken)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/api/compile", b'{"text": 3}', {}, 422),
        ("/api/compile", b"[" * (limits.BODY_BYTES + 1), {}, 413),
        ("/api/compile", b"{}", {"Origin": "http://elsewhere.example"}, 403),
        ("/api/run", b"{}", {}, 422),
        ("/api/run", b'{"text": ")", "on": "cpu"}', {}, 422),
        ("/api/run", b'{"text": "x", "on": "cpu", "data": "/etc/passwd"}', {}, 422),
        ("/api/run", b"{}", {"Host": "elsewhere.example"}, 403),
    ],
)
def test_a_refusal_is_as_described(
    path: str, body: bytes, headers: dict[str, str], status: int, described: dict[str, Any], client: TestClient
) -> None:
    response = client.post(path, content=body, headers=headers)
    assert response.status_code == status
    hold(described, path, status, response.json())


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/healthz", "", 200),
        ("/api/stages", "", 200),
        ("/api/examples", "", 200),
        *(("/api/data", f"?family={family}", 200) for family in ("score", "layer", "op")),
        ("/api/data", "?family=none", 422),
        ("/api/locality", "?data=RM1:L0", 200),
        ("/api/locality", "?data=none", 404),
        ("/api/locality", "", 422),
    ],
)
def test_what_is_there_is_as_described(
    path: str, query: str, status: int, described: dict[str, Any], client: TestClient
) -> None:
    response = client.get(path + query)
    assert response.status_code == status
    hold(described, path, status, response.json(), "get")


def test_what_a_store_answers_is_as_described(described: dict[str, Any], tmp_path: Path, transe: str) -> None:
    app = create_app(hosts=frozenset({"testserver"}), store=Store(str(tmp_path / "store.db")))
    with TestClient(app) as client:
        client.get("/")  # the cookie of a student
        shared = client.post("/api/share", json={"text": transe, "sizes": {"D": 4}})
        hold(described, "/api/share", 200, shared.json())
        hold(described, "/api/share", 422, client.post("/api/share", json={"texts": ""}).json())
        with client.websocket_connect("/ws") as page:
            page.send_json({"type": "run", "run": 1, "text": transe, "on": "cpu", "batch": 4, "repeat": 2})
            while not events.is_last(page.receive_json()):
                pass
        for path in ("/api/history", "/api/runs"):
            found = client.get(path).json()
            assert found["entries"]
            hold(described, path, 200, found, "get")
        name = client.get("/api/runs").json()["entries"][0]["id"]
        hold(described, "/api/runs/{name}", 200, client.get(f"/api/runs/{name}").json(), "get")
        hold(described, "/api/runs/{name}", 404, client.get("/api/runs/none").json(), "get")
        assert client.delete("/api/history").status_code == 204


def test_that_nothing_is_kept_is_as_described(described: dict[str, Any], client: TestClient, transe: str) -> None:
    hold(described, "/api/share", 404, client.post("/api/share", json={"text": transe}).json())
    hold(described, "/api/history", 404, client.get("/api/history").json(), "get")


def test_a_path_says_all_methods_that_it_takes(client: TestClient) -> None:
    assert client.options("/api/history").headers["allow"] == "DELETE, GET, HEAD"
    assert client.get("/api/compile").headers["allow"] == "POST"
    assert client.delete("/api/runs/none").status_code == 405


def test_what_is_shared_is_what_the_page_would_share(described: dict[str, Any], client: TestClient) -> None:
    response = client.post("/api/share", json={"text": "x", "panes": [{"stage": "graph", "decisions": 0}]})
    assert response.status_code == 422
    hold(described, "/api/share", 422, response.json())


def test_a_full_queue_is_as_described(
    described: dict[str, Any], client: TestClient, transe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.app.state.runs, "has_room", lambda session: False)  # type: ignore[attr-defined]
    response = client.post("/api/run", json={"text": transe, "on": "cpu"})
    assert response.status_code == 503
    hold(described, "/api/run", 503, response.json())


@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_the_events_of_a_run_are_as_described(on: str, client: TestClient, transe: str) -> None:
    schema = client.get("/api/messages.json").json()
    jsonschema.Draft202012Validator.check_schema(schema)
    order = {"type": "run", "run": 7, "edit": 3, "text": transe, "on": on, "batch": 4, "repeat": 2, "data": "tiny.tsv"}
    jsonschema.validate(order, schema)
    assert RunOrder.model_validate(order)
    kinds = set()
    with client.websocket_connect("/ws") as page:
        page.send_json(order)
        while True:
            event = page.receive_json()
            jsonschema.validate(event, schema)
            TypeAdapter(PageEvent).validate_python(event, strict=True)
            kinds.add(event["event"])
            assert (event["run"], event["edit"]) == (7, 3)
            if events.is_last(event):
                break
        assert {"started", "sample", "result"} <= kinds
        page.send_json({"type": "none"})
        jsonschema.validate(page.receive_json(), schema)
    assert not list(jsonschema.Draft202012Validator(schema).iter_errors({"type": "cancel", "run": 7}))
    assert list(jsonschema.Draft202012Validator(schema).iter_errors({"type": "cancel", "run": "7"}))


@pytest.mark.parametrize(("on", "replay"), [("dae", ""), ("gpu", shipped.names()[0])])
def test_the_events_of_a_search_are_as_described(on: str, replay: str, client: TestClient, transe: str) -> None:
    schema = client.get("/api/messages.json").json()
    order = {
        "type": "run",
        "run": 1,
        "text": transe,
        "on": on,
        "batch": 4,
        "data": "tiny.tsv",
        "tune": {"trials": 3, "replay": replay},
    }
    jsonschema.validate(order, schema)
    kinds = list[str]()
    with client.websocket_connect("/ws") as page:
        page.send_json(order)
        while not kinds or kinds[-1] not in ("result", "failed"):
            event = page.receive_json()
            jsonschema.validate(event, schema)
            TypeAdapter(PageEvent).validate_python(event, strict=True)
            kinds.append(event["event"])
    assert [kinds.count(kind) for kind in ("space", "trial", "result")] == [1, 3, 1]
    assert event["tuned"]["trials"] == 3
    for wrong in ({"trials": 1}, {"trials": 513}, {"search": "luck"}, {"seconds": 1}):
        assert list(jsonschema.Draft202012Validator(schema).iter_errors({**order, "tune": wrong}))
        assert client.post("/api/run", json={"text": transe, "on": "dae", "tune": wrong}).status_code == 422


def test_what_the_code_says_of_runs_and_the_class_is_as_described() -> None:
    """Those that no short run brings."""
    any_event: TypeAdapter[Any] = TypeAdapter(AnyEvent)
    made = [
        events.queued(2, "Position 2."),
        events.progress("checking", 1, 2),
        events.repeated("Once more."),
        events.timed_sample(0, 0.5, "PyTorch"),
        {**events.failed("memory", "Too large.", "Smaller."), "repeated": True, "at": "1-0", "run": 1, "edit": 1},
    ]
    for event in made:
        any_event.validate_python(event, strict=True)
    for failure in (events.failed("away", "Gone."), {**events.failed("crashed", "It died."), "repeated": True}):
        answers.RunFailure.model_validate(events.outcome(failure), strict=True)
    classroom = Classroom()

    async def notices() -> list[dict[str, Any]]:
        from explorer.web.queue import RunQueue

        queue = RunQueue(Gate(), 1)
        found = [classroom.notice(queue)]
        classroom.send("a model", "text")
        classroom.assign("first", "text", "", 1)
        return [*found, classroom.notice(queue)]

    for notice in asyncio.run(notices()):
        TypeAdapter(PageEvent).validate_python(notice, strict=True)
