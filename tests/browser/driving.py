"""What the browser tests do to the page, in the words of a reader."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

UP_TO_DATE = re.compile(r"Up to date with edit (\d+)")

DISTMULT = """dim D = 8

score DistMult(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, D]
    return sum(E[h] * R[r] * E[t])
"""


def write(page: Page, text: str) -> None:
    """Select all of the editor's text and paste another."""
    page.locator("#editor .cm-content").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.evaluate(
        """(text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
            document.querySelector("#editor .cm-content").dispatchEvent(paste);
        }""",
        text,
    )


def change(page: Page, old: str, new: str) -> None:
    """Replace a piece of the editor's text."""
    text = editor_text(page)
    assert old in text
    write(page, text.replace(old, new))


def visit(page: Page, address: str) -> None:
    """Load the page, and wait for its scripts, which come after the first frame: a click before them is lost."""
    page.goto(address)
    page.wait_for_selector("#editor .cm-content", state="attached")


def reload(page: Page) -> None:
    """Load the page again, as `visit` does."""
    page.reload()
    page.wait_for_selector("#editor .cm-content", state="attached")


def editor_text(page: Page) -> str:
    """The editor's text, without what stands between its lines."""
    return "\n".join(page.locator("#editor .cm-line").all_inner_texts()).replace("\n\n\n", "\n\n")


def edit_of(page: Page) -> int:
    """The edit that the page says it is up to date with."""
    expect(page.locator("#status")).to_have_text(UP_TO_DATE)
    found = UP_TO_DATE.search(page.locator("#status").inner_text())
    assert found
    return int(found[1])


def expect_edit_after(page: Page, edit: int) -> None:
    """Wait for the stages of a newer edit."""
    expect(page.locator("#facts")).not_to_have_attribute("data-facts", re.compile(rf'"edit": {edit}\b'))
    expect(page.locator("#status")).to_have_text(UP_TO_DATE)


A_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""By then the page knows how large its parts are, and has arranged them."""
A_MOMENT = "new Promise((done) => setTimeout(done, 300))"
"""By then the page has kept what changed: its timers end in their order, also where it has no core for a while."""


def wait_until_kept(page: Page, piece: str) -> None:
    """Wait until what the page keeps for a reload contains a piece of JSON: it is written a moment after an edit."""
    page.wait_for_function("piece => (sessionStorage.explorer ?? '').includes(piece)", arg=piece)


def pane(page: Page, stage: str) -> Locator:
    """The pane that shows a stage."""
    return page.locator(f'.pane[data-stage="{stage}"]')


def point_at_model(page: Page, token: str, line: str) -> None:
    """Move the mouse onto a token of the line of the model that contains `line`."""
    box = page.evaluate(
        """([token, line]) => {
            const element = [...document.querySelectorAll(".cm-line")].find((l) => l.textContent.includes(line));
            const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode()); ) {
                const at = node.data.indexOf(token);
                if (at < 0) continue;
                const range = document.createRange();
                range.setStart(node, at);
                range.setEnd(node, at + token.length);
                const { x, y, width, height } = range.getBoundingClientRect();
                return [x + width / 2, y + height / 2];
            }
        }""",
        [token, line],
    )
    page.mouse.move(0, 0)
    page.mouse.move(*box)


def operation(page: Page, label: str) -> str:
    """The number of the operation with a label."""
    number = page.locator(f'#operations [data-label="{label}"]').first.get_attribute("data-operation")
    assert number is not None
    return number


def run_on(page: Page, target: str, batch: int) -> None:
    """Open the dock, choose where and how much, and press Run."""
    if page.locator("#dock-body").is_hidden():
        page.locator("#dock-toggle").click()
    page.locator(f'.seg [data-target="{target}"]').click()
    page.locator("#run-batch").fill(str(batch))
    page.locator("#run").click()
