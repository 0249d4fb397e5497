// One operation, lit everywhere: in the model, in every pane, in the counts. Only classes are toggled.
import { around, byId, need, queryAll } from "../dom.js";
import {
  indexLines,
  linesOfOperations,
  ownOperation,
  paintCounts,
  paintRail,
  partsIn,
  reveal,
  scrolled,
} from "./lines.js";
import { activePane } from "./panes.js";
import { emit, isBroken, on } from "../state.js";
/** @typedef {Record<"lit" | "pin" | "part", Set<Element>>} Marked */

const REST = 100; // ms without a scroll

/** @type {number[]} the operations under the pointer or the keyboard */
let lit = [];
/** @type {number | null} the operation that stays */
let pin = null;
/** @type {number | null} the operation in the panel */
let shown = null;
/** @type {Map<number | null, HTMLElement>} by operation its facts in the panel, in the order of the text */
let facts = new Map();
/** @type {Marked} the lines that carry a class now */
let marked = { lit: new Set(), pin: new Set(), part: new Set() };
/** @type {HTMLElement | null} the line that was stepped to */
let cursor = null;

export const pinned = () => pin;

/** The operation that the reader means: pointed at, pinned, or in the panel. */
export const chosenOperation = () => lit.at(-1) ?? pin ?? shown;

// The lines are looked up when they are asked for, and else behind the frame that shows them.
let isIndexed = false;
/** @param {() => void} then */
const afterFrame = (then) => requestAnimationFrame(() => setTimeout(then));

function index() {
  if (isIndexed) return;
  isIndexed = true;
  mark({ lit: new Set(), pin: new Set(), part: new Set() });
  indexLines();
  const all = queryAll(document, "#operations [data-operation]");
  facts = new Map([...all].map((element) => [Number(element.dataset.operation), element]));
}

/**
 * Toggle the class of the lines that gain or lose it, and of no other.
 * @param {Marked} wanted
 */
function mark(wanted) {
  for (const name of /** @type {const} */ (["lit", "pin", "part"])) {
    for (const line of marked[name]) if (!wanted[name].has(line)) line.classList.remove(name);
    for (const line of wanted[name]) if (!marked[name].has(line)) line.classList.add(name);
  }
  marked = wanted;
}

function paint() {
  index();
  const shownLit = isBroken() ? [] : lit;
  const shownPin = isBroken() || pin === null || lit.includes(pin) ? [] : [pin];
  const [litLines, pinLines] = [linesOfOperations(shownLit), linesOfOperations(shownPin)];
  // A pinned operation's own line that only adds to the one pointed at is lit faintly, and not counted.
  const onlyPinned = [...pinLines].filter((line) => !litLines.has(line));
  const part = new Set([...partsIn([...litLines], shownLit), ...partsIn(onlyPinned, shownPin)]);
  mark({ lit: litLines, pin: pinLines, part });
  paintCounts([...(litLines.size ? litLines : pinLines)].filter((line) => !part.has(line)));
  paintRail(shownLit.length ? shownLit : shownPin);
  paintPanel((lit.length ? lit : pin === null ? [] : [pin]).at(-1) ?? shown);
  emit("marks", isBroken() ? { lit: [], pin: null } : { lit, pin });
}

/** @param {number | null} id */
function paintPanel(id) {
  const before = facts.get(shown);
  const now = facts.get(id);
  if (before !== now && before) before.hidden = true;
  if (now) now.hidden = false;
  shown = now ? id : null;
  byId("operation-none").hidden = !!now;
  byId("operation-label").textContent = now?.dataset.label ?? "";
  byId("operation-op").textContent = now?.dataset.op ?? "";
  const button = need(document, '[data-act="pin"]', HTMLButtonElement);
  button.disabled = !now;
  const isPinned = !!now && pin === id;
  button.setAttribute("aria-pressed", String(isPinned));
  need(button, "span").textContent = isPinned ? "Unpin" : "Pin";
  need(button, "kbd").textContent = isPinned ? "Esc" : "p";
}

/** @param {number[]} ids */
export function point(ids) {
  if (ids.length === lit.length && ids.every((id, at) => id === lit[at])) return;
  lit = ids;
  paint();
}

export function togglePin(id = lit.at(-1) ?? shown) {
  index();
  if (id === null) return;
  pin = pin === id ? null : id;
  paint();
}

export function unpin() {
  if (pin === null) return false;
  pin = null;
  paint();
  return true;
}

/**
 * The operation before or after, in the order of the text.
 * @param {number} by
 */
export function stepOperation(by) {
  index();
  const ids = [...facts.keys()].filter((id) => id !== null);
  if (!ids.length || isBroken()) return;
  const at = ids.findIndex((id) => id === (lit.at(-1) ?? shown));
  const next = at < 0 ? (by > 0 ? 0 : ids.length - 1) : (at + by + ids.length) % ids.length;
  show(ids[next]);
}

/** @param {number} id */
function show(id) {
  index();
  const tops = scrolled();
  point([id]);
  reveal(marked.lit, tops);
}

/**
 * Pins an operation that something outside of the panes speaks of, and scrolls to its lines.
 * @param {number} id
 */
export function leadTo(id) {
  if (isBroken()) return;
  pin = id;
  lit = []; // else it is pointed at already, and nothing scrolls
  show(id);
}

/** @param {number} by lines that are lit or pinned */
export function stepLine(by) {
  const pane = activePane();
  const lines = pane ? queryAll(pane, ".l:is(.lit, .pin):not(.part)") : [];
  if (!lines.length) return;
  const at = lines.findIndex((line) => line === cursor);
  cursor?.classList.remove("at");
  cursor = lines[at < 0 ? (by > 0 ? 0 : lines.length - 1) : (at + by + lines.length) % lines.length];
  cursor.classList.add("at");
  cursor.scrollIntoView({ block: "nearest" });
}

/** @param {EventTarget | null} target in a line, or in a node of a drawing */
const idsOf = (target) => {
  const line = around(target, "[data-operations]", Element);
  const own = line ? ownOperation(line) : null;
  return own === null ? [] : [own];
};

// What comes under the pointer while a pane scrolls is not meant: what it comes to rest on is.
function followPointer() {
  const panes = byId("panes");
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let rest;
  /** @type {EventTarget | null} */
  let under = null;
  const meant = () => {
    rest = undefined;
    if (!isBroken() && !around(under, ".cm-editor")) point(idsOf(under)); // an editor says itself what is pointed at
  };
  panes.addEventListener("mouseover", ({ target }) => {
    under = target;
    if (rest === undefined) meant();
  });
  panes.addEventListener("mouseleave", () => {
    under = null;
    point([]);
  });
  panes.addEventListener("scroll", () => {
    if (!under) return;
    clearTimeout(rest);
    rest = setTimeout(meant, REST);
  }, { capture: true, passive: true });
}

export function startLink() {
  followPointer();
  byId("stages").addEventListener("click", ({ target }) => {
    if (getSelection()?.isCollapsed === false || isBroken()) return;
    const ids = idsOf(target);
    if (!ids.length) return;
    point(ids);
    togglePin(ids.at(-1));
  });
  on("point", (ids) => !isBroken() && point(ids));
  on("facts", ({ ok }) => !ok && point([]));
  // What is lit, pinned or in the panel stays with its operation, and goes with it.
  on("renumbered", (successors) => {
    lit = lit.flatMap((id) => successors.get(id) ?? []);
    pin = successors.get(pin ?? -1) ?? null;
    shown = successors.get(shown ?? -1) ?? null;
  });
  on("painted", () => {
    isIndexed = false;
    if (lit.length || pin !== null) paint();
    else afterFrame(paint);
  });
  afterFrame(index);
}
