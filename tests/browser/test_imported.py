"""Models imported from PyTorch: the source beside the text, and each line leads to the other, by pointer and by key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import (
    DISTMULT,
    change,
    edit_of,
    expect_edit_after,
    point_at_model,
    reload,
    wait_until_kept,
    write,
)
from tests.browser.test_accessibility import AXE, violations

pytestmark = pytest.mark.browser

LIT = "#imported .l.lit .g"


def line_of(page: Page, piece: str):
    return page.locator("#imported button.l", has_text=piece)


def open_imported(page: Page) -> None:
    page.locator("[popovertarget=examples]").first.click()
    page.locator("[data-act=imported]").click()
    page.locator("#sheet .gallery a", has_text="TransE").click()
    expect(page.locator("#example-file")).to_have_text("transe.emb")


def test_a_module_opens_beside_its_text_and_lines_lead_both_ways(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    expect(page.locator("#imported")).to_be_hidden()
    page.locator("[popovertarget=examples]").first.click()
    page.locator("[data-act=imported]").click()
    assert violations(page, Path(AXE).read_text(encoding="utf-8")) == []
    page.locator("#sheet .gallery a", has_text="GAT").click()
    expect(page.locator("#sheet")).to_be_hidden()
    expect(page.locator("#example-file")).to_have_text("gat.emb")
    expect(page.locator("#imported")).to_contain_text("class GAT(nn.Module):")
    expect_edit_after(page, edit)

    line_of(page, "torch.exp(score").hover()
    expect(page.locator("#editor .cm-line:has(.o-lit)")).to_have_text(re.compile("exp"))
    expect(page.locator("#pane-1 .l.lit")).not_to_have_count(0)
    expect(page.locator(LIT)).to_have_text(["12"])
    point_at_model(page, "leaky_relu", "leaky_relu")
    expect(page.locator(LIT)).to_have_text(["31"])
    page.mouse.move(0, 0)

    line_of(page, "torch.exp(score").focus()
    page.keyboard.press("Tab")
    expect(page.locator(LIT)).to_have_text(["13"])
    expect(page.locator("#editor .cm-line:has(.o-lit)")).to_have_text(re.compile("total"))
    page.keyboard.press("Enter")
    expect(page.locator("[data-act=pin]")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    for theme in ("light", "dark"):
        page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
        assert violations(page, Path(AXE).read_text(encoding="utf-8")) == []


def test_links_follow_a_text_that_is_edited_and_the_source_goes_with_its_model(open_page: OpenPage) -> None:
    page = open_page("/?example=pytorch/transe")
    edit = edit_of(page)
    expect(page.locator("#imported")).to_contain_text("class TransE(nn.Module):")
    change(page, "    param", "    # of both\n    param")
    expect_edit_after(page, edit)
    line_of(page, "t = F.normalize").hover()
    expect(page.locator("#editor .cm-line:has(.o-lit)")).to_have_text(re.compile("tail"))
    reload(page)
    expect(page.locator("#imported")).to_contain_text("class TransE(nn.Module):")
    page.locator("[data-act=source-close]").click()
    expect(page.locator("#imported")).to_be_hidden()
    page.locator("[popovertarget=examples]").first.click()
    page.locator('[data-example="kge/distmult"]').first.click()
    expect(page.locator("#example-file")).to_have_text("distmult.emb")
    expect(page.locator("#imported")).to_be_hidden()


def test_the_source_is_out_of_sight_while_another_text_stands_in_the_place_of_its_model(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    source = page.locator("#imported")
    open_imported(page)
    expect(source).to_contain_text("class TransE(nn.Module):")
    write(page, DISTMULT)
    expect(source).to_be_hidden()
    wait_until_kept(page, "DistMult")
    reload(page)
    edit_of(page)
    expect(page.locator("#editor")).to_contain_text("DistMult")
    expect(source).to_be_hidden()
    change(page, "D = 8", "D = 16")
    expect(source).to_be_hidden()
    open_imported(page)
    expect(source).to_be_visible()
    change(page, "    param", "    # of both\n    param")
    expect(source).to_be_visible()
    write(page, DISTMULT)
    expect(source).to_be_hidden()
    page.keyboard.press("ControlOrMeta+z")
    expect(source).to_contain_text("class TransE(nn.Module):")
    expect(source).to_be_visible()
