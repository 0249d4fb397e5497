"""What an assistant asks by the Model Context Protocol, through the protocol's own client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from explorer.web.app import create_app
from explorer.web.assistants.mcp import MOST_CHARACTERS, cut
from tests.web.held import without_processes

SLS = "op SLS(b: bag of row):\n    param T[row, 8]\n    return sum(T[i] for i in b)\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where `explorer serve --mcp` answers."""
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0", "--mcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().partition(": ")[2].split("/ ")[0]
        finally:
            server.terminate()


def asked(address: str, ask: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        async with streamable_http_client(f"{address}/mcp") as streams, ClientSession(*streams[:2]) as client:
            await client.initialize()
            return await ask(client)

    return asyncio.run(session())


def called(client: ClientSession, tool: str, **arguments: Any) -> Awaitable[Any]:
    return client.call_tool(tool, arguments)


def test_an_assistant_compiles_explains_and_runs_a_model(address: str) -> None:
    async def ask(client: ClientSession) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            *("stages", "examples", "data", "compile_model", "passes", "run_model")
        }
        compiled = answer(await called(client, "compile_model", text=SLS, show=["loops"], sizes={}))
        loops = next(stage for stage in compiled["stages"] if stage["name"] == "loops")
        assert compiled["ok"]
        assert "output" in loops["text"]
        passes = answers(await called(client, "passes", text=SLS, stage="slc.opt3"))
        assert any(each["changed"] for each in passes)
        assert all("before" not in each for each in passes)
        result = answer(await called(client, "run_model", text=SLS, on="dae", data="RM1:L0"))
        assert result["matches_reference"]
        assert result["source"] == "simulated"

    asked(address, ask)


def test_what_is_wrong_is_told_as_a_tools_error(address: str) -> None:
    async def ask(client: ClientSession) -> None:
        broken = answer(await called(client, "compile_model", text="op"))
        assert not broken["ok"]
        assert broken["diagnostics"][0]["line"] == 1
        for tool, wrong, told in (
            ("passes", {"text": SLS, "stage": "soup"}, "no stage 'soup'"),
            ("passes", {"text": "op", "stage": "loops"}, ""),
            ("run_model", {"text": SLS, "on": "dae", "data": "/etc/passwd"}, "no data"),
            ("run_model", {"text": SLS, "on": "gpu"}, ""),
        ):
            found = await called(client, tool, **wrong)
            assert found.is_error
            assert told in found.content[0].text.lower() or told in found.content[0].text

    asked(address, ask)


def test_it_is_off_unless_asked_for(client: TestClient) -> None:
    assert client.post("/mcp", json={}).status_code == 404


def test_a_page_of_another_site_is_refused() -> None:
    with without_processes(), TestClient(create_app(assistants=True), base_url="http://localhost") as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert client.post("/mcp", json=message, headers={"origin": "http://elsewhere.example"}).status_code == 403


def test_a_long_text_is_cut_at_a_line() -> None:
    text = "a line of a stage\n" * 3_000
    assert cut(text[:100]) == text[:100]
    assert len(cut(text)) <= MOST_CHARACTERS + 30
    assert cut(text).endswith("more lines")


def answer(found: Any) -> dict[str, Any]:
    assert not found.is_error, found.content
    result: dict[str, Any] = json.loads(found.content[0].text)
    return result


def answers(found: Any) -> list[dict[str, Any]]:
    assert not found.is_error, found.content
    return [json.loads(each.text) for each in found.content]
