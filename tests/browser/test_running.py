"""Runs from the page: samples arrive while it runs, the result is checked, a long one is stopped."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import change, edit_of, expect_edit_after, run_on

pytestmark = pytest.mark.browser

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
    page.reload()
    edit_of(page)
    run_on(page, "dae", 256)
    expect(page.locator("#run-source")).to_have_text("simulated")
    expect(page.locator("#run-main canvas")).to_have_count(LANES)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    assert page.evaluate("window.samplesSeen") >= 20
    expect(page.locator("#run-summary")).to_contain_text("cycles")
    pushes = page.locator("#run-traffic tr", has_text="values pushed = popped").locator("td").nth(1)
    expect(pushes).to_have_text(re.compile(r"^[1-9][\d,]*$"))
    expect(page.locator("#run-detail .levels .bar")).to_have_count(2)


def test_a_cpu_run_shows_measured_times_on_the_servers_data(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("family.tsv")
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run-repeat").fill("40")
    run_on(page, "cpu", 64)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-source")).to_have_text("measured")
    expect(page.locator("#run-main .big")).to_contain_text("ms median")
    expect(page.locator("#run-check")).to_contain_text("family.tsv")
    expect(page.locator("#run-history tr")).to_have_count(1)


def test_a_long_run_is_stopped(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    change(page, "D = 64, K = 64", "D = 512, K = 512")
    edit_of(page)
    run_on(page, "dae", 8_192)
    expect(page.locator("#stop")).to_be_visible()
    page.wait_for_timeout(800)
    page.locator("#stop").click()
    expect(page.locator("#run-main")).to_contain_text("You stopped run 1")
    expect(page.locator("#run")).to_be_enabled()
    # The worker is free again: another run goes through.
    change(page, "D = 512, K = 512", "D = 8, K = 8")
    edit_of(page)
    run_on(page, "dae", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches")


def test_an_edit_stops_the_run_of_the_text_before(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    change(page, "D = 64, K = 64", "D = 512, K = 512")
    edit_of(page)
    run_on(page, "dae", 8_192)
    expect(page.locator("#stop")).to_be_visible()
    change(page, "D = 512", "D = 256")
    expect(page.locator("#run-main")).to_contain_text(f"Stopped by edit {edit + 2}")


def test_a_lost_connection_is_said_and_comes_back(open_page: OpenPage) -> None:
    page = open_page()
    sockets: list[WebSocketRoute] = []

    def pass_on(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/ws", pass_on)
    page.reload()
    edit_of(page)
    run_on(page, "dae", 4_096)
    expect(page.locator("#run-main canvas")).to_have_count(LANES)
    sockets[0].close(code=1012, reason="restart")
    expect(page.locator("#run-main")).to_contain_text("The server went away while this ran")
    expect(page.locator("#said")).to_have_text("Connected again.")
    run_on(page, "dae", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches")


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
