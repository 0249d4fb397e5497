// Where time goes, in a column beside the code: of each line the time of its operation, asked for only while it is shown.
import { byId, h, need, queryAll } from "../dom.js";
import { say } from "../page.js";
import { isBroken, isCurrent, keep, on, state } from "../state.js";
import { ownOperation } from "./lines.js";
import { paneElements } from "./panes.js";
/** @import { Heat, Figure } from "../types.d.ts" */

const PAUSE = 300; // after the panes have changed: nobody waits for a key less because of this
const TITLE = "Where time goes, beside each line: of its operation (h)";
const LEAST_SHARE = 0.005; // that a bar shows

/** @type {Heat | null} */
let heat = null;
let known = ""; // what was asked for it
/** @type {AbortController | null} */
let asked = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

const button = () => need(document, '.top > [data-act="heat"]');

// What the figures depend on: the model and its settings, and not how the panes show it.
function formOf() {
  const input = state.goodInput;
  if (!input) return null;
  return new URLSearchParams({
    text: input.text,
    edit: "0",
    sizes: JSON.stringify(input.sizes),
    default_sizes: JSON.stringify(input.defaultSizes),
    options: JSON.stringify(input.options),
    schedule: JSON.stringify(input.schedule),
    edited: JSON.stringify(input.edited),
    data: input.data,
    // Samples of the machine code are told where it is shown.
    panes: JSON.stringify(state.panes.filter(({ stage }) => stage === "sass").slice(0, 1).map(({ stage }) => ({ stage }))),
  });
}

async function fetchHeat() {
  const body = formOf();
  if (!body || isBroken() || !isCurrent()) return;
  const content = body.toString();
  if (content === known) return paint();
  asked?.abort();
  const own = (asked = new AbortController());
  try {
    const answer = await fetch("/heat", { method: "POST", body, signal: own.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    heat = await answer.json();
    known = content;
    if (heat?.reason) say(heat.reason);
  } catch {
    if (own.signal.aborted) return;
    heat = null;
    say("The times of operations did not arrive. Press h twice to ask again.");
  }
  paint();
}

// Soon, once: an edit's panes come in several pieces.
function askSoon() {
  clearTimeout(timer);
  if (state.heat) timer = setTimeout(fetchHeat, PAUSE);
}

/**
 * @param {HTMLElement} pane one that shows the newest text; samples are of the best form of machine code alone
 */
function* linesWithFigures(pane) {
  if ("waiting" in pane.dataset) return;
  // Of a difference the newer side: what is compared with may be of other sizes.
  const isDifference = pane.querySelector(".diff") !== null;
  const isMeasured = pane.dataset.stage === "sass" && !("first" in pane.dataset);
  const lines = isMeasured ? heat?.lines : undefined;
  const busiest = Math.max(...Object.values(lines ?? {}).map(({ share }) => share));
  for (const line of queryAll(pane, `${isDifference ? ".side:last-child " : ""}.l`)) {
    const own = line.hasAttribute("data-operations") ? ownOperation(line) : null;
    const measured = lines?.[Number(need(line, ".g").textContent)];
    if (measured) yield { line, own: null, figure: { ...measured, share: measured.share / busiest } };
    else yield { line, own, figure: own === null || lines ? undefined : heat?.operations?.[own] };
  }
}

/**
 * The figure of an operation, on the first of the lines that it has one after another; on all a bar of its share.
 * @param {Figure} figure
 * @param {boolean} isFirst
 */
function cellOf(figure, isFirst) {
  const cell = h("span.heat", { "aria-hidden": "true", title: figure.words }, isFirst ? figure.short : "");
  cell.style.setProperty("--share", figure.share < LEAST_SHARE ? "0" : String(figure.share));
  return cell;
}

/** @param {Figure} figure */
const rowsOf = ({ words }) => [h("dt.heat-words", "time"), h("dd.heat-words", words)];

function clear() {
  for (const cell of queryAll(byId("panes"), ".l > .heat")) cell.remove();
  for (const row of queryAll(document, "#operations .heat-words")) row.remove();
}

function paint() {
  clear();
  byId("panes").classList.toggle("heated", state.heat);
  button().setAttribute("aria-pressed", String(state.heat));
  button().title = [TITLE, state.heat && (heat?.basis ?? heat?.reason)].filter(Boolean).join(": ");
  // Figures of an older text are of other operations: the column stays empty until its own arrive.
  if (!state.heat || !heat || known !== formOf()?.toString()) return;
  for (const pane of paneElements()) {
    let before = null;
    for (const { line, own, figure } of linesWithFigures(pane)) {
      if (figure) need(line, ".g").after(cellOf(figure, own === null || own !== before));
      before = own;
    }
  }
  for (const facts of queryAll(document, "#operations [data-operation]")) {
    const figure = heat.operations?.[Number(facts.dataset.operation)];
    if (figure) facts.prepend(...rowsOf(figure)); // first, for the panel is low
  }
}

/** @param {boolean} isOn as it was kept, or as a reader wants it */
export function showHeat(isOn) {
  state.heat = isOn;
  if (!isOn) asked?.abort();
  paint();
  if (isOn) askSoon();
}

export function toggleHeat() {
  showHeat(!state.heat);
  keep();
  if (state.heat && heat?.reason) say(heat.reason);
}

export function startHeat() {
  on("painted", () => {
    if (!state.heat) return;
    paint();
    askSoon();
  });
}
