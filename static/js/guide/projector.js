// Twice the size, for who sits far away; the address says so, and a link opens like that.
import { around, byId, need, queryAll } from "../dom.js";
import { fitPanes } from "../stages/panes.js";
import { emit, keep } from "../state.js";

const NAME = "projector";
const root = document.documentElement;

/** @param {boolean} isOn */
function show(isOn) {
  root.toggleAttribute("data-projector", isOn);
  if (isOn) for (const part of queryAll(document, ".model > details", HTMLDetailsElement)) part.open = false;
  need(document, '.top > [data-act="projector"]').setAttribute("aria-pressed", String(isOn));
}

export function toggleProjector() {
  const isOn = !root.hasAttribute("data-projector");
  show(isOn);
  const address = new URL(location.href);
  if (isOn) address.searchParams.set(NAME, "1");
  else address.searchParams.delete(NAME);
  history.replaceState(null, "", address);
  keep();
  fitPanes();
  emit("painted", undefined);
}

// The menu that small screens have in place of the bar's buttons presses these.
function startMenu() {
  const menu = byId("actions");
  /** @param {HTMLElement} item */
  const buttonOf = (item) => need(document, `.top > [data-act="${item.dataset.press}"]`);
  menu.addEventListener("click", ({ target }) => {
    const item = around(target, "[data-press]");
    if (!item) return;
    menu.hidePopover();
    buttonOf(item).click();
  });
  menu.addEventListener("beforetoggle", () => {
    for (const item of queryAll(menu, "[data-press]")) {
      const pressed = buttonOf(item).getAttribute("aria-pressed");
      if (pressed) item.setAttribute("aria-pressed", pressed);
    }
  });
}

export function startProjector() {
  show(new URLSearchParams(location.search).has(NAME));
  fitPanes();
  startMenu();
}
