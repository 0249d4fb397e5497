// Find in the active pane: a field over its text, every match marked, the one in hand brought into sight.
import { byId, h } from "./dom.js";
import { activePane, ROW } from "./panes.js";
import { on } from "./state.js";

const MOST = 2000; // matches marked; more are counted as "more than"

let bar = null;
let query = "";
let matches = []; // {line, range}
let current = 0;

const marks = globalThis.Highlight && globalThis.CSS?.highlights ? CSS.highlights : null;

export function openFind() {
  if (!activePane()) return;
  bar ??= makeBar();
  activePane().append(bar);
  const field = bar.querySelector("input");
  field.value = query;
  field.focus();
  field.select();
  search();
}

function makeBar() {
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
  form.addEventListener("input", ({ target }) => {
    query = target.value;
    current = 0;
    search();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") closeFind();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  form.addEventListener("click", ({ target }) => {
    const what = target.closest("[data-find]")?.dataset.find;
    if (what === "close") closeFind();
    else if (what) step(Number(what));
  });
  return form;
}

function closeFind() {
  const pane = bar.closest(".pane");
  bar.remove();
  clear();
  pane?.querySelector(".body")?.focus({ preventScroll: true });
}

function clear() {
  for (const { line } of matches) line.classList.remove("found");
  matches = [];
  marks?.delete("found");
  marks?.delete("found-now");
}

// All matches in the lines of the pane, in order; a line's text may be in several pieces.
function search() {
  clear();
  const pane = bar.closest(".pane");
  if (query && pane) {
    for (const text of pane.querySelectorAll(".l > .t")) {
      if (matches.length >= MOST) break;
      for (const at of placesIn(text.textContent.toLowerCase(), query.toLowerCase()))
        matches.push({ line: text.parentElement, range: marks && rangeOf(text, at, at + query.length) });
    }
  }
  current = Math.min(current, Math.max(0, matches.length - 1));
  if (marks) marks.set("found", new Highlight(...matches.map(({ range }) => range)));
  paint();
}

function* placesIn(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) yield at;
}

function rangeOf(element, start, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let before = 0;
  for (let node; (node = walker.nextNode()); before += node.length) {
    if (start >= before && start <= before + node.length) range.setStart(node, start - before);
    if (end > before && end <= before + node.length) {
      range.setEnd(node, end - before);
      break;
    }
  }
  return range;
}

function step(by) {
  if (!matches.length) return;
  current = (current + by + matches.length) % matches.length;
  paint();
}

function paint() {
  const count = matches.length;
  bar.querySelector("output").textContent = !query ? "" : count ? `${current + 1} of ${count >= MOST ? `more than ${MOST}` : count}` : "none";
  for (const { line } of matches) line.classList.remove("found");
  const match = matches[current];
  if (!match) return;
  match.line.classList.add("found");
  marks?.set("found-now", new Highlight(match.range));
  const body = match.line.closest(".body");
  const top = match.line.getBoundingClientRect().top - body.getBoundingClientRect().top;
  // The bar covers the first two lines.
  if (top < 2 * ROW || top + ROW > body.clientHeight) body.scrollTop += top - Math.floor(body.clientHeight / 3 / ROW) * ROW;
}

export function startFind() {
  on("before-swap", () => {
    if (bar?.isConnected) bar.dataset.reopen = bar.closest(".pane")?.id ?? "";
  });
  on("painted", () => {
    const pane = bar?.dataset.reopen ? byId(bar.dataset.reopen) : null;
    if (!pane) return;
    delete bar.dataset.reopen;
    const isFocused = bar.contains(document.activeElement) || document.activeElement === document.body;
    pane.append(bar);
    if (isFocused) bar.querySelector("input").focus({ preventScroll: true });
    search();
  });
}
