// Where the lines of each operation stand, looked up once after every swap: pointing must not search the page.
import { need, queryAll } from "../dom.js";
import { ROW, bodiesOf, paneElements } from "./panes.js";

const FOLDED = -1; // the row of a line that is counted, but has no place of its own

/**
 * @typedef {object} Text a text in a pane
 * @property {HTMLElement} body
 * @property {number} height of what is seen of it
 * @property {number} rows
 * @property {boolean} isCounted
 * @property {boolean} isDrawn as a graph, in place of lines
 *
 * @typedef {object} IndexedPane
 * @property {HTMLElement} pill
 * @property {HTMLElement} ruler
 * @property {Text[]} texts
 *
 * @typedef {{ pane: IndexedPane, text: Text, row: number }} LinePlace
 *
 * @typedef {object} Stage on the rail
 * @property {HTMLElement} button
 * @property {HTMLElement} counter
 * @property {string} total
 * @property {Record<string, number>} own how many lines are an operation's own
 */

/** @type {Map<number, Element[]>} by operation its lines, over all panes and the model's line on a phone */
let linesOf = new Map();
/** @type {Map<Element, number>} by line the operation that it is of; not those that a pass made for several */
let ownOf = new Map();
/** @type {Map<Element, LinePlace>} */
let places = new Map();
/** @type {IndexedPane[]} */
let panes = [];
/** @type {Stage[]} */
let stages = [];

/** @param {string} words */
const numbers = (words) => words.split(" ").map(Number);

/** @param {Element} line a line, or a node of a drawing */
export const operationsOf = (line) => numbers(line.getAttribute("data-operations") ?? "");

/**
 * The operation that a line is of: the first of those that it names, if no pass made it for several.
 * @param {Element} line
 */
export const ownOperation = (line) => (line.hasAttribute("data-made") ? null : operationsOf(line)[0]);

export function indexLines() {
  linesOf = new Map();
  ownOf = new Map();
  places = new Map();
  heights.disconnect();
  panes = paneElements().map(indexPane);
  for (const line of queryAll(document, "#panes [data-operations], #source [data-operations]", Element)) {
    const own = ownOperation(line);
    if (own !== null) ownOf.set(line, own);
    for (const id of operationsOf(line)) {
      const lines = linesOf.get(id) ?? [];
      linesOf.set(id, lines);
      lines.push(line);
    }
  }
  stages = queryAll(document, ".st[data-own]").map(indexStage);
}

/**
 * @param {HTMLElement} button
 * @returns {Stage}
 */
function indexStage(button) {
  const { total = "", own = "{}" } = button.dataset;
  return { button, counter: need(button, ":scope > :last-child"), total, own: JSON.parse(own) };
}

/**
 * Of a difference only the newer side is counted and marked at the edge; of two units, both are counted.
 * @param {HTMLElement} element
 */
function indexPane(element) {
  const bodies = bodiesOf(element);
  const isDifference = element.querySelector(".diff") !== null;
  const counted = isDifference ? bodies.slice(-1) : bodies;
  /** @type {IndexedPane} */
  const pane = { pill: need(element, "[data-lit]"), ruler: need(element, ".ruler"), texts: [] };
  // A narrow screen does not show the rows that only fill a difference up; what is folded has no place of its own.
  const shown = `.l:not(.behind .l${matchMedia("(max-width: 699px)").matches ? ", .fill" : ""})`;
  pane.texts = bodies.map((body) => {
    const lines = queryAll(body, shown);
    const text = { body, height: 0, rows: lines.length, isCounted: counted.includes(body), isDrawn: false };
    lines.forEach((line, row) => places.set(line, { pane, text, row }));
    for (const line of queryAll(body, ".behind .l")) places.set(line, { pane, text, row: FOLDED });
    return text;
  });
  for (const body of bodies) heights.observe(body);
  for (const node of queryAll(element, ".drawing [data-operations]", Element))
    places.set(node, { pane, text: { ...pane.texts[0], isDrawn: true }, row: 0 });
  return pane;
}

// The heights of the bodies are told, not asked for: asking would lay the page out.
const heights = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const text = panes.flatMap((pane) => pane.texts).find(({ body }) => body === target);
    if (text) text.height = contentRect.height;
  }
});

/** @param {number[]} ids */
export const linesOfOperations = (ids) => new Set(ids.flatMap((id) => linesOf.get(id) ?? []));

/**
 * Those of some lines to which the operations only contribute.
 * @param {Element[]} lines
 * @param {number[]} ids
 */
export const partsIn = (lines, ids) => lines.filter((line) => !ids.includes(ownOf.get(line) ?? -1));

/**
 * The count in each pane's header, and ticks at its right edge where the text is longer than the pane.
 * @param {Element[]} lines
 */
export function paintCounts(lines) {
  /** @type {Map<IndexedPane, LinePlace[]>} */
  const found = new Map(panes.map((pane) => [pane, []]));
  for (const line of lines) {
    const place = places.get(line);
    if (place?.text.isCounted) found.get(place.pane)?.push(place);
  }
  for (const [{ pill, ruler, texts }, ofPane] of found) {
    const count = ofPane.length;
    const what = ofPane[0]?.text.isDrawn ? "node" : "line";
    setText(pill, count ? `${count} ${what}${count > 1 ? "s" : ""}` : "");
    // Two texts side by side have no one height to mark places on.
    paintRuler(ruler, texts.filter(({ isCounted }) => isCounted).length === 1 ? ofPane : []);
  }
}

/**
 * @param {HTMLElement} ruler
 * @param {LinePlace[]} found
 */
function paintRuler(ruler, found) {
  const ticks = found.slice(0, 400).flatMap(({ text, row }) => {
    const height = text.rows * ROW + 12;
    if (row === FOLDED || height <= text.height + 1) return [];
    const tick = document.createElement("i");
    tick.style.top = `${((row * ROW + 14) / height) * 100}%`;
    return [tick];
  });
  if (ticks.length || ruler.firstChild) ruler.replaceChildren(...ticks);
}

/** @param {number[]} ids */
export function paintRail(ids) {
  for (const { button, counter, total, own } of stages) {
    const count = ids.reduce((sum, id) => sum + (own[id] ?? 0), 0);
    button.classList.toggle("lit", count > 0);
    const words = count > 0 ? count : Number(total) ? Number(total).toLocaleString("en") : unmade(button);
    setText(counter, String(words));
  }
}

/**
 * What stands in the place of a count: one without lines cannot be made, one that is made on demand waits for a pane,
 * any other for its answer.
 * @param {HTMLElement} button
 */
const unmade = (button) =>
  button.dataset.total === "0" ? "none" : button.matches("[data-late]:not([aria-pressed='true'])") ? "on demand" : "…";

/**
 * @param {HTMLElement} element
 * @param {string} text
 */
const setText = (element, text) => element.textContent !== text && (element.textContent = text);

// How each body is scrolled; asked for before anything is painted, when the layout is still good.
export const scrolled = () =>
  new Map(panes.flatMap(({ texts }) => texts.map(({ body }) => [body, body.scrollTop])));

/**
 * Bring a lit line into sight in every text that shows none; one of its own rather than one that it contributes to.
 * @param {Set<Element>} lines
 * @param {Map<HTMLElement, number>} tops
 */
export function reveal(lines, tops) {
  /** @type {Map<Text, { row: number, isPart: boolean }[]>} */
  const byText = new Map();
  for (const line of lines) {
    const place = places.get(line);
    if (!place || place.text.isDrawn || place.row === FOLDED) continue;
    const rows = byText.get(place.text) ?? [];
    byText.set(place.text, rows);
    rows.push({ row: place.row, isPart: line.classList.contains("part") });
  }
  for (const [{ body, height }, rows] of byText) {
    const top = tops.get(body) ?? 0;
    if (rows.some(({ row }) => row * ROW + 4 >= top && (row + 1) * ROW + 4 <= top + height)) continue;
    const { row } = rows.find(({ isPart }) => !isPart) ?? rows[0];
    body.scrollTop = Math.max(0, (row - Math.floor(height / 3 / ROW)) * ROW + 4);
  }
}
