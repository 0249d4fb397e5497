// The source of a model that was imported from PyTorch, beside the panes: a line of it and the lines of the text that
// compute what it asks for light up together, by the operations of these. It imports no more than other parts that are
// fetched later, so that the page's first script stays one.
import { around, byId, need, queryAll } from "../dom.js";
import { emit, on, state } from "../state.js";

const FOLDER = "pytorch/";
/** @type {string[]} the text's lines as they were traced */
let traced = [];
/** Whether the source is out of sight while another text stands in the place of its model. */
let isAside = false;
/** @type {HTMLElement | null} the line of the source that is pointed at: it alone is lit then */
let pointed = null;

const panel = () => byId("imported");
const buttons = () => queryAll(panel(), "[data-asks]");

/** @param {HTMLElement} button */
const asks = (button) => (button.dataset.asks ?? "").split(" ").map(Number);

// A line of the text as it is now, by the lines above or below it that are as they were traced; 0 where it was changed.
function linesNow() {
  const now = (state.goodInput?.text ?? state.text).trimEnd().split("\n");
  const most = Math.min(now.length, traced.length);
  let head = 0;
  while (head < most && now[head] === traced[head]) head += 1;
  let tail = 0;
  while (tail < most - head && now.at(-1 - tail) === traced.at(-1 - tail)) tail += 1;
  const moved = now.length - traced.length;
  return (/** @type {number} */ line) => (line <= head ? line : line > traced.length - tail ? line + moved : 0);
}

/**
 * The operations that a line of the source became.
 * @param {HTMLElement} button
 */
export function operationsOf(button) {
  const now = linesNow();
  const lines = new Set(asks(button).map(now));
  return (state.goodFacts?.operations ?? []).filter(({ line }) => lines.has(line)).map(({ id }) => id);
}

/** @param {number[]} ids */
function linesOf(ids) {
  const found = (state.goodFacts?.operations ?? []).filter(({ id }) => ids.includes(id));
  return new Set(found.map(({ line }) => line));
}

/** @param {{ lit: number[], pin: number | null }} marks */
function paint({ lit, pin }) {
  const now = linesNow();
  const [litLines, pinLines] = [linesOf(lit), linesOf(pin === null ? [] : [pin])];
  for (const button of buttons()) {
    const own = asks(button).map(now);
    button.classList.toggle("lit", pointed ? button === pointed : own.some((line) => litLines.has(line)));
    button.classList.toggle("pin", own.some((line) => pinLines.has(line)));
  }
}

/** @param {EventTarget | null} target */
function point(target) {
  const line = around(target, "[data-asks]");
  if (line === pointed) return;
  pointed = line;
  emit("point", line ? operationsOf(line) : []);
}

// Whether a text is the source's, as somebody has changed it: half of the lines that the source asks for are in it.
function isOwn(/** @type {string} */ text) {
  const there = new Set(text.split("\n").map((line) => line.trim()));
  const asked = [...new Set(buttons().flatMap(asks))].map((line) => (traced[line - 1] ?? "").trim());
  return asked.filter((line) => there.has(line)).length * 2 >= asked.length;
}

// The source goes with its model: another text in its place is read without it.
function follow(/** @type {string} */ text) {
  if (panel().hidden && !isAside) return;
  isAside = !isOwn(text);
  panel().hidden = isAside;
}

export function closeSource() {
  isAside = false;
  pointed = null;
  panel().hidden = true;
  panel().replaceChildren();
}

/**
 * Whether the source of the example that the page shows now is there, where it has one.
 * @param {string} key
 */
export async function showSource(key) {
  if (!key.startsWith(FOLDER)) {
    closeSource();
    return true;
  }
  const answer = await fetch(`/guide/imported/${key.slice(FOLDER.length)}`).catch(() => null);
  const text = answer?.ok ? await answer.text() : null;
  if (state.example !== key) return true;
  if (text === null) return false;
  panel().replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.children);
  traced = (need(panel(), ".code").dataset.text ?? "").trimEnd().split("\n");
  panel().hidden = false;
  follow(state.text);
  buttons()[0]?.scrollIntoView({ block: "nearest" });
  return true;
}

panel().addEventListener("mouseover", ({ target }) => point(target));
panel().addEventListener("mouseleave", () => point(null));
panel().addEventListener("focusin", ({ target }) => point(target));
panel().addEventListener("focusout", ({ relatedTarget }) => point(relatedTarget));
on("marks", paint);
on("replaced", follow);
