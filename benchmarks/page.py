"""The page in Chromium: how soon it is seen, how long a keystroke takes to the panes, what both cost over the wire.

`explorer bench page`. Starts `explorer serve` on a free port, or takes `--address`. A first load is in a new profile,
until the first contentful paint. A keystroke is a digit typed into a constant of the model, timed in the page from
the key to the frame that shows the panes of the new text; no two texts are alike. Bytes are those of the network:
headers and bodies as they were compressed. Scrolling is of a pane with some 20,000 lines, from one end to the other and
back in four seconds each, by a gesture as a mouse makes it; a frame is blank whose pane has no line in the middle. It
begins when the host is idle, as long as that takes (a server that has just started warms its workers), a minute at
most; the table says how idle it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

BY_NAME_ONLY = "needs Chromium and Playwright"
WIDE = {"width": 1600, "height": 950}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ASKED = {"paint": 400, "load": 250_000, "keystroke": 15_000, "frame": 33}
"""At most: ms to the first paint, bytes of a first load and of a keystroke, ms of 95 % of the frames."""
IDLE = 0.9
"""The share of the cores' time that nothing uses, when measuring begins."""
SETTLE_MS = 1_500
"""Until what follows an answer has come: the stages that are made late, and what scripts ask for by themselves."""


@dataclass(frozen=True)
class Typed:
    """A model to type in: digits go behind the constant, and where `grad` is on, there is its backward pass."""

    name: str
    example: str
    constant: str
    written: str
    grad: bool
    most: int  # ms that a keystroke may take


MODELS = (
    Typed("TransR", "kge/transr", "return norm(", "return 0.5 * norm(", False, 150),
    Typed("RGAT with its backward pass", "rgnn/rgat", "0.2)", "0.2)", True, 400),
    Typed("SLS", "embedding/sls", "return sum(", "return 0.5 * sum(", False, 150),
)

PAINT = """() => new Promise(done => {
    const found = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    const wait = () => found() === undefined ? requestAnimationFrame(wait) : done(found());
    wait();
})"""
WATCH = """() => {
    window.keyAt = 0;
    document.addEventListener("keydown", () => { window.keyAt = performance.now(); }, true);
}"""
PASTE = """(text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    document.querySelector(".cm-content").dispatchEvent(paste);
}"""
EDIT = "() => JSON.parse(document.getElementById('facts').dataset.facts).edit"
SHOWN = """(edit) => new Promise(done => {
    const facts = () => document.getElementById("facts").dataset.facts;
    const shown = () => Number(facts().match(/"edit": ?(\\d+)/)[1]) > edit;  // to parse all of it keeps the page busy
    const look = () => shown()
        ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - window.keyAt)))
        : setTimeout(look, 2);
    look();
})"""
WATCH_FRAMES = """() => {
    const bodies = [...document.querySelectorAll("#panes .body")];
    const body = bodies.sort((one, other) => other.scrollHeight - one.scrollHeight)[0];
    const { left, top, width, height } = body.getBoundingClientRect();
    const isBlank = () => !document.elementFromPoint(left + 60, top + height / 2)?.closest(".l");
    window.scrolled = [];
    let last = performance.now(), was = body.scrollTop;
    const step = () => {
        const now = performance.now();
        if (body.scrollTop !== was) scrolled.push([now - last, isBlank()]);
        was = body.scrollTop;
        last = now;
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    return [left + width / 2, top + height / 2, body.scrollHeight, body.querySelectorAll(".l").length];
}"""
"""Of each frame in which the longest text is scrolled: how long it took, and whether there is no line in its middle."""
SWEEP_SECONDS = 4
"""From one end of it to the other, as a scroll bar is dragged."""


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json one object."""
    parser = argparse.ArgumentParser(
        prog="explorer bench page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=20, help="keystrokes a model; default 20")
    parser.add_argument("--loads", type=int, default=5, help="first loads; default 5")
    parser.add_argument("--address", help="of a server that runs already, http://HOST:PORT")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    from benchmarks.classroom.serving import served

    with served(arguments.address) as (address, _), _browser() as browser:
        _wait_until_warm(address)
        idle = _wait_until_idle()
        figures = {
            "source": "measured",
            "date": datetime.now(UTC).date().isoformat(),
            "cores": len(os.sched_getaffinity(0)),
            "idle": idle,
            "load": _loads(browser, address, arguments.loads),
            "keys": [_keystrokes(browser, address, model, arguments.keys) for model in MODELS],
            "scroll": _scrolling(browser, address),
        }
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def _wait_until_warm(address: str) -> None:
    with httpx.Client(base_url=address, timeout=100) as client:
        while not client.get("/healthz").json()["warm"]:
            pass


def _wait_until_idle(seconds: float = 60) -> float:
    """Until the host's cores have nothing to do, for so long at most; the share of them that was idle."""
    end = time.monotonic() + seconds
    while True:
        before = _spent()
        time.sleep(2)
        idle, whole = (now - then for now, then in zip(_spent(), before, strict=True))
        if idle / whole > IDLE or time.monotonic() > end:
            return idle / whole


def _spent() -> tuple[int, int]:
    """The ticks that the host's cores were idle, and all."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


class _Wire:
    """Counts the bytes that a page's requests bring, by Chromium's own count."""

    def __init__(self, page: Any) -> None:
        self.bytes = 0
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", lambda event: self._add(event["encodedDataLength"]))

    def _add(self, count: float) -> None:
        self.bytes += int(count)


@contextmanager
def _opened(browser: Any, url: str) -> Iterator[tuple[Any, _Wire, float]]:
    """The page in a new profile, what it took over the wire, and the ms to its first paint."""
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    wire = _Wire(page)
    page.goto(url)
    paint = page.evaluate(PAINT)
    page.wait_for_timeout(SETTLE_MS)
    yield page, wire, paint
    context.close()


def _loads(browser: Any, address: str, count: int) -> dict[str, Any]:
    paints, sizes = [], []
    for _ in range(count):
        with _opened(browser, f"{address}/") as (_, wire, paint):
            paints.append(paint)
            sizes.append(wire.bytes)
    return {"paint_ms": median(paints), "most_ms": max(paints), "bytes": max(sizes)}


def _keystrokes(browser: Any, address: str, model: Typed, count: int) -> dict[str, Any]:
    with _opened(browser, f"{address}/?example={model.example}") as (page, wire, _):
        if model.grad:
            page.locator('[data-option="grad"]').click()
        _put_cursor_behind(page, model)
        page.wait_for_timeout(2 * SETTLE_MS)
        page.evaluate(WATCH)
        times, sizes = [], []
        for number in range(count):
            edit, before = page.evaluate(EDIT), wire.bytes
            page.keyboard.press(str(1 + number % 9))
            times.append(page.evaluate(SHOWN, edit))
            page.wait_for_timeout(SETTLE_MS)
            sizes.append(wire.bytes - before)
        shown = page.evaluate("() => JSON.parse(document.getElementById('facts').dataset.facts)")
    assert shown["ok"], f"{model.name}: what was typed does not compile: {shown['diagnostics'][0]['message']}"
    p50, p95 = np.percentile(times, [50, 95])
    found = {"p50": p50, "p95": p95, "most": max(times), "compile_ms": shown["ms"], "asked_ms": model.most}
    return {"model": model.name, "count": count, "bytes": median(sizes), "most_bytes": max(sizes), **found}


def _put_cursor_behind(page: Any, model: Typed) -> None:
    """The text with its constant, and the cursor behind that."""
    text = page.locator("#editor").get_attribute("data-text").replace(model.constant, model.written, 1)
    page.locator(".cm-content").focus()
    page.keyboard.press("Control+a")
    page.evaluate(PASTE, text)
    digits = re.search(r"0\.\d+", model.written)
    assert digits is not None
    page.keyboard.press("Control+End")
    for _ in text[text.index(model.written) + digits.end() :]:
        page.keyboard.press("ArrowLeft")


def _scrolling(browser: Any, address: str) -> dict[str, Any]:
    """Of the longest text that an example has in one pane, all of it asked for: SASS of HGT with its backward pass."""
    with _opened(browser, f"{address}/?example=rgnn/hgt") as (page, _, _):
        page.locator('[data-option="grad"]').click()
        page.locator('#pane-1 select[data-act="stage"]').select_option("sass")
        page.locator("#pane-1 [data-act=rest]").click(timeout=100_000)
        page.locator("#pane-1 .more").wait_for(state="detached", timeout=100_000)
        page.wait_for_timeout(2 * SETTLE_MS)
        x, y, height, lines = page.evaluate(WATCH_FRAMES)
        gestures = page.context.new_cdp_session(page)
        for way in (-1, 1):
            sweep = {"x": x, "y": y, "yDistance": way * height, "speed": round(height / SWEEP_SECONDS)}
            gestures.send("Input.synthesizeScrollGesture", {**sweep, "gestureSourceType": "mouse"})
        frames, blank = zip(*page.evaluate("scrolled"), strict=True)
    p50, p95 = np.percentile(frames, [50, 95])
    figures = {"lines": lines, "frames": len(frames), "p50": p50, "p95": p95, "most": max(frames)}
    return {**figures, "blank": sum(blank) / len(blank)}


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    load, scroll = figures["load"], figures["scroll"]
    lines = [
        f"Chromium and the server on {figures['cores']} cores, {figures['idle']:.0%} idle before;"
        f" measured {figures['date']}",
        f"  first paint  {load['paint_ms']:.0f} ms, at most {load['most_ms']:.0f} (asked: {ASKED['paint']})",
        f"  first load   {load['bytes'] / 1e3:.0f} kB over the wire (asked: {ASKED['load'] / 1e3:.0f})",
    ]
    for each in figures["keys"]:
        lines += [
            f"  keystroke    {each['model']}: p50 {each['p50']:.0f} ms, p95 {each['p95']:.0f}, most {each['most']:.0f}"
            f" (asked: {each['asked_ms']}), of which the compiler {each['compile_ms']:.0f}",
            f"               {each['bytes'] / 1e3:.1f} kB, at most {each['most_bytes'] / 1e3:.1f}"
            f" (asked: {ASKED['keystroke'] / 1e3:.0f})",
        ]
    lines.append(
        f"  scrolling    {scroll['lines']:,} lines: p50 {scroll['p50']:.1f} ms a frame, p95 {scroll['p95']:.1f},"
        f" most {scroll['most']:.1f} (asked: 95 % under {ASKED['frame']}), {scroll['blank']:.0%} blank"
    )
    return "\n".join(lines)
