"""Finding in a pane, and the graph drawn."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, expect_edit_after, operation, pane, point_at_model

pytestmark = pytest.mark.browser


def test_slash_finds_in_the_active_pane(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    pane(page, "loops").locator(".body").click()
    page.keyboard.press("/")
    field = page.get_by_label("Find in the pane")
    expect(field).to_be_focused()
    page.keyboard.type("for ")
    expect(pane(page, "loops").locator(".find output")).to_have_text(re.compile(r"^1 of \d+$"))
    first = pane(page, "loops").locator(".l.found").inner_text()
    page.keyboard.press("Enter")
    expect(pane(page, "loops").locator(".find output")).to_have_text(re.compile(r"^2 of \d+$"))
    assert pane(page, "loops").locator(".l.found").inner_text() != first
    field.fill("no such thing")
    expect(pane(page, "loops").locator(".find output")).to_have_text("none")
    page.keyboard.press("Escape")
    expect(page.locator(".find")).to_have_count(0)


def test_a_search_goes_on_in_the_text_of_a_new_edit(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    pane(page, "loops").locator(".body").click()
    page.keyboard.press("/")
    page.keyboard.type("size D = 3")
    expect(pane(page, "loops").locator(".find output")).to_have_text("none")
    page.locator('[data-size="D"] .field').fill("33")
    expect_edit_after(page, edit)
    expect(pane(page, "loops").locator(".find output")).to_have_text("1 of 1")


def test_the_graph_is_drawn_and_linked(open_page: OpenPage) -> None:
    page = open_page()
    graph = pane(page, "graph")
    values = graph.locator(".l", has_text=re.compile(r"%\d+ = ")).count()
    graph.locator("[data-act=drawn]").click()
    expect(graph.locator(".nd.value, .nd.result")).to_have_count(values)
    expect(graph.locator(".nd.tensor")).to_have_count(3)
    point_at_model(page, "@", "return norm")
    number = operation(page, "@")
    expect(graph.locator(f'.nd.lit[data-operations~="{number}"]')).not_to_have_count(0)
    expect(graph.locator("[data-lit]")).to_contain_text("node")
    # A click on a node pins its operation everywhere, as one on a line does.
    graph.locator(".nd", has_text="norm<2>").click()
    page.mouse.move(800, 5)
    expect(graph.locator(".nd.pin")).to_contain_text("norm<2>")
    expect(pane(page, "loops").locator(".l.pin")).not_to_have_count(0)
    graph.locator("[data-act=text]").click()
    expect(graph.locator(".l.pin")).to_contain_text(["norm<2>"])


def test_the_drawing_follows_the_pass(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    graph = pane(page, "graph")
    graph.locator("[data-act=drawn]").click()
    expect(graph.locator(".nd.uniq")).not_to_have_count(0)
    after = graph.locator(".nd").count()
    for _ in range(6):
        step = graph.locator("[data-at]").or_(graph).get_attribute("data-at")
        graph.locator("[data-act=pass-before]").click()
        expect(graph).not_to_have_attribute("data-at", step or "")
    expect(graph.locator(".nd.uniq")).to_have_count(0)
    assert graph.locator(".nd").count() != after


def test_a_drawing_is_zoomed_and_fitted(open_page: OpenPage) -> None:
    page = open_page("/?example=rgnn/rgat")
    graph = pane(page, "graph")
    graph.locator("[data-act=drawn]").click()
    expect(graph.locator(".zoom output")).to_have_text("70 %")
    graph.locator("[data-zoom=in]").click()
    expect(graph.locator(".zoom output")).to_have_text("88 %")
    graph.locator("[data-zoom=fit]").click()
    box = graph.locator(".drawing")
    assert box.evaluate("element => element.scrollHeight <= element.clientHeight + 1")
