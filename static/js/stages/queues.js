// What lies in the queues, beside the two units' programs: the records that a run told one by one, as the cursor
// finds them; and the lines that push and pop them.
import { h, need, queryAll, whole } from "../dom.js";
import { on } from "../state.js";
/** @import { QueueRecord } from "../types.d.ts" */

const ROWS = 40; // slots drawn at most
const MOST_FREE = 4; // empty ones above the records

/** @type {QueueRecord[]} */
let records = [];
let at = 0;

// Those pushed and not yet popped.
const inQueue = () => records.filter(({ cycle, popped }) => cycle <= at && at < popped);

/** @param {number} value */
const figure = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(2));

/**
 * @param {QueueRecord} record
 * @param {boolean} isNext whether it is the next to be popped
 */
function slot({ token, values }, isNext) {
  const text = !values.length ? "" : values.length === 1 ? figure(values[0]) : `${figure(values[0])}, … ${values.length}`;
  const title = `${token}${values.length ? `: ${values.slice(0, 64).map(figure).join(", ")}${values.length > 64 ? " …" : ""}` : ", no data"}`;
  const row = h("li.slot", { title }, h("span", token), h(values.length ? "span" : "span.no", text));
  if (!values.length) row.classList.add("bare");
  if (isNext) row.classList.add("out");
  return row;
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
    h("ol", { tabindex: "0", "aria-label": "Control tokens and their data, the next to be popped first" }, ...rows, ...empty),
    h("p.label", "↓ pop"),
  ];
}

// The line that pushed the newest record, and the branch that takes the next one.
function paintLines() {
  for (const line of queryAll(document, "#panes .l.here")) line.classList.remove("here");
  const pushed = records.findLast(({ cycle }) => cycle <= at);
  const taken = records.findLast(({ popped }) => popped <= at);
  for (const pane of queryAll(document, "#panes .pane:has(.two)")) {
    if (pushed) mark(queryAll(pane, ".unit:first-child .l"), ` = ${pushed.token}`, "callback(");
    if (taken) mark(queryAll(pane, ".unit:last-child .l"), `== ${taken.token})`, "if (");
  }
}

/**
 * A token may be of several kernels: then no line is known to be the one.
 * @param {HTMLElement[]} lines
 * @param {string} end
 * @param {string} begin
 */
function mark(lines, end, begin) {
  const found = lines.filter((line) => {
    const code = need(line, ".t").textContent;
    return code.includes(begin) && code.includes(end);
  });
  if (found.length === 1) found[0].classList.add("here");
}

function paint() {
  for (const place of queryAll(document, "#panes .slots")) place.replaceChildren(...slots());
  paintLines();
}

export function startQueues() {
  on("simulated", (result) => {
    records = result.pushed_first;
    paint();
  });
  on("cursor", (cycle) => {
    at = cycle;
    if (records.length) paint();
  });
  on("painted", paint);
  on("facts", ({ ok }) => {
    // Another program has other tokens.
    if (ok) records = [];
  });
  paint();
}
