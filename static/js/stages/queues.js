// What lies in the queues, beside the two units' programs: the records that a run told one by one, as the cursor
// finds them; and the lines that push and pop them.
import { around, byId, h, need, queryAll, whole } from "../dom.js";
import { say } from "../page.js";
import { shownData } from "../run/data.js";
import { on } from "../state.js";
/** @import { QueueRecord } from "../types.d.ts" */

const ROWS = 40; // slots drawn at most
const MOST_FREE = 4; // empty ones above the records

/** @type {QueueRecord[]} */
let records = [];
let data = ""; // what the run was on
let told = ""; // where the slot that was clicked last is from
let at = 0;

// Those pushed and not yet popped.
const inQueue = () => records.filter(({ cycle, popped }) => cycle <= at && at < popped);

/** @param {number} value */
const figure = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(2));

/**
 * @param {QueueRecord} record
 * @param {boolean} isNext whether it is the next to be popped
 */
function slot({ token, values, held, sources }, isNext) {
  const first = !values.length ? "" : values.length === 1 ? figure(values[0]) : `${figure(values[0])}, … ${values.length}`;
  const figures = values.length ? values.slice(0, 64).map(figure).join(", ") + (values.length > 64 ? " …" : "") : "no data";
  const from = held.map((name, of) => sourceOf(name, sources[of])).join("; ");
  const title = `${token}${from ? `, ${from}` : ""}: ${figures}`;
  const text = held[0] ?? first;
  const button = h("button", { type: "button", title: `${title}; go to its line`, "data-token": token, "data-from": from }, h("span", token), " ", h(values.length ? "span" : "span.no", text));
  const row = h("li.slot", button);
  if (!values.length) row.classList.add("bare");
  if (isNext) row.classList.add("out");
  return row;
}

/**
 * `row 9107 of T: bag 12, entry 3, idx[1543]`.
 * @param {string} name
 * @param {string} source
 */
function sourceOf(name, source) {
  const [, array, place] = name.match(/^(.+)\[(.+)\]$/) ?? ["", name, ""];
  return `${place.includes(",") ? place : `row ${place}`} of ${array}${source ? `: ${source}` : ""}`;
}

function slots() {
  const held = inQueue();
  const last = records.at(-1);
  if (!last) return [h("p.label", "Run on dae: the first tokens appear here.")];
  if (!held.length && at > last.popped)
    return [h("p.label", `Told one by one: the first ${records.length} tokens, to cycle ${whole(last.popped)}.`)];
  const rows = held.slice(0, ROWS).map((record, index) => slot(record, index === 0));
  const free = Math.max(0, Math.min(MOST_FREE, ROWS - rows.length));
  const empty = Array.from({ length: free }, () => h("li.slot.free", { "aria-hidden": "true" }, h("span", "\u00a0"), h("span", "\u00a0")));
  return [
    h("p.label", `cycle ${whole(at)}, push ↓`),
    h("ol", { "aria-label": "Control tokens and their data, the next to be popped first" }, ...rows, ...empty),
    h("p.label", "↓ pop"),
    h("p.source-of", { "aria-live": "polite" }, told),
  ];
}

// The line that pushed the newest record, and the branch that takes the next one.
function paintLines() {
  for (const line of queryAll(document, "#panes .l.here")) line.classList.remove("here");
  const pushed = records.findLast(({ cycle }) => cycle <= at);
  const taken = records.findLast(({ popped }) => popped <= at);
  for (const pane of queryAll(document, "#panes .pane:has(.two)")) {
    if (pushed) pusher(pane, pushed.token)?.classList.add("here");
    if (taken) one(queryAll(pane, ".unit:last-child .l"), `== ${taken.token})`, "if (")?.classList.add("here");
    if (pushed) slcLines(pane, pushed.token).forEach((line) => line.classList.add("here"));
  }
}

/**
 * The line of the access unit that pushes a token.
 * @param {HTMLElement} pane
 * @param {string} token
 */
const pusher = (pane, token) => one(queryAll(pane, ".unit:first-child .l"), ` = ${token}`, "callback(");

/**
 * The callbacks in SLC that a token stands for: they are of the same operations, and of those in the same order.
 * @param {HTMLElement} pane the one of DLC
 * @param {string} token
 */
function slcLines(pane, token) {
  const own = pusher(pane, token);
  if (!own) return [];
  const like = (/** @type {HTMLElement} */ line) => line.dataset.operations === own.dataset.operations;
  const tokens = queryAll(pane, ".unit:first-child .l").filter((line) => like(line) && codeOf(line).includes("callback("));
  return queryAll(document, '#panes .pane[data-stage^="slc"]:not(:has(.diff))').flatMap((other) => {
    const callbacks = queryAll(other, ".l").filter((line) => like(line) && codeOf(line).includes("callback {"));
    if (callbacks.length === tokens.length) return [callbacks[tokens.indexOf(own)]];
    return callbacks.length === 1 ? callbacks : [];
  });
}

/** @param {HTMLElement} line */
const codeOf = (line) => need(line, ".t").textContent;

/**
 * A token may be of several kernels: then no line is known to be the one.
 * @param {HTMLElement[]} lines
 * @param {string} end
 * @param {string} begin
 */
function one(lines, end, begin) {
  const found = lines.filter((line) => codeOf(line).includes(begin) && codeOf(line).includes(end));
  return found.length === 1 ? found[0] : null;
}

/**
 * To the line that pushes a slot's token, in the pane beside it.
 * @param {HTMLElement} button
 */
function goToLine(button) {
  const pane = around(button, ".pane");
  const line = pane && pusher(pane, button.dataset.token ?? "");
  if (!line) return say("Several kernels have a token of this name: its line is not known.");
  line.scrollIntoView({ block: "center" });
  for (const each of queryAll(pane, ".l.here")) each.classList.toggle("here", each === line);
  line.classList.add("here");
}

/**
 * Where a slot's rows are from, beside the slots and, where they are a strip, in a corner.
 * @param {string} from
 */
function tellSource(from) {
  told = `${from} in ${data}`;
  for (const place of queryAll(document, "#panes .slots .source-of")) place.textContent = told;
  say(told);
}

function paint() {
  for (const place of queryAll(document, "#panes .slots")) place.replaceChildren(...slots());
  paintLines();
}

export function startQueues() {
  on("simulated", (result) => {
    records = result.pushed_first;
    data = shownData(result.data.name);
    told = "";
    paint();
  });
  on("cursor", (cycle) => {
    at = cycle;
    if (records.length) paint();
  });
  on("painted", paint);
  byId("panes").addEventListener("click", ({ target }) => {
    const button = around(target, ".slot > button");
    if (!button) return;
    goToLine(button);
    if (button.dataset.from) tellSource(button.dataset.from);
  });
  on("facts", ({ ok }) => {
    // Another program has other tokens.
    if (ok) records = [];
  });
  paint();
}
