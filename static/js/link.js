// One operation, lit everywhere: in the model, in every pane, in the counts. Only classes are toggled.
import { emit, isBroken, on, state } from "./state.js";
import { activePane, bodiesOf, paneElements } from "./panes.js";

let lit = []; // the operations under the pointer or the keyboard
let pin = null; // the operation that stays
let linesOf = new Map(); // operation -> line elements, over all panes
let marked = []; // elements that carry a class now
let shown = null; // the operation in the panel

export const pinned = () => pin;

function index() {
  linesOf = new Map();
  for (const line of document.querySelectorAll("#panes [data-operations], #source [data-operations]")) {
    for (const id of line.dataset.operations.split(" ").map(Number)) {
      if (!linesOf.has(id)) linesOf.set(id, []);
      linesOf.get(id).push(line);
    }
  }
}

function paint() {
  for (const [element, name] of marked) element.classList.remove(name);
  marked = [];
  const mark = (ids, name) => {
    for (const id of ids) {
      for (const line of linesOf.get(id) ?? []) {
        line.classList.add(name);
        marked.push([line, name]);
      }
    }
  };
  if (!isBroken()) {
    mark(lit, "lit");
    if (pin !== null && !lit.includes(pin)) mark([pin], "pin");
  }
  const ids = lit.length ? lit : pin === null ? [] : [pin];
  paintPanes();
  paintRail(isBroken() ? [] : ids);
  paintPanel(ids.at(-1) ?? shown);
  emit("marks", isBroken() ? { lit: [], pin: null } : { lit, pin });
}

function paintPanes() {
  for (const pane of paneElements()) {
    const scope = pane.querySelector(".side:last-child") ?? pane;
    const chosen = scope.querySelectorAll(".l.lit").length ? ".l.lit" : ".l.pin";
    const lines = [...scope.querySelectorAll(chosen)];
    pane.querySelector("[data-lit]").textContent = lines.length
      ? `${lines.length} line${lines.length > 1 ? "s" : ""}`
      : "";
    paintRuler(pane.querySelector(".ruler"), scope.querySelector(".body"), lines);
  }
}

// Ticks at the right edge for lit lines, where the text is longer than the pane.
function paintRuler(ruler, body, lines) {
  // Two texts side by side have no one height to mark places on.
  const isOne = body && ruler.parentElement.querySelectorAll(".two .body").length === 0;
  if (!isOne || body.scrollHeight <= body.clientHeight + 1) return ruler.replaceChildren();
  const ticks = lines.slice(0, 400).map((line) => {
    const tick = document.createElement("i");
    tick.style.top = `${((line.offsetTop + 10) / body.scrollHeight) * 100}%`;
    return tick;
  });
  ruler.replaceChildren(...ticks);
}

function paintRail(ids) {
  for (const stage of document.querySelectorAll(".st[data-combinations]")) {
    const combinations = Object.entries(JSON.parse(stage.dataset.combinations));
    const touches = (key) => key.split(" ").some((id) => ids.includes(Number(id)));
    const count = combinations.reduce((sum, [key, lines]) => sum + (touches(key) ? lines : 0), 0);
    stage.classList.toggle("lit", count > 0);
    const total = stage.dataset.total;
    stage.lastElementChild.textContent =
      count > 0 ? count : total === "" ? "…" : Number(total).toLocaleString("en");
  }
}

function paintPanel(id) {
  const panel = document.getElementById("operations");
  const facts = id === null || id === undefined ? null : panel.querySelector(`[data-operation="${id}"]`);
  shown = facts ? id : null;
  for (const other of panel.children) other.hidden = other !== facts;
  document.getElementById("operation-none").hidden = !!facts;
  document.getElementById("operation-label").textContent = facts?.dataset.label ?? "";
  document.getElementById("operation-op").textContent = facts?.dataset.op ?? "";
  const button = document.querySelector('[data-act="pin"]');
  button.disabled = !facts;
  const isPinned = !!facts && pin === id;
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
  const ids = [...document.querySelectorAll("#operations [data-operation]")].map((facts) =>
    Number(facts.dataset.operation),
  );
  if (!ids.length || isBroken()) return;
  const at = ids.indexOf(lit.at(-1) ?? shown);
  const next = at < 0 ? (by > 0 ? 0 : ids.length - 1) : (at + by + ids.length) % ids.length;
  point([ids[next]]);
  revealAll();
}

// Bring a lit line into sight in every pane that shows none.
function revealAll() {
  for (const pane of paneElements()) {
    for (const body of bodiesOf(pane)) revealIn(body);
  }
}

function revealIn(body) {
  const lines = [...body.querySelectorAll(".l.lit")];
  if (!lines.length) return;
  const isSeen = ({ offsetTop }) =>
    offsetTop >= body.scrollTop && offsetTop + 20 <= body.scrollTop + body.clientHeight;
  const best = lines.find((line) => !line.classList.contains("shared")) ?? lines[0];
  if (!lines.some(isSeen)) body.scrollTop = Math.max(0, best.offsetTop - body.clientHeight / 3);
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
  on("facts", (facts) => !facts.ok && point([]));
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
