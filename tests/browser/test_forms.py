"""The first form of machine code, until the best takes its place: on a server of this process, where that is held back.

How long one takes beside the other is up to the machine, and where the best is as fast, no first form is shown.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect

from explorer.runtime.workers.pool import WorkerPool
from explorer.web.app import create_app
from explorer.web.compiling import CompileService
from explorer.web.queue import RunQueue
from tests.browser.conftest import OpenPage
from tests.browser.driving import change, edit_of, expect_edit_after, pane
from tests.web.held import Held, InThisProcess, hold_best

pytestmark = pytest.mark.browser


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with hold_best(tmp_path) as held:
        yield held


@pytest.fixture
def address(held: Held) -> Iterator[str]:
    """Where a server answers whose processes are this one: without the app's lifespan, which starts others."""
    app = create_app()
    app.state.compiler = CompileService(InThisProcess(), 2)
    app.state.runs = RunQueue(WorkerPool("run"), 1)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        held.may_end.set()
        server.should_exit = True
        serving.join()


def test_a_first_form_says_that_it_is_one_until_the_best_takes_its_place(open_page: OpenPage, held: Held) -> None:
    held.may_end.set()
    page = open_page()
    asked: list[str] = []
    edit = edit_of(page)
    page.locator("#pane-0 .body").click()
    page.locator('.st[data-open="ptx"]').click()
    ptx = pane(page, "ptx")
    count = page.locator('.st[data-open="ptx"] .n')
    expect(ptx).to_contain_text(".visible .entry")
    expect(count).to_have_text(re.compile(r"^[\d,]+$"))
    held.may_end.clear()
    page.on("request", lambda request: asked.append(request.url))
    change(page, "D = 64", "D = 52")
    expect_edit_after(page, edit)
    expect(ptx).to_contain_text("first form, compiling the best")
    expect(ptx).to_contain_text(".visible .entry")
    expect(count).to_have_text("…")
    first = ptx.locator(".code").inner_text()
    held.may_end.set()
    expect(ptx).not_to_contain_text("first form")
    expect(count).to_have_text(re.compile(r"^[\d,]+$"))
    assert ptx.locator(".code").inner_text() != first
    assert len([url for url in asked if url.endswith("/best")]) == 1
