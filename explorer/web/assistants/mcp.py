"""An endpoint of the Model Context Protocol: the JSON API as tools, so that an assistant explains from facts.

Each tool asks this server's own API, in the same process and under the address of whoever asks, so limits, turns, locks
and refusals are the page's. Answers are cut to what an assistant can read, and say so. No GPU: a run's time there is
shown to people, who see what else the device does. Off unless `explorer serve --mcp` is asked for; needs the package
`mcp` (https://modelcontextprotocol.io, streamable HTTP, without sessions).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import httpx2
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

PATH = "/mcp"
MOST_CHARACTERS = 20_000
"""Of one text in an answer."""
SECONDS = 120.0
INSTRUCTIONS = (
    "A compiler for knowledge-graph-embedding scores, relational GNN layers and embedding operations. Read `examples`"
    " for the language, compile a text, ask for the passes of a stage to learn what each changed or why it refused, and"
    " run it: every result is held against a float64 reference. Times of `cpu` are measured, cycles of `dae` simulated."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

ModelText = Annotated[str, Field(max_length=65_536, description="a model in the explorer's language")]
Options = Annotated[dict[str, str | int | bool], Field(description="as in {'grad': true, 'opt': 2}")]
Sizes = Annotated[dict[str, int], Field(description="values of dims, as in {'D': 128}")]


class Tools:
    """What an assistant may ask: each tool is asked of this server's own JSON API, for whoever asked it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def stages(self, context: Context) -> list[dict[str, Any]]:
        """The stages of the compiler, in order, with where each is from and which target runs it."""
        return list(await self._ask(context, "/api/stages"))

    async def examples(self, context: Context) -> list[dict[str, Any]]:
        """All example models with their texts, which show the language."""
        return list(await self._ask(context, "/api/examples"))

    async def data(self, context: Context, family: Literal["score", "layer", "op"]) -> list[dict[str, Any]]:
        """The data sets that a model of a family may be compiled for and run on."""
        return list(await self._ask(context, f"/api/data?family={family}"))

    async def compile_model(
        self,
        context: Context,
        text: ModelText,
        show: Annotated[list[str] | None, Field(description="stages whose text is wanted")] = None,
        options: Options | None = None,
        sizes: Sizes | None = None,
        data: str = "",
    ) -> dict[str, Any]:
        """Compile a model: its problems, or its operations, what each stage has, and the texts of those to `show`."""
        body = {"text": text, "options": options or {}, "sizes": sizes or {}, "data": data}
        compiled = await self._ask(context, "/api/compile", body | ({"stages": show} if show else {}))
        kept = ("ok", "name", "family", "sizes", "options", "data", "diagnostics", "operations")
        made = [_stage(stage, stage["name"] in (show or ())) for stage in compiled["stages"]]
        return {name: compiled[name] for name in kept if name in compiled} | {"stages": made}

    async def passes(
        self,
        context: Context,
        text: ModelText,
        stage: str,
        options: Options | None = None,
        sizes: Sizes | None = None,
        data: str = "",
    ) -> list[dict[str, Any]]:
        """What each pass of a stage did to a model, in order: its effect, or why it refused."""
        body = {"text": text, "options": options or {}, "sizes": sizes or {}, "data": data, "stages": [stage]}
        compiled = await self._ask(context, "/api/compile", body)
        if not compiled["ok"]:
            raise ToolError(str(compiled["diagnostics"][0]["message"]))
        found = next(each for each in compiled["stages"] if each["name"] == stage)
        kept = ("name", "changed", "ms", "summary", "refusals")
        return [{name: each[name] for name in kept} for each in found["passes"]]

    async def run_model(
        self,
        context: Context,
        text: ModelText,
        on: Literal["cpu", "dae"],
        data: str = "",
        options: Options | None = None,
        sizes: Sizes | None = None,
        repeat: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Run a model on this host's processor (measured) or on the simulated access-execute machine (simulated)."""
        body = {"text": text, "on": on, "options": options or {}, "sizes": sizes or {}, "repeat": repeat}
        body |= {"peers": False} | ({"data": data} if data else {})
        result = await self._ask(context, "/api/run", body)
        return {name: value for name, value in result.items() if _is_short(value)}

    async def _ask(self, context: Context, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the API answers; raises ToolError with what it says where it refuses."""
        request = context.request_context.request
        assert request is not None  # there is one in every call over HTTP
        host = request.client.host if request.client else ""
        transport = httpx2.ASGITransport(app=self._app, client=(host, 0))
        base = f"http://{request.headers['host']}"
        async with httpx2.AsyncClient(transport=transport, base_url=base, timeout=SECONDS) as client:
            answer = await (client.get(path) if body is None else client.post(path, json=body))
        found = answer.json()
        if answer.is_success:
            return found
        told = found.get("message") or next((each["message"] for each in found.get("diagnostics", ())), "")
        raise ToolError(told or f"The server answered {answer.status_code}.")


def endpoint(app: ASGIApp) -> MCPServer:
    """The server of the protocol whose tools ask `app`."""
    server = MCPServer("Embedding Compiler Explorer", instructions=INSTRUCTIONS)
    tools = Tools(app)
    for tool in (tools.stages, tools.examples, tools.data, tools.compile_model, tools.passes, tools.run_model):
        server.add_tool(tool, annotations=READS)
    return server


def routes(server: MCPServer) -> list[BaseRoute]:
    """Where the server answers. Names and origins are looked at by what stands before all routes."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    made = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=security
    )
    return list(made.routes)


@asynccontextmanager
async def running(server: MCPServer) -> AsyncIterator[None]:
    """While it answers."""
    async with server.session_manager.run():
        yield


def _stage(stage: Mapping[str, Any], is_shown: bool) -> dict[str, Any]:
    found = {"name": stage["name"], "available": stage["available"], "ms": stage["ms"], "reason": stage["reason"]}
    found["lines"] = stage["text"].count("\n")
    if is_shown:
        found["text"] = cut(stage["text"])
    return found


def cut(text: str) -> str:
    """A text with what is too long for an answer left out, and how much that is."""
    if len(text) <= MOST_CHARACTERS:
        return text
    kept = text[:MOST_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n... {text.count(chr(10)) - kept.count(chr(10)):,} more lines"


def _is_short(value: Any) -> bool:
    """Whether an assistant can use it: not the queues' fill over a hundred thousand cycles."""
    return len(str(value)) <= 4_000
