// What lies in the queues, beside the two units' programs: the records that a run told one by one, as the cursor
// finds them; and the lines that push and pop them.
import { h, whole } from "./dom.js";
import { on } from "./state.js";

const ROWS = 40; // slots drawn at most
const MOST_FREE = 4; // empty ones above the records

let records = []; // {token, cycle, popped, values}
let at = 0;

const isTimed = () => records.length > 0 && records.every(({ popped }) => popped !== undefined);

// Those pushed and not yet popped; of a run that does not say when it popped, all that it told.
const inQueue = () => (isTimed() ? records.filter(({ cycle, popped }) => cycle <= at && at < popped) : records);

const figure = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(2));

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
  if (!records.length) return [h("p.label", "Run on dae: the first tokens appear here.")];
  if (isTimed() && !held.length && at > (last?.popped ?? 0))
    return [h("p.label", `Told one by one: the first ${records.length} tokens, to cycle ${whole(last.popped)}.`)];
  const rows = held.slice(0, ROWS).map((record, index) => slot(record, index === 0 && isTimed()));
  const free = Math.max(0, Math.min(MOST_FREE, ROWS - rows.length));
  const empty = Array.from({ length: free }, () => h("li.slot.free", { "aria-hidden": "true" }, h("span", "\u00a0"), h("span", "\u00a0")));
  return [
    h("p.label", isTimed() ? `cycle ${whole(at)}, push ↓` : "first tokens, push ↓"),
    h("ol", { tabindex: "0", "aria-label": "Control tokens and their data, the next to be popped first" }, ...rows, ...empty),
    h("p.label", "↓ pop"),
  ];
}

// The line that pushed the newest record, and the branch that takes the next one.
function paintLines() {
  for (const line of document.querySelectorAll("#panes .l.here")) line.classList.remove("here");
  if (!isTimed()) return;
  const pushed = records.findLast(({ cycle }) => cycle <= at);
  const taken = records.findLast(({ popped }) => popped <= at);
  for (const pane of document.querySelectorAll("#panes .pane:has(.two)")) {
    if (pushed) mark(pane.querySelectorAll(".unit:first-child .l"), ` = ${pushed.token}`, "callback(");
    if (taken) mark(pane.querySelectorAll(".unit:last-child .l"), `== ${taken.token})`, "if (");
  }
}

// A token may be of several kernels: then no line is known to be the one.
function mark(lines, end, begin) {
  const found = [...lines].filter(({ lastElementChild: { textContent: text } }) => text.includes(begin) && text.includes(end));
  if (found.length === 1) found[0].classList.add("here");
}

function paint() {
  for (const place of document.querySelectorAll("#panes .slots")) place.replaceChildren(...slots());
  paintLines();
}

export function startQueues() {
  on("simulated", (result) => {
    records = result.pushed_first ?? [];
    paint();
  });
  on("cursor", (cycle) => {
    at = cycle;
    if (isTimed()) paint();
  });
  on("painted", paint);
  on("facts", ({ ok }) => {
    // Another program has other tokens.
    if (ok) records = [];
  });
  paint();
}
