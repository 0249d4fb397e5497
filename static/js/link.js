// One operation, lit everywhere: in the model, in every pane, in the counts. Only classes are toggled.
import { indexLines, linesOfOperations, paintCounts, paintRail, reveal, scrolled } from "./lines.js";
import { activePane } from "./panes.js";
import { emit, isBroken, on } from "./state.js";

let lit = []; // the operations under the pointer or the keyboard
let pin = null; // the operation that stays
let shown = null; // the operation in the panel
let facts = new Map(); // operation -> its facts in the panel, in the order of the text
let marked = { lit: new Set(), pin: new Set() }; // the lines that carry a class now

export const pinned = () => pin;

function index() {
  mark({ lit: new Set(), pin: new Set() });
  indexLines();
  const all = document.querySelectorAll("#operations [data-operation]");
  facts = new Map([...all].map((element) => [Number(element.dataset.operation), element]));
}

// Toggle the class of the lines that gain or lose it, and of no other.
function mark(wanted) {
  for (const name of ["lit", "pin"]) {
    for (const line of marked[name]) if (!wanted[name].has(line)) line.classList.remove(name);
    for (const line of wanted[name]) if (!marked[name].has(line)) line.classList.add(name);
  }
  marked = wanted;
}

function paint() {
  const shownLit = isBroken() ? [] : lit;
  const shownPin = isBroken() || pin === null || lit.includes(pin) ? [] : [pin];
  mark({ lit: linesOfOperations(shownLit), pin: linesOfOperations(shownPin) });
  paintCounts(marked.lit.size ? marked.lit : marked.pin);
  paintRail(shownLit.length ? shownLit : shownPin);
  paintPanel((lit.length ? lit : pin === null ? [] : [pin]).at(-1) ?? shown);
  emit("marks", isBroken() ? { lit: [], pin: null } : { lit, pin });
}

function paintPanel(id) {
  const before = facts.get(shown);
  const now = facts.get(id);
  if (before !== now && before) before.hidden = true;
  if (now) now.hidden = false;
  shown = now ? id : null;
  document.getElementById("operation-none").hidden = !!now;
  document.getElementById("operation-label").textContent = now?.dataset.label ?? "";
  document.getElementById("operation-op").textContent = now?.dataset.op ?? "";
  const button = document.querySelector('[data-act="pin"]');
  button.disabled = !now;
  const isPinned = !!now && pin === id;
  button.setAttribute("aria-pressed", String(isPinned));
  button.querySelector("span").textContent = isPinned ? "Unpin" : "Pin";
  button.querySelector("kbd").textContent = isPinned ? "Esc" : "p";
}

export function point(ids) {
  if (ids.length === lit.length && ids.every((id, at) => id === lit[at])) return;
  lit = ids;
  paint();
}

export function togglePin(id = lit.at(-1) ?? shown) {
  if (id === null || id === undefined) return;
  pin = pin === id ? null : id;
  paint();
}

export function unpin() {
  if (pin === null) return false;
  pin = null;
  paint();
  return true;
}

// The operation before or after, in the order of the text.
export function stepOperation(by) {
  const ids = [...facts.keys()];
  if (!ids.length || isBroken()) return;
  const at = ids.indexOf(lit.at(-1) ?? shown);
  const next = at < 0 ? (by > 0 ? 0 : ids.length - 1) : (at + by + ids.length) % ids.length;
  const tops = scrolled();
  point([ids[next]]);
  reveal(marked.lit, tops);
}

let cursor = null;
export function stepLine(by) {
  const lines = [...(activePane()?.querySelectorAll(".l.lit, .l.pin") ?? [])];
  if (!lines.length) return;
  const at = lines.indexOf(cursor);
  cursor?.classList.remove("at");
  cursor = lines[at < 0 ? (by > 0 ? 0 : lines.length - 1) : (at + by + lines.length) % lines.length];
  cursor.classList.add("at");
  cursor.scrollIntoView({ block: "nearest" });
}

const idsOf = (element) => {
  const line = element?.closest?.("[data-operations]");
  return line ? line.dataset.operations.split(" ").map(Number) : [];
};

export function startLink() {
  const panes = document.getElementById("panes");
  panes.addEventListener("mouseover", ({ target }) => !isBroken() && point(idsOf(target)));
  panes.addEventListener("mouseleave", () => point([]));
  document.getElementById("stages").addEventListener("click", ({ target }) => {
    if (!getSelection().isCollapsed || isBroken()) return;
    const ids = idsOf(target);
    if (!ids.length) return;
    point(ids);
    togglePin(ids.at(-1));
  });
  on("point", (ids) => !isBroken() && point(ids));
  on("facts", ({ ok }) => !ok && point([]));
  // What is lit, pinned or in the panel stays with its operation, and goes with it.
  on("renumbered", (successors) => {
    lit = lit.filter((id) => successors.has(id)).map((id) => successors.get(id));
    pin = successors.get(pin) ?? null;
    shown = successors.get(shown) ?? null;
  });
  on("painted", () => {
    index();
    paint();
  });
  index();
}
