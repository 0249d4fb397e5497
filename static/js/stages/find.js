// Find in the active pane: a field over its text, every match marked, the one in hand brought into sight.
import { around, h, need, query as queryIn, queryAll } from "../dom.js";
import { activePane, ROW } from "./panes.js";
import { showRest } from "./rest.js";
import { on } from "../state.js";

const MOST = 2000; // matches marked; more are counted as "more than"

/** @type {HTMLElement | null} */
let bar = null;
let query = "";
/** @type {{ line: Element, range: Range }[]} */
let matches = [];
let current = 0;

// A browser without highlights still marks the lines.
const marks = "Highlight" in globalThis ? CSS.highlights : null;

const fieldOf = (/** @type {HTMLElement} */ form) => need(form, "input", HTMLInputElement);

export function openFind() {
  const pane = activePane();
  if (!pane) return;
  bar ??= makeBar();
  pane.append(bar);
  const field = fieldOf(bar);
  field.value = query;
  field.focus();
  field.select();
  search(bar);
  findInAll(bar, pane);
}

// What is looked for may stand behind the lines that are there.
/**
 * @param {HTMLElement} form
 * @param {HTMLElement} pane
 */
async function findInAll(form, pane) {
  await showRest(pane);
  if (form.isConnected) search(form);
}

function makeBar() {
  /**
   * @param {string} label
   * @param {string} by
   * @param {string} sign
   */
  const button = (label, by, sign) => h("button.ib", { type: "button", "aria-label": label, title: label, "data-find": by }, sign);
  const form = h(
    "form.find",
    { role: "search" },
    h("input.field", { type: "search", "aria-label": "Find in the pane", placeholder: "find", spellcheck: "false" }),
    h("output.label", { "aria-live": "polite" }),
    button("Match before (Shift Enter)", "-1", "↑"),
    button("Match after (Enter)", "1", "↓"),
    button("Close (Esc)", "close", "×"),
  );
  form.addEventListener("input", () => {
    query = fieldOf(form).value;
    current = 0;
    search(form);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(form, event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") close(form);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  form.addEventListener("click", ({ target }) => {
    const what = around(target, "[data-find]")?.dataset.find;
    if (what === "close") close(form);
    else if (what) step(form, Number(what));
  });
  return form;
}

/** @param {HTMLElement} form */
function close(form) {
  const pane = form.closest(".pane");
  form.remove();
  clear();
  if (pane) queryIn(pane, ".body")?.focus({ preventScroll: true });
}

function clear() {
  for (const { line } of matches) line.classList.remove("found");
  matches = [];
  marks?.delete("found");
  marks?.delete("found-now");
}

/**
 * All matches in the lines of the pane, in order; a line's text may be in several pieces.
 * @param {HTMLElement} form
 */
function search(form) {
  clear();
  const pane = form.closest(".pane");
  if (query && pane) {
    for (const text of queryAll(pane, ".l > .t")) {
      const line = text.parentElement;
      if (!line || matches.length >= MOST) break;
      for (const at of placesIn(text.textContent.toLowerCase(), query.toLowerCase()))
        matches.push({ line, range: rangeOf(text, at, at + query.length) });
    }
  }
  current = Math.min(current, Math.max(0, matches.length - 1));
  if (marks) marks.set("found", new Highlight(...matches.map(({ range }) => range)));
  paint(form);
}

/**
 * @param {string} text
 * @param {string} word
 */
function* placesIn(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) yield at;
}

/**
 * @param {HTMLElement} element
 * @param {number} start
 * @param {number} end
 */
function rangeOf(element, start, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let before = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const { length } = node.textContent ?? "";
    if (start >= before && start <= before + length) range.setStart(node, start - before);
    if (end > before && end <= before + length) {
      range.setEnd(node, end - before);
      break;
    }
    before += length;
  }
  return range;
}

/**
 * @param {HTMLElement} form
 * @param {number} by
 */
function step(form, by) {
  if (!matches.length) return;
  current = (current + by + matches.length) % matches.length;
  paint(form);
}

/** @param {HTMLElement} form */
function paint(form) {
  const count = matches.length;
  need(form, "output").textContent = !query ? "" : count ? `${current + 1} of ${count >= MOST ? `more than ${MOST}` : count}` : "none";
  for (const { line } of matches) line.classList.remove("found");
  const match = matches[current];
  if (!match) return;
  match.line.classList.add("found");
  marks?.set("found-now", new Highlight(match.range));
  const body = match.line.closest(".body");
  if (!body) return;
  match.line.closest("details")?.setAttribute("open", "");
  const top = match.line.getBoundingClientRect().top - body.getBoundingClientRect().top;
  // The bar covers the first two lines.
  if (top < 2 * ROW || top + ROW > body.clientHeight) body.scrollTop += top - Math.floor(body.clientHeight / 3 / ROW) * ROW;
}

export function startFind() {
  on("before-swap", () => {
    if (bar?.isConnected) bar.dataset.reopen = bar.closest(".pane")?.id ?? "";
  });
  on("painted", () => {
    const pane = bar?.dataset.reopen ? document.getElementById(bar.dataset.reopen) : null;
    if (!bar || !pane) return;
    delete bar.dataset.reopen;
    const isFocused = bar.contains(document.activeElement) || document.activeElement === document.body;
    pane.append(bar);
    if (isFocused) fieldOf(bar).focus({ preventScroll: true });
    search(bar);
  });
}
