"""Data of a reader's own: dropped onto the page or chosen by keys, sent, chosen for runs, and gone with the page."""

from __future__ import annotations

import io

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import edit_of, editor_text, expect_edit_after, reload, run_on, write

pytestmark = pytest.mark.browser

SUM = "op Sum(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n"
TRIPLES = "".join(f"e{at % 7}\tr{at % 2}\te{(at * 3) % 7}\n" for at in range(30))


def drag(page: Page, kind: str, name: str = "", text: str = "") -> None:
    """A file is dragged over the page, or dropped there."""
    page.evaluate(
        """([kind, name, text]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], name));
            document.querySelector("#panes").dispatchEvent(
                new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        [kind, name or "some.tsv", text],
    )


def chosen(page: Page) -> str:
    found: str = page.locator("#run-data").evaluate("list => list.selectedOptions[0].textContent")
    return found


def bags() -> bytes:
    found = io.BytesIO()
    np.savez(found, ptr=np.array([0, 2, 5, 9]), idx=np.array([1, 0, 2, 2, 1, 3, 3, 0, 1]))
    return found.getvalue()


def test_a_tsv_that_is_dropped_is_what_the_next_run_takes(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    drag(page, "dragenter")
    expect(page.locator("#drop-target")).to_be_visible()
    drag(page, "drop", "friends.tsv", TRIPLES)
    expect(page.locator("#drop-target")).to_be_hidden()
    expect(page.locator("#data-about")).to_have_text("7 entities, 2 relations, 30 triples")
    assert chosen(page) == "friends.tsv (dropped)"
    assert page.locator("#run-data option").first.inner_text() == "friends.tsv (dropped)"
    run_on(page, "cpu", 16)
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")
    expect(page.locator("#run-history tr").first).to_contain_text("friends.tsv")
    expect(page.locator("#run-device")).to_contain_text("friends.tsv")
    reload(page)
    page.locator("#dock-toggle").click()
    expect(page.locator("#run-data option").first).to_have_text("friends.tsv (dropped)")


def test_a_run_that_is_brought_back_has_its_own_data(open_page: OpenPage) -> None:
    """Also once the list is made anew for another family, in the place of a file that was dropped after it."""
    page = open_page()
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#run-data").select_option("family.tsv")
    run_on(page, "cpu", 16)
    drag(page, "drop", "friends.tsv", TRIPLES)
    expect(page.locator("#data-about")).to_have_text("7 entities, 2 relations, 30 triples")
    page.locator("#run-history tr button").first.click()
    expect(page.locator("#run-data")).to_have_value("family.tsv")
    score = editor_text(page)
    for text, family in ((SUM, "op"), (score, "score")):
        write(page, text)
        expect(page.locator("#dock")).to_have_attribute("data-family", family)
    expect(page.locator("#run-data")).to_have_value("family.tsv")


def test_real_data_stand_before_what_is_generated(open_page: OpenPage) -> None:
    page = open_page()
    edit_of(page)
    groups = page.locator("#run-data optgroup")
    expect(groups).to_have_count(2)
    assert "family.tsv (file)" in groups.nth(0).locator("option").all_inner_texts()
    generated = groups.nth(1).locator("option").all_inner_texts()
    assert generated
    assert all("generated" in label for label in generated)


def test_by_keys_a_file_is_chosen_and_what_is_wrong_is_told(open_page: OpenPage) -> None:
    page = open_page(complains=("error: Failed to load resource", "Failed to load resource"))
    edit_of(page)
    page.locator("#dock-toggle").click()
    page.locator("#data-file").focus()
    field = page.locator("#data-input")
    # That the browser is asked for a file: that it then asks the reader, its headless form sometimes leaves out.
    field.evaluate("field => field.addEventListener('click', () => field.dataset.asked = 'yes')")
    page.keyboard.press("Enter")
    expect(field).to_have_attribute("data-asked", "yes")
    field.set_input_files({"name": "bad.tsv", "mimeType": "text/plain", "buffer": b"a\tr\tb\na r b\n"})
    problem = page.locator("#data-problem")
    expect(problem).to_contain_text("bad.tsv: line 2: expected head TAB relation TAB tail, found 1 field")
    expect(problem).to_be_in_viewport()
    expect(page.locator("#data-file")).to_have_text("file…")
    expect(page.locator("#data-file")).to_be_focused()
    field.set_input_files({"name": "bags.npz", "mimeType": "application/zip", "buffer": bags()})
    expect(problem).to_have_text(
        "bags.npz is kept, as data of ops over bags, which this definition is none of. It is chosen when one is."
    )
    edit = edit_of(page)
    page.locator("button.pick").click()
    page.locator('#examples [data-example="embedding/sls"]').first.click()
    expect_edit_after(page, edit)
    expect(page.locator("#run-data option").first).to_contain_text("bags.npz (3 lists, 9 entries) (dropped)")
    assert chosen(page).startswith("bags.npz")
    page.locator('.seg [data-target="cpu"]').click()
    page.locator("#run").click()
    expect(page.locator("#run-check")).to_contain_text("Matches the float64 reference")


def test_a_model_s_text_that_is_dropped_is_still_opened(open_page: OpenPage) -> None:
    page = open_page()
    edit = edit_of(page)
    drag(
        page,
        "drop",
        "mine.txt",
        "score Mine(h: entity, r: relation, t: entity):\n    param E[entity, 4]\n    return sum(E[h] * E[t])\n",
    )
    expect_edit_after(page, edit)
    expect(page.locator("#model-file")).to_have_text("mine.txt")
