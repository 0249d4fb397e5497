"""The real server in a process of its own, and Chromium in front of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.driving import visit

HERE = Path(__file__).parent
DISABLED = (
    # Lists that drop down from the address line, drawn by two pages that take longer than ours, beside each of ours.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # What Playwright turns off: Chromium takes the last list alone.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
"""Features of Chromium that no test needs."""
FLAGS = [
    f"--disable-features={','.join(DISABLED)}",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # A process for each tab takes a fifth of what it costs to open the page.
    "--process-per-site",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WARM_SECONDS = 200
"""On two cores that other tests keep busy; a first process of a machine compiles the simulator, and may take 180 s."""
PATIENCE = 240_000
"""How long, in ms, a test waits for what it expects: far longer than it takes, since other tests share the cores."""
TEST_SECONDS = 900
"""How long a test may take in all, which is more than a single wait."""
SERVE = [sys.executable, "-m", "tests.browser.patient"]
"""What starts a server."""
ADDRESS = re.compile(r"http://\S+")

OpenPage = Callable[..., Page]
Theme = Literal["light", "dark"]


_OPEN = ExitStack()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@cache
def _browser() -> Browser:
    """Debian's Chromium, the same for all tests: another would fetch and compile the page's scripts again. A machine
    without one skips these tests; CI must have it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI has no Chromium: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    try:
        playwright = _OPEN.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    except BaseException:
        _OPEN.close()  # or the next test is told of a loop that runs, and not of this
        raise
    _OPEN.callback(browser.close)
    return browser


@cache
def _profile() -> BrowserContext:
    context = _browser().new_context()
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    return context


def _close() -> None:
    try:
        _OPEN.close()
    finally:
        _browser.cache_clear()
        _profile.cache_clear()


# Playwright keeps an event loop running in this thread as long as it is open: it must be closed before other tests.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        yield
    finally:
        if nextitem is None or HERE not in nextitem.path.parents:
            _close()


def pytest_sessionfinish() -> None:
    _close()  # where the tests were stopped among these


@pytest.fixture
def browser() -> Browser:
    """Chromium, with no tab of another test."""
    return _browser()


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small set of triples, as `--data-dir` would name."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(5)
    rows = [f"e{h}\tr{r}\te{t}" for h, r, t in random.integers(0, (40, 4, 40), (200, 3))]
    (folder / "family.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def address(data_dir: Path) -> Iterator[str]:
    """Where `explorer serve` answers."""
    with serving("--data-dir", str(data_dir)) as address:
        yield address


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run `explorer serve` with these arguments until it is no longer asked for; yields its address."""
    command = [*SERVE, "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = ADDRESS.search(line)
            assert found, f"the server said {line!r}"
            address = found[0].rstrip("/")
            wait_until_warm(address)
            yield address
        finally:
            server.terminate()


def wait_until_warm(address: str) -> None:
    """Until a process for runs has come up: the first test that runs something must not wait for it."""
    until = time.monotonic() + WARM_SECONDS
    while time.monotonic() < until:
        if httpx.get(f"{address}/healthz", timeout=WARM_SECONDS).json()["warm"]:
            return
        time.sleep(0.25)
    pytest.fail(f"no process for runs came up within {WARM_SECONDS} s")


@pytest.fixture
def profile(address: str) -> BrowserContext:
    """One profile for all tests, so that scripts are fetched and compiled once; each test has a tab of its own.

    All tabs are in one process (FLAGS), and that stays, since a tab of a file without scripts does."""
    profile = _profile()
    if not profile.pages:
        profile.new_page().goto(f"{address}/static/dist/page.css")
    return profile


@pytest.fixture
def open_page(profile: BrowserContext, address: str) -> Iterator[OpenPage]:
    """Opens the page in a tab of its own. Whatever it complains of, the content policy included, fails the test."""
    complaints: list[str] = []
    expected: list[str] = []
    pages: list[Page] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(tuple(expected)):
            complaints.append(f"{message.type}: {message.text}")

    def start(
        path: str = "/?example=kge/transr",
        width: int = 1600,
        height: int = 1000,
        theme: Theme = "light",
        complains: tuple[str, ...] = (),
    ) -> Page:
        expected.extend(complains)
        page = profile.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        visit(page, address + path)
        return page

    yield start
    try:
        for page in pages:
            page.evaluate("localStorage.clear()")  # the history of runs, which all tabs of a browser share
            page.close()
        profile.clear_cookies()
    except BaseException:  # as of a tab that crashed: the next test begins with a new profile
        _profile.cache_clear()
        profile.close()
        raise
    assert complaints == []
