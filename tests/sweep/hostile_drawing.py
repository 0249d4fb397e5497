"""Requests and WebSocket frames that no page would send, over a seed: as the routes have them, then spoiled."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from fastapi.routing import APIRoute
from pydantic import BaseModel

from explorer.compiler.options import Options
from explorer.compiler.pipeline import STAGES
from explorer.web import api, health, limits, pages, runs
from explorer.web.description import openapi
from explorer.web.examples import examples
from explorer.web.instructor import collecting, desk, students
from explorer.web.instructor.token import COOKIE, PATH
from explorer.web.keeping import routes as keeping
from explorer.web.keeping.messages import ShareMessage
from explorer.web.messages import CompileMessage, HandInMessage, RunMessage, RunOrder
from explorer.web.monitoring import page as monitoring

BODIES: dict[str, type[BaseModel]] = {
    "/api/compile": CompileMessage,
    "/api/run": RunMessage,
    "/class/hand-in": HandInMessage,
    "/api/share": ShareMessage,
}
"""What the bodies are that routes read by themselves."""
OFTEN = {
    **{"/compile": 8, "/api/compile": 12, "/api/run": 8, "/panes": 2, "/class/hand-in": 2, "/": 0.5, "/costs": 0.3},
    **{"/best": 0.1, "/late": 0.1, "/api/locality": 0.05, "/metrics": 0.2},
}
"""How often a route is asked beside the others, each of which takes next to no work, and those of the instructor. NVRTC
takes a second, and one of them tells no more of what a server withstands than the next."""
OF_INSTRUCTOR = 0.4
RUNS_RUN = 0.01
"""The share of runs whose text may be a model. One takes seconds; the others come as far as a worker, which refuses."""
Manner = Literal["whole", "part", "drip", "leave", "unread"]
"""How a request is sent: as it is; one that is not whole; byte by byte; by who goes away at once, or reads nothing."""
TEXTS = [example.text for example in examples()]
LATE = [spec.name for spec in STAGES if spec.on_demand]
EARLY = [spec.name for spec in STAGES if not spec.on_demand]
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**70), 10**400, 1e308, float("nan"), float("inf")),
    *("", " ", "\0", "\ud800", "\u202e", "\ufeff", "é" * 300, "a" * 5000, "../../etc/passwd", "{{7*7}}", "<script>"),
    *([], {}, [[]], [None] * 3000, {"": 0}, {"a": {"b": {"c": []}}}, {str(i): i for i in range(3000)}),
]
TOKENS = ["(", ")", "[", "]", ":", "\n", "    ", "\t", "=", "@", "sum", "for", "in", "dim", "param", "layer", "score"]
TOKENS += ["return", "0", "9" * 30, "1e999", '"', "#", "\0", "\u2028", "e.src", "norm", "softmax", "-", "/", ","]
KNOWN = "the instructor's own"
"""Stands for what the instructor's cookie holds, which no seed knows."""
TOO_LARGE = "33 MiB"
PAUSE = f"{PATH}/pause"
"""What the instructor does not do here, since runs would wait for ever."""


@dataclass(frozen=True)
class Drawn:
    """What is sent, by a method and a route's template, or what it is instead."""

    kind: str
    sent: bytes
    manner: Manner = "whole"


def routes() -> list[tuple[str, str, list[str], list[str]]]:
    """Every route as a method, a template, the names in its query and in its form."""
    found = []
    of_class = students.joining, students.router, collecting.students, desk.entry, desk.router, collecting.router
    of_all = health.router, monitoring.router, api.router, openapi.router, runs.router, pages.router, keeping.router
    for router in (*of_all, *of_class):
        for route in router.routes:
            if isinstance(route, APIRoute):
                query, form = _fields(route.dependant)
                found += [(method, route.path, query, form) for method in sorted(route.methods or ())]
    return found


def _fields(dependant: Any) -> tuple[list[str], list[str]]:
    query = [field.alias for field in dependant.query_params]
    form = [field.alias for field in dependant.body_params]
    for inner in dependant.dependencies:
        more_query, more_form = _fields(inner)
        query, form = query + more_query, form + more_form
    return query, form


ROUTES = routes()
WEIGHTS = [OF_INSTRUCTOR if path.startswith(PATH) else OFTEN.get(path, 1) for _, path, *_ in ROUTES]


def request(source: random.Random) -> Drawn:
    """A request: mostly one that is understood but for a field, at times no HTTP at all."""
    if source.random() < 0.04:
        return Drawn("no HTTP", _no_http(source), "part")
    if source.random() < 0.0005:
        return Drawn(TOO_LARGE, _framed(source, "POST", "/api/compile", "application/json", b"[" * (33 << 20)))
    method, template, query, form = source.choices(ROUTES, WEIGHTS)[0]
    kind = f"{method} {template}"
    path = template
    for part in ("{folder}", "{name}", "{number}", "{link}"):
        path = path.replace(part, quote(text_of(source)[:40] or "x", safe="") if source.random() < 0.5 else "1")
    names = [name for name in query if source.random() < 0.8] + (["x"] if source.random() < 0.1 else [])
    if names:
        path += "?" + urlencode({name: _word(source) for name in names})
    if source.random() < 0.05:
        method = source.choice(["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "GET", "POST", "BREW"])
    content, body = "text/plain", b""
    if method in ("POST", "PUT", "PATCH"):
        content, body = _body(source, template, form)
    return Drawn(kind, _framed(source, method, path, content, body), _manner(source))


def _manner(source: random.Random) -> Manner:
    return source.choices(("whole", "leave", "drip", "unread"), (0.96, 0.03, 0.005, 0.005))[0]


def _no_http(source: random.Random) -> bytes:
    return source.choice(
        [
            source.randbytes(source.randint(1, 3000)),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * source.randint(1, 20_000),
            b"GET /" + b"a" * source.randint(1, 100_000) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /api/compile HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\nConnection: close\r\n\r\n{",
            b"POST /api/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            b"POST /compile HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\nedit=1",
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        ]
    )


def _framed(source: random.Random, method: str, path: str, kind: str, body: bytes) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Connection: close", f"Content-Length: {len(body)}"]
    head.append(f"Host: {source.choice(['localhost'] * 40 + ['evil.example', '', '[', 'localhost:99999'])}")
    head.append(f"Content-Type: {kind}")
    if path.startswith(PATH) and not path.startswith(PAUSE) and source.random() < 0.3:
        head.append(f"Cookie: {COOKIE}={KNOWN}")
    for name, values in (
        ("Origin", ["http://localhost", "null", "http://evil.example", "://"]),
        (
            "Cookie",
            ["explorer-student=x.y", "explorer-student=" + "a" * 3000, "=;=;", "theme=dark; explorer-student=é"],
        ),
        ("X-Forwarded-For", ["8.8.8.8", "x", "127.0.0.1, " * 50]),
        ("Accept", ["application/x-ndjson", "*/*", ""]),
        ("Content-Encoding", ["gzip", "br"]),
        ("Range", ["bytes=0-", "bytes=9-1"]),
    ):
        if source.random() < 0.08:
            head.append(f"{name}: {source.choice(values)}")
    return "\r\n".join(head).encode("utf-8", "replace") + b"\r\n\r\n" + body


def _body(source: random.Random, template: str, form: list[str]) -> tuple[str, bytes]:
    drawn = source.random()
    if drawn < 0.04:
        return "application/json", source.randbytes(source.randint(0, 2000))
    if drawn < 0.07:
        return "application/json", b"[" * 100_000
    if drawn < 0.08:
        return "application/json", b'{"text": "' + b"a" * (limits.BODY_BYTES + source.randint(-20, 20))
    if template in BODIES:
        return "application/json", json_text(source, order(source, BODIES[template]))
    fields = {name: _form_field(source, name) for name in form if name in ("edit", "text") or source.random() < 0.5}
    if source.random() < 0.1:
        boundary = source.choice(["b", "", "é" * 20])
        parts = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items()
        )
        return f"multipart/form-data; boundary={boundary}", parts.encode("utf-8", "replace")
    return "application/x-www-form-urlencoded", urlencode(fields, errors="replace").encode()


def _form_field(source: random.Random, name: str) -> str:
    if name == "text":
        return text_of(source)
    if name in ("edit", "good"):
        return source.choice(["1", "2", "0", "-1", "", "9" * 5000, "1e3", "x"]) if source.random() < 0.2 else "3"
    if name in ("data", "code", "name", "title", "token"):
        return _word(source)
    if name == "reference":
        return text_of(source) + BROKEN
    if name in ("number", "most", "seeds"):
        return source.choice(["1", "2", "0", "-1", "", "9" * 5000, "x"])
    return json_text(source, _field(source, name)).decode("utf-8", "replace")


def message(source: random.Random, kind: type[BaseModel]) -> dict[str, Any]:
    """A message's fields, of which some are none of what they should be, and some are too many or not there."""
    fields = {name: _field(source, name) for name in kind.model_fields if name in MUST or source.random() < 0.3}
    while source.random() < 0.3:
        fields[source.choice([*kind.model_fields, "x", ""])] = odd(source)
    while source.random() < 0.05 and fields:
        del fields[source.choice(list(fields))]
    return fields


BROKEN = "\n)"


def order(source: random.Random, kind: type[BaseModel]) -> dict[str, Any]:
    """A message, of which one that asks for a run is rarely of a model."""
    fields = message(source, kind)
    if issubclass(kind, RunMessage) and source.random() > RUNS_RUN and isinstance(fields.get("text"), str):
        fields["text"] += BROKEN
    return fields


MUST = {"assignment", "text", "on", "type", "run", "batch", "repeat", "stages", "peers"}
"""Fields that are nearly always there: without them a run takes long, or is none."""


def _field(source: random.Random, name: str) -> Any:
    drawn = source.random()
    if drawn < 0.06:
        return odd(source)
    match name:
        case "text":
            return text_of(source)
        case "on":
            return source.choice(["cpu", "dae", "gpu"])
        case "type":
            return source.choice(["run", "run", "cancel"])
        case "run" | "edit" | "seed":
            return source.randint(0, 9)
        case "batch" | "repeat":
            return source.randint(1, 4)
        case "assignment":
            return source.randint(0, 3)
        case "peers":
            return False
        case "stages":
            return [source.choice(EARLY), *([source.choice(LATE)] if source.random() < 0.05 else [])]
        case "panes":
            asked = [{"stage": source.choice(EARLY), "at": source.choice([None, 0, 999])} for _ in range(2)]
            return [{**each, source.choice(["diff", "passes", "drawn", "decisions"]): True} for each in asked]
        case "options":
            known = list(Options().to_json().items())
            return dict(source.sample([*known, ("grad", True), ("opt", source.randint(-1, 9)), ("x", 1)], k=2))
        case "sizes" | "default_sizes":
            return {source.choice(["D", "F", "H", "x", ""]): source.choice([1, 2, 8, 0, -4, 2**40, 10**30])}
        case "schedule" | "good_schedule":
            return {source.choice(["k.split", "k0.lanes", "x", "."]): source.choice(["rows", 4, -1, True, "x" * 150])}
        case "against":
            return {"options": {"grad": True}, "sizes": {"D": source.choice([8, 0])}}
        case "machine":
            return {source.choice(["cores", "mshrs", "x"]): source.choice([1, 0, -1, 1e300, 4])}
        case "data" | "name":
            return _word(source)
    return odd(source)


def odd(source: random.Random) -> Any:
    """A value of any kind."""
    value = source.choice(ODD)
    return [value] * 2 if source.random() < 0.1 else value


def _word(source: random.Random) -> str:
    words = ["FB15k-237", "RM1:L0", "aifb", "score", "layer", "op", "", "kge/transe", "wiki-Talk/500", "/etc/passwd"]
    return source.choice([*words, "../x", "BigBird:1", "RM1:L99999", "é\u202e", "a" * 300, "%00", "x\r\ny: z"])


def json_text(source: random.Random, value: Any) -> bytes:
    """JSON, at times cut off or with something in its middle."""
    text = json.dumps(value, ensure_ascii=source.random() < 0.5).encode("utf-8", "surrogatepass")
    if source.random() < 0.05:
        at = source.randint(0, len(text))
        return (
            text[:at] + source.choice([b"", b"\xff", b"[" * 50_000, b"1" * 6000, b"\\u0000", b'"', b"NaN"]) + text[at:]
        )
    return text[: source.randint(0, len(text))] if source.random() < 0.03 else text


def text_of(source: random.Random) -> str:
    """A program of the examples with a few edits, as it is while somebody types, or what was never one."""
    drawn = source.random()
    if drawn < 0.05:
        return "".join(source.choices(TOKENS, k=source.randint(0, 200)))
    if drawn < 0.07:
        long = source.choice(["(" * 20_000, "x" * 66_000, "dim A = 1\n" * 3000, "-" * 5000, "\0" * 100, '"' * 101])
        return f"{long}{source.random()}"  # each another one, as a cache has it
    text = source.choice(TEXTS)
    for _ in range(source.choice([0, 1, 1, 2, 3, 8])):
        at, length = source.randint(0, len(text)), source.randint(0, 12)
        text = text[:at] + source.choice([*TOKENS, "", text[at : at + 40]]) + text[at + length :]
    return text


def frames(source: random.Random) -> Iterator[str | bytes]:
    """What a page sends over its WebSocket: orders that are understood in part, text that is none, and bytes."""
    for _ in range(source.randint(1, 30)):
        drawn = source.random()
        if drawn < 0.1:
            yield source.randbytes(source.randint(0, 500))
        elif drawn < 0.13:
            yield "[" * 60_000
        elif drawn < 0.15:
            yield "a" * (limits.BODY_BYTES - source.randint(0, 20))
        elif drawn < 0.2:
            yield json.dumps(odd(source))
        else:
            yield json_text(source, order(source, RunOrder)).decode("utf-8", "replace")
