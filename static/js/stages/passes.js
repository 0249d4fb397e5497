// The lists of passes: which are shown, what is open in them, and what a pass is compared with. A swap makes a list
// anew; it must stay where it was.
import { around, byId, need, query, queryAll } from "../dom.js";
import { say } from "../page.js";
import { on, state } from "../state.js";
import { changePane, paneElements } from "./panes.js";

let filter = "";
// By stage the passes whose disclosures are open, and where its list is scrolled to.
/** @type {Map<string, { open: Set<string>, top: number, outer: number }>} */
const places = new Map();
/** @type {{ stage: string, start: number | null } | null} where in the filter one types */
let typing = null;
// Whether a swap's lists are still to be put where they were: not all that is painted anew comes with a swap, and an
// answer whose texts could not be put together is followed by another before it is painted.
let isSwapped = false;

const panesWithLists = () => paneElements().filter((pane) => pane.querySelector(".passes"));
/** @param {HTMLElement} pane */
const filterOf = (pane) => need(pane, '[data-act="pass-filter"]', HTMLInputElement);

/** @param {HTMLElement} pane */
function placeOf(pane) {
  const open = queryAll(pane, ".passes details[open]").map(({ dataset }) => dataset.details ?? "");
  return { open: new Set(open), top: need(pane, ".passes ol").scrollTop, outer: need(pane, ".with-passes").scrollTop };
}

function remember() {
  if (isSwapped) return;
  isSwapped = true;
  typing = null;
  for (const pane of panesWithLists()) {
    const { stage = "" } = pane.dataset;
    places.set(stage, placeOf(pane));
    const field = filterOf(pane);
    if (field === document.activeElement) typing = { stage, start: field.selectionStart };
  }
}

function restore() {
  if (!isSwapped) return;
  isSwapped = false;
  for (const pane of panesWithLists()) {
    const { stage = "" } = pane.dataset;
    const place = places.get(stage);
    for (const details of queryAll(pane, ".passes details", HTMLDetailsElement))
      details.open = place?.open.has(details.dataset.details ?? "") ?? false;
    showMatching(pane);
    need(pane, ".passes ol").scrollTop = place?.top ?? 0;
    need(pane, ".with-passes").scrollTop = place?.outer ?? 0;
    showCurrent(pane);
    if (typing?.stage !== stage) continue;
    filterOf(pane).focus({ preventScroll: true });
    filterOf(pane).setSelectionRange(typing.start, typing.start);
  }
}

/**
 * Scrolls a list, and nothing around it, as far as its current pass needs.
 * @param {HTMLElement} pane
 */
function showCurrent(pane) {
  const list = need(pane, ".passes ol");
  const current = query(list, ".pass[aria-current]");
  if (!current) return;
  const inner = current.getBoundingClientRect();
  const outer = list.getBoundingClientRect();
  if (inner.top < outer.top) list.scrollTop += inner.top - outer.top;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}

/** @param {HTMLElement} pane */
function showMatching(pane) {
  const field = filterOf(pane);
  if (field.value !== filter) field.value = filter;
  const wanted = filter.trim().toLowerCase().replaceAll(" ", "_");
  for (const row of queryAll(pane, ".passes ol > li")) row.hidden = !(row.dataset.name ?? "").includes(wanted);
}

/**
 * The next pass of the active pane that changed something, or the one before.
 * @param {number} by
 */
export function stepChange(by) {
  const pane = paneElements()[state.active];
  const { changes = "", last } = pane?.dataset ?? {};
  if (!pane || !changes) return say("No pass of this pane changed anything.");
  const at = state.panes[state.active].at ?? Number(last); // what was asked for last, perhaps not yet here
  const numbers = changes.split(" ").map(Number);
  const next = by > 0 ? numbers.find((number) => number > at) : numbers.findLast((number) => number < at);
  if (next === undefined) return say(by > 0 ? "No later pass changed anything." : "No earlier pass changed anything.");
  changePane(state.active, { at: String(next) === last ? null : next });
}

/**
 * @param {number} index
 * @param {string} point "" for nothing, "given", or a stage and the number of a pass
 */
export function compareWith(index, point) {
  const [stage, at] = point.split(" ");
  const versus = at === undefined ? null : { stage, at: Number(at) };
  changePane(index, { diff: point !== "", versus, ...(point && { drawn: false }) });
}

export function startPasses() {
  on("before-swap", remember);
  on("painted", restore);
  byId("panes").addEventListener("input", ({ target }) => {
    const field = around(target, '[data-act="pass-filter"]');
    if (!(field instanceof HTMLInputElement)) return;
    filter = field.value;
    panesWithLists().forEach(showMatching);
  });
}
