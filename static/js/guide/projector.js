// Twice the size, for who sits far away; the address says so, and a link opens like that.
import { byId, queryAll } from "../dom.js";
import { fitPanes } from "../stages/panes.js";
import { emit, keep } from "../state.js";

const NAME = "projector";
const root = document.documentElement;

/** @param {boolean} isOn */
function show(isOn) {
  root.toggleAttribute("data-projector", isOn);
  if (isOn) for (const part of queryAll(document, ".model > details", HTMLDetailsElement)) part.open = false;
  for (const button of document.querySelectorAll('[data-act="projector"]')) button.setAttribute("aria-pressed", String(isOn));
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

export function startProjector() {
  show(new URLSearchParams(location.search).has(NAME));
  fitPanes();
  // What is chosen in the menu of a small screen closes it.
  byId("actions").addEventListener("click", () => byId("actions").hidePopover());
}
