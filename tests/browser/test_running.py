"""Runs from the page: samples arrive while it runs, the result is checked, a long one is stopped."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import change, edit_of, expect_edit_after, pane, reload, run_on

pytestmark = pytest.mark.browser

LONG = 65_536
"""The largest batch, which is simulated for 12 s of one core's time and for 4 s of the fastest one's: what comes to its
middle must not find its end. To set it up takes 7 s, of the 120 s that the server gives a run (`patient.py`)."""
LANES = 6
"""The canvases of a simulated run: the whole, both queues, both units, the axis."""
MANY_EVENTS = """() => {
    window.samplesSeen = 0;
    const Original = window.WebSocket;
    window.WebSocket = class extends Original {
        constructor(...args) {
            super(...args);
            this.addEventListener("message", ({ data }) => {
                if (JSON.parse(data).event === "sample") window.samplesSeen += 1;
            });
        }
    };
}"""


def test_a_dae_run_streams_samples_and_passes_the_check(open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(f"({MANY_EVENTS})()")
    reload(page)
    edit_of(page)
    run_on(page, "dae", 256)
    expect(page.locator("#run-source")).to_have_text("simulated")
    expect(page.locator("#run-main canvas")).to_have_count(LANES)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    assert page.evaluate("window.samplesSeen") >= 20
    expect(page.locator("#run-summary")).to_contain_text("cycles")
    pushes = page.locator("#run-traffic tr", has_text="values pushed = popped").locator("td").nth(1)
    expect(pushes).to_have_text(re.compile(r"^[1-9][\d,]*$"))
    expect(page.locator("#run-detail .levels:not(.by) .bar")).to_have_count(2)


def test_a_cpu_run_shows_measured_times_on_the_servers_data(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("family.tsv")
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-repeat").fill("40")
    run_on(page, "cpu", 64)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-source")).to_have_text("measured")
    for setting in ("false", "true", "chunks"):
        asked = page.locator("#run-detail tr", has_text=f"inspect = {setting}").locator("td").nth(1)
        expect(asked).to_have_text(re.compile(r"^\d[\d.]* ?[kM]?B$"))
    expect(page.locator("#run-main .big")).to_contain_text("ms median")
    expect(page.locator("#run-check")).to_contain_text("family.tsv")
    expect(page.locator("#run-history tr")).to_have_count(1)


CLIPPED = """() => [...document.querySelectorAll("#dock .col")].flatMap((column) => {
    const { right } = column.getBoundingClientRect();
    const all = [...column.querySelectorAll(".ch > *, td")];
    return all.filter((part) => part.getBoundingClientRect().right > right).map((part) => part.textContent);
})"""
"""What goes over the right edge of its column of the dock."""


def test_the_figures_of_a_cpu_run_are_written_beside_each_other(open_page: OpenPage) -> None:
    page = open_page("/?example=kge/transr")
    page.set_viewport_size({"width": 1366, "height": 768})
    run_on(page, "cpu", 1024)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-detail h3", has_text="Inspector")).to_be_attached()
    # Along its slope, above it: below it the point's figure may stand.
    copied = page.locator("#run-plane text", has_text="copy")
    expect(copied).to_have_attribute("transform", re.compile(r"rotate\(-\d"))
    assert page.evaluate(CLIPPED) == []
    firsts = page.locator("#dock .col:visible").evaluate_all(
        "(columns) => columns.map((column) => column.querySelector('h3').getBoundingClientRect().top)"
    )
    assert len(firsts) == 5
    assert max(firsts) - min(firsts) < 1


def test_a_long_run_is_stopped(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    run_on(page, "dae", LONG)
    expect(page.locator("#run-main canvas")).to_have_count(LANES)
    page.locator("#stop").click()
    expect(page.locator("#run-main")).to_contain_text("You stopped run 1")
    expect(page.locator("#run")).to_be_enabled()
    # The worker is free again: another run goes through.
    run_on(page, "dae", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches")


def test_an_edit_stops_the_run_of_the_text_before(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    run_on(page, "dae", LONG)
    expect(page.locator("#stop")).to_be_visible()
    change(page, "D = 64", "D = 32")
    expect(page.locator("#run-main")).to_contain_text(f"Stopped by edit {edit + 1}")


def test_a_lost_connection_is_said_and_comes_back(open_page: OpenPage) -> None:
    page = open_page()
    sockets: list[WebSocketRoute] = []

    def pass_on(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/ws", pass_on)
    reload(page)
    edit_of(page)
    run_on(page, "dae", LONG)
    expect(page.locator("#run-main canvas")).to_have_count(LANES)
    sockets[0].close(code=1012, reason="restart")
    expect(page.locator("#run-main")).to_contain_text("The server went away while this ran")
    expect(page.locator("#said")).to_have_text("Connected again.")
    run_on(page, "dae", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches")


def test_a_run_that_a_queue_keeps_is_gone_on_with_after_a_lost_connection(open_page: OpenPage) -> None:
    """A queue is not needed: what it makes the server say is said here."""
    page = open_page()
    sockets: list[WebSocketRoute] = []
    asked: list[dict[str, Any]] = []

    def answer(socket: WebSocketRoute) -> None:
        def told(text: str | bytes) -> None:
            order = json.loads(text)
            asked.append(order)
            labels = {"run": order["run"], "edit": order["edit"]}
            if order["type"] == "run":
                waits = {"event": "queued", "position": 3, "message": "Position 3 in the queue.", "at": "a-run/1-0/1/0"}
                socket.send(json.dumps({**waits, **labels}))
            else:
                anew = {"event": "repeated", "message": "The worker that did this run died.", "at": "a-run/2-0/2/0"}
                socket.send(json.dumps({**anew, **labels}))

        sockets.append(socket)
        socket.on_message(told)

    page.route_web_socket("**/ws", answer)
    reload(page)
    edit_of(page)
    run_on(page, "dae", 16)
    expect(page.locator("#run-main")).to_contain_text("Position 3 in the queue.")
    sockets[0].close(code=1012, reason="restart")
    expect(page.locator("#run-main")).to_contain_text("The worker that did this run died.")
    number, edit = asked[0]["run"], asked[0]["edit"]
    assert asked[1:] == [{"type": "resume", "run": number, "edit": edit, "at": "a-run/1-0/1/0"}]
    failed = {"event": "failed", "kind": "away", "message": "The queue of runs cannot be reached.", "hint": ""}
    sockets[-1].send(json.dumps({**failed, "run": number, "edit": edit}))
    expect(page.locator("#run-main")).to_contain_text("The queue is away")


def test_what_cannot_run_says_why(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#dock-toggle").click()
    expect(page.locator('.seg [data-target="gpu"]')).to_be_disabled()
    expect(page.locator("#gpu-reason")).to_contain_text("GPU")
    edit = edit_of(page)
    change(page, "D = 64, K = 64", "D = 60000, K = 60000")
    expect_edit_after(page, edit)
    run_on(page, "cpu", 64)
    expect(page.locator("#run-main .msg")).to_contain_text("GiB")
    page.locator("#run-batch").fill("0")
    expect(page.locator("#run-summary")).to_contain_text("batch must be a whole number")
    expect(page.locator("#run")).to_be_disabled()
    page.locator("#run-batch").fill("64")
    expect(page.locator("#run")).to_be_enabled()


def test_a_field_that_the_target_does_not_read_stops_no_run(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#dock-toggle").click()
    page.locator("#machine-queue_bytes").fill("-3")
    expect(page.locator("#run-summary")).to_have_text("The queue must be a whole number from 0 to 67,108,864.")
    expect(page.locator("#run")).to_be_disabled()
    run_on(page, "cpu", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches")
    page.locator("#run-repeat").fill("")
    expect(page.locator("#run")).to_be_disabled()
    page.locator('.seg [data-target="dae"]').click()
    page.locator("#machine-queue_bytes").fill("4096")
    expect(page.locator("#run")).to_be_enabled()


def test_sizes_that_data_fixes_stand_everywhere_and_those_of_the_reader_come_back(open_page: OpenPage) -> None:
    """products has rows of 100, tiny says nothing of its rows; the text has D = 128."""
    page = open_page("/?example=embedding/spmm")
    edit_of(page)
    size, note = page.locator("#sizes .field"), page.locator("#sizes .of-data")
    size.fill("24")
    expect(page.locator("#run-sizes")).to_have_text("D 24")
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("products/5000")
    expect(note).to_have_text("D = 100, from products/5000")
    expect(size).to_have_value("100")
    expect(page.locator("#run-sizes")).to_have_text("D 100, from products/5000")
    expect(pane(page, "dlc")).to_contain_text("size D = 100")
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-repeat").fill("3")
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("D 100, from products/5000")
    page.locator("#run-data").select_option("tiny")
    expect(size).to_have_value("24")
    expect(note).to_be_empty()
    expect(pane(page, "dlc")).to_contain_text("size D = 24")
    page.locator("#sizes .undo").click()
    expect(size).to_have_value("128")


def test_a_run_waits_for_the_edit_that_it_is_of_and_carries_its_program(open_page: OpenPage) -> None:
    """Run pressed in the moment after an edit, of text, sizes and options each."""
    page = open_page("/?example=embedding/sls")
    orders: list[dict[str, Any]] = []

    def note(message: str | bytes) -> None:
        orders.append(json.loads(message))

    page.on("websocket", lambda socket: socket.on("framesent", note))
    reload(page)
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-repeat").fill("3")
    for change_it, size, function in (
        (lambda: page.locator("#sizes .field").fill("16"), "16", "sum"),
        (lambda: change(page, "sum(", "max("), "16", "max"),
        (lambda: page.locator("#run-data").select_option("RM2:L0"), "64", "max"),
        (lambda: page.locator('[data-option="grad"]').click(), "64", "max"),
    ):
        count = len(orders)
        change_it()
        page.locator("#run").click()
        expect(page.locator("#run-history tr")).to_have_count(count + 1)
        expect(page.locator("#run-check")).to_contain_text(f"D {size}")
        order = orders[-1]
        facts = json.loads(page.locator("#facts").get_attribute("data-facts") or "")
        assert order["edit"] == facts["edit"]
        assert order["compiled"] == {key: facts[key] for key in ("sizes", "options")} | {
            "program": facts["programs"]["cpu"]
        }
        assert function in order["text"]
